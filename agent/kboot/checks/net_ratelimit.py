"""Does the Hub let this node ask as often as a boot does?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

SPARE_REQUESTS = 50
"""Asked of the Hub's API by a boot that finds nothing here: the revision, pages of the tree, headers of small files."""


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare what is left in the Hub's window with a boot's requests."""
    limited = next((s for s in facts.asked.sources or () if s.wait_s is not None), None)
    if limited is not None:
        return _finding(f"{limited.message}; it may be asked again in {show_roughly(limited.wait_s or 0)}")
    limit = facts.asked.rate_limit
    if limit is None:
        if unread(facts, "asked.rate_limit"):
            return Finding("unknown", f"the Hub could not be asked ({gap_reason(facts, 'asked.rate_limit')})")
        if any(source.code for source in facts.asked.sources or ()):
            return Finding("skip", "a source gives no bytes: see net.source_reach")
        return Finding("skip", "no Hub was asked, or it tells no limit")
    of = f" of {limit.most:,}" if limit.most is not None else ""
    window = f" for the next {show_roughly(limit.reset_s)}" if limit.reset_s is not None else ""
    seen = f"{limit.source}: {limit.left:,}{of} requests are left{window}"
    return Finding("ok", seen) if limit.left >= SPARE_REQUESTS else _finding(seen)


def _finding(seen: str) -> Finding:
    return Finding(
        "warn",
        seen,
        wanted=f"{SPARE_REQUESTS} requests left",
        why="a boot that must ask the Hub waits for the next window, up to 5 min",
        hint="give a token (HF_TOKEN: its limits are higher), a mirror in checkpoint.sources, or start nodes apart",
    )


CHECK = Check(
    id="net.ratelimit",
    asks="Does the Hub let this node ask as often as a boot does?",
    source="the RateLimit headers of one answer of the Hub's API",
    modes=frozenset({"full", "deep"}),
    run=run,
)
