"""Has this machine a network link?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """One interface that is up is enough; those without a cable are none of doctor's business."""
    if not facts.nics:
        return Finding("skip", "this machine lists no network device")
    up = [n for n in facts.nics if n.state in ("up", "unknown")]
    if up:
        rates = sorted({f"{n.name} at {n.rate_mbit_s / 1000:g} Gbit/s" if n.rate_mbit_s else n.name for n in up})
        return Finding("ok", f"up: {some(rates)}")
    return Finding(
        "warn",
        f"none of {count(len(facts.nics), 'interface')} is up: {some(f'{n.name} {n.state}' for n in facts.nics)}",
        wanted="at least one interface that is up",
        why="nothing can be fetched, and no client reaches the engine",
        hint="`ip link`; check cable, switch port and `journalctl -u systemd-networkd -u NetworkManager`",
    )


CHECK = Check(
    id="net.link",
    asks="Has this machine a network link?",
    source="/sys/class/net/*/{operstate,speed}",
    modes=ON_A_NODE,
    run=run,
)
