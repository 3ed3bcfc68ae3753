"""Do all nodes of the fleet run the same checkpoint, engine and driver, with the same caches and network?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.agreement import differences, odd_nodes, sentence
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

_ALONE = "no fleet is asked for, or its nodes have not met since this machine was started"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge what the nodes stated when they met last; nobody is asked now."""
    stated = facts.fleet.statements
    if len(stated) < 2:
        return Finding("skip", _ALONE)
    found = differences(stated)
    when = f"{show_roughly(facts.collected_unix_s - facts.fleet.stated_unix_s)} ago"
    if not found:
        return Finding("ok", f"{count(len(stated), 'node')} stated the same, {when}")
    odd = sorted(odd_nodes(found))
    return Finding(
        "fail" if any(each.stops for each in found) else "warn",
        f"{some((sentence(each) for each in found), 3)} ({when})",
        wanted="the same on every node",
        why="ranks with different code, kernels or bytes hang in a collective, or answer differently",
        hint=f"bring {some(odd)} in line, then `kboot boot` there"
        if odd
        else "decide which is right: `kboot fleet status`",
    )


CHECK = Check(
    id="fleet.agree",
    asks="Do all nodes of the fleet run the same checkpoint, engine and driver?",
    source="fleet.json of the runtime folder, written when the nodes met",
    modes=ON_A_NODE,
    run=run,
)
