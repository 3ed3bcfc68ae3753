"""Has the firewall's table room for connections?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.fixes import WriteValue
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import percent
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

FULL_FRACTION = 0.9


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A full table drops new connections without a word to their programs."""
    table = facts.system.conntrack
    if table is None:
        return Finding("skip", "no connection tracking is loaded")
    used, most = table
    if used < FULL_FRACTION * most:
        return Finding("ok", f"{used:,} of {most:,} entries")
    more = max(262144, most * 2)
    return Finding(
        "warn",
        f"{used:,} of {most:,} entries are in use",
        wanted=f"less than {percent(FULL_FRACTION)}",
        why="new connections are dropped: clients and fetches see timeouts",
        hint=f"`sysctl net.netfilter.nf_conntrack_max={more}`; find who opens so many: `conntrack -S`",
        fixes=(WriteValue("/proc/sys/net/netfilter/nf_conntrack_max", str(more), str(most)),),
    )


CHECK = Check(
    id="net.conntrack",
    asks="Has the firewall's table room for connections?",
    source="/proc/sys/net/netfilter/nf_conntrack_{count,max}",
    modes=ON_A_NODE,
    run=run,
)
