"""Do the CPUs kboot may use run at full clock?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

DEFAULT = "performance"
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the cpufreq governor of each allowed CPU with the wanted one."""
    wanted = profile.cpu.governor if profile else DEFAULT
    if not wanted:
        return Finding("skip", "the profile leaves the governor alone")
    if not facts.cpu.governor_of:
        return Finding("skip", "this kernel has no cpufreq (virtual machine or fixed clock)")
    allowed = set(facts.cpu.allowed)
    governors = {n: g for n, g in facts.cpu.governor_of.items() if not allowed or n in allowed}
    off = {n: g for n, g in governors.items() if g != wanted}
    if not off:
        return Finding("ok", f"{len(governors)} of {count(len(governors), 'CPU')} use {wanted}")
    return Finding(
        "warn",
        f"{len(off)} of {count(len(governors), 'CPU')} use {some(sorted(set(off.values())))}, not {wanted}",
        wanted=wanted,
        why="launching kernels and hashing run at a lower clock until the governor reacts",
        hint="`kboot boot --only tune`",
        fixes=tuple(WriteValue(GOVERNOR.format(n), wanted, off[n]) for n in sorted(off)),
    )


CHECK = Check(
    id="cpu.governor",
    asks="Do the CPUs kboot may use run at full clock?",
    source="/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    modes=ON_A_NODE,
    run=run,
)
