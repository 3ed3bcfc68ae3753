"""Is the port free on which the engine is to answer?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """An engine finds out after it has loaded; a boot refuses before."""
    if profile is None:
        return Finding("skip", "no profile says which port")
    port = facts.upkeep.port
    if port is None:
        if unread(facts, "upkeep"):
            return Finding("unknown", f"the sockets could not be looked at ({gap_reason(facts, 'upkeep')})")
        return Finding("skip", "this recording has no sockets")
    if not port.listened:
        return Finding("ok", f"port {port.number} is free")
    units = facts.upkeep.services.kboot if facts.upkeep.services else ()
    serving = any(unit.name == "kboot-engine.service" and unit.active == "active" for unit in units)
    if port.ours or (serving and not port.holders):
        return Finding("ok", f"the engine that kboot started answers on port {port.number}")
    who = f"process {', '.join(map(str, port.holders))}" if port.holders else "a process that this user cannot see"
    return Finding(
        "fail",
        f"port {port.number} is taken by {who}",
        wanted="nobody listens there",
        why="the engine would load for minutes and then end with 'address already in use'",
        hint=f"`ss -ltnp 'sport = :{port.number}'`; stop it, or set serve.port in the profile",
    )


CHECK = Check(
    id="engine.port",
    asks="Is the port free on which the engine is to answer?",
    source="/proc/net/tcp, /proc/net/tcp6",
    modes=ON_A_NODE,
    run=run,
)
