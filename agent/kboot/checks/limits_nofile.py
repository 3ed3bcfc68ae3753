"""May the engine open as many files and connections as it will?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

WANTED = 65536
"""Shards of every worker, client connections, one socket for each pair of ranks, and room; the units set 1048576."""
SPARE = 256


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge the hard limit of this process: whatever starts an engine through kboot raises the soft one to it."""
    if unread(facts, "limits", "limits.nofile"):
        return Finding("unknown", f"the limit could not be read ({gap_reason(facts, 'limits.nofile', 'limits')})")
    soft, hard = facts.limits.nofile
    if hard is None or hard >= WANTED:
        raised = "" if soft is None or soft >= WANTED else "; kboot raises the soft one before the engine starts"
        return Finding("ok", f"soft limit {_text(soft)}, hard limit {_text(hard)}{raised}")
    files = len(checkpoint.listing.files) if checkpoint else 0
    seen = f"soft limit {_text(soft)}, hard limit {hard:,} open files"
    if hard < files + SPARE:
        return Finding("fail", f"{seen}; the checkpoint alone has {count(files, 'file')}", **_REST)
    return Finding("warn", f"{seen}, {WANTED:,} wanted", **_REST)


def _text(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit:,}"


_REST: Mapping[str, Any] = {
    "wanted": f"{WANTED:,} or more",
    "why": '"Too many open files" under load or while shards are mapped',
    "hint": "LimitNOFILE=1048576 in the unit (limits.conf reaches no service); shell: `ulimit -Hn 65536` as root; "
    "container: `--ulimit nofile=1048576`",
}

CHECK = Check(
    id="limits.nofile",
    asks="May the engine open as many files and connections as it will?",
    source="/proc/self/limits",
    modes=EVERYWHERE,
    run=run,
)
