"""How deep do idle CPUs sleep?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

LONG_US = 1000
"""Servers' deepest states wake in 100 to 800 µs, as their firmware says; longer ones are those of desktops."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name the deepest state that is allowed; only one from which waking takes a millisecond is a warning."""
    states = facts.system.idle_states
    if not states:
        return Finding("skip", "this kernel tells of no idle states (virtual machine, or none in use)")
    used = [state for state in states if not state.disabled]
    if not used:
        return Finding("ok", "no idle state is in use")
    deepest = max(used, key=lambda state: state.latency_us)
    off = [state.name for state in states if state.disabled]
    seen = f"the deepest idle state is {deepest.name}, {deepest.latency_us} µs to wake"
    if deepest.latency_us <= LONG_US:
        return Finding("ok", seen + (f"; off: {some(off)}" if off else ""))
    return Finding(
        "warn",
        seen,
        wanted=f"at most {LONG_US} µs",
        why="each launch of a kernel that wakes a CPU waits so long, which shows in every token of a light load",
        hint=f"`cpupower idle-set -D {LONG_US}`, or intel_idle.max_cstate=1 on the kernel command line",
    )


CHECK = Check(
    id="cpu.cstates",
    asks="How deep do idle CPUs sleep?",
    source="/sys/devices/system/cpu/cpu0/cpuidle/state*/{name,latency,disable}",
    modes=ON_A_NODE,
    run=run,
)
