"""May one connection keep enough bytes in flight?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes, show_memory

LEAST_BYTES = 4 << 20
ROUND_TRIP_S = 0.02


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """The buffer bounds the rate of one connection: rate = buffer / round-trip time."""
    most = facts.system.tcp_receive_bytes
    if most is None:
        return Finding("skip", "this machine does not tell its TCP buffers")
    rate = f"{show_bytes(most / ROUND_TRIP_S)}/s for each connection at {ROUND_TRIP_S * 1000:.0f} ms"
    if most >= LEAST_BYTES:
        return Finding("ok", f"{show_memory(most)} at most: {rate}")
    return Finding(
        "warn",
        f"{show_memory(most)} at most: {rate}",
        wanted=f"{show_memory(LEAST_BYTES)} or more",
        why="a far source needs many connections to fill the link",
        hint='`sysctl net.ipv4.tcp_rmem="4096 131072 67108864"`, and the same in /etc/sysctl.d',
    )


CHECK = Check(
    id="net.tcp",
    asks="May one connection keep enough bytes in flight?",
    source="/proc/sys/net/ipv4/tcp_rmem",
    modes=ON_A_NODE,
    run=run,
)
