"""How long does it take to prove the whole checkpoint?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.disk_rate import TARGET_S
from kboot.checks.types import Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes, show_roughly


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A verification is bounded by the disk or by hashing, whichever is slower."""
    if checkpoint is None:
        return Finding("skip", "no checkpoint is listed on this disk")
    hashing = facts.measured.hashing
    if hashing is None or hashing.bytes_per_s <= 0:
        return Finding("unknown", f"the rate could not be measured ({gap_reason(facts, 'measured.samples')})")
    size_bytes = checkpoint.listing.size_bytes
    disk = facts.measured.disk
    read_s = size_bytes / disk.bytes_per_s if disk and disk.bytes_per_s > 0 else 0.0
    hash_s = size_bytes / hashing.bytes_per_s
    seen = (
        f"SHA-256 at {show_bytes(hashing.bytes_per_s)}/s ({count(hashing.streams, 'thread')}): "
        f"{show_bytes(size_bytes)} take {show_roughly(hash_s)}"
        + (f", reading them {show_roughly(read_s)}" if read_s else "")
    )
    mode = profile.verify.mode if profile else "ledger"
    whole_s = max(hash_s, read_s)
    if mode != "full" or whole_s <= TARGET_S:
        return Finding("ok", seen)
    return Finding(
        "warn",
        f'{seen}; verify.mode = "full" does it at every boot',
        wanted=f"{show_roughly(TARGET_S)}, or verify by the ledger",
        why=f"every boot waits {show_roughly(whole_s)} before the hand-off",
        hint='verify.mode = "ledger" and kboot-scrub.timer hash the same bytes in the background',
    )


CHECK = Check(
    id="ckpt.hash_rate",
    asks="How long does it take to prove the whole checkpoint?",
    source="measured: SHA-256 over memory on the threads of a verification",
    modes=frozenset({"full", "deep"}),
    run=run,
)
