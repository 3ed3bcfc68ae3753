"""Which kernel settings differ from what the profile asks for?"""

from __future__ import annotations

from dataclasses import replace

import literals

from kboot.facts.types import TuneFacts
from kboot.plan.tune import plan_tune, selected
from kboot.profile.types import CpuAsk, TuneAsk

THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def test_each_cpu_off_the_wanted_governor_is_written() -> None:
    """One write per CPU whose governor differs, with what it is now."""
    facts = literals.node(literals.cpu_facts([range(2)], governor_of={0: "powersave", 1: "performance"}))
    writes = plan_tune(facts, literals.profile())

    assert [("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave", "performance")] == [
        (w.path, w.before, w.value) for w in writes
    ]


def test_a_choice_file_is_read_by_its_chosen_word() -> None:
    """ "always [madvise] never" is madvise: a node that has it needs no write."""
    facts = replace(literals.node(literals.cpu_facts([range(2)])), tune=TuneFacts({THP: "always [madvise] never"}))

    assert () == plan_tune(facts, literals.profile(tune=TuneAsk(settings={THP: "madvise"})))
    assert ["madvise"] == [w.before for w in plan_tune(facts, literals.profile(tune=TuneAsk(settings={THP: "always"})))]


def test_a_setting_this_kernel_does_not_have_is_not_written() -> None:
    """A path that is absent is left alone: nothing is guessed."""
    facts = literals.node(literals.cpu_facts([range(2)]))

    assert () == plan_tune(facts, literals.profile(tune=TuneAsk(settings={"/proc/sys/kernel/absent": "1"})))


def test_an_empty_governor_leaves_every_cpu_alone() -> None:
    """cpu.governor = "" asks for nothing."""
    facts = literals.node(literals.cpu_facts([range(2)], governor_of={0: "powersave", 1: "powersave"}))

    assert () == plan_tune(facts, literals.profile(cpu=CpuAsk(governor="")))


def test_values_without_brackets_are_themselves() -> None:
    """Plain values and odd brackets are not choices."""
    assert ["0", "", "a]b["] == [selected(v) for v in ("0", "", "a]b[")]
