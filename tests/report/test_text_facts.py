"""How do the facts of a node read on one screen?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from report_samples import node_facts

from kboot.facts.types import GpuFacts
from kboot.report.text_facts import facts_text

Golden = Callable[[str, str], None]


def test_the_facts_of_a_node(golden: Golden) -> None:
    """One line for each part; what may not be used, differs from the PCI bus or could not be read is said."""
    golden("facts.txt", facts_text(node_facts()))


def test_verbose_facts_list_every_gpu() -> None:
    """-v shows each GPU with memory, address, NUMA node and near CPUs."""
    text = " ".join(facts_text(node_facts(), verbose=True).split())

    assert "0000:1e:00.0, NUMA node unknown" in text
    assert "0000:22:00.0, NUMA node 1, CPUs 60-119" in text


def test_a_driver_that_does_not_answer_is_no_missing_gpu() -> None:
    """What NVML said is shown beside what the PCI bus lists."""
    hung = GpuFacts("hung", "no answer in 120 s", None, None, (), ("0000:1b:00.0",))

    assert "NVML: hung, no answer in 120 s; 1 NVIDIA GPU on the PCI bus" in " ".join(
        facts_text(replace(node_facts(), gpu=hung)).split()
    )


def test_what_is_left_of_a_limit_is_said_where_it_is_known() -> None:
    """A pod's files in memory take of its limit; the limit alone says little of what an engine finds."""
    memory = replace(node_facts().memory, left_bytes=1300 << 30)

    assert "limit 1.86 TiB, 1.27 TiB of it left" in facts_text(replace(node_facts(), memory=memory))
