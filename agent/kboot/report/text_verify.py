"""How does a verification read: what is proven, how far the proof goes, and what is wrong? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kboot.checks.words import count
from kboot.quantities import show_bytes, show_rate, show_roughly, show_seconds
from kboot.report.document import document
from kboot.report.render_json import listing_json, outcome_json
from kboot.report.render_text import Paint, join, no_paint, table, wrap

if TYPE_CHECKING:
    from kboot.checkpoint import Listing, VerifyMode
    from kboot.report.types import Outcome


def verify_text(
    claim: str,
    outcomes: Sequence[Outcome],
    listing: Listing,
    oldest_hash_age_s: float | None = None,
    *,
    verbose: bool = False,
    paint: Paint = no_paint,
) -> str:
    """Return the claim and every file that is wrong; verbose: every file."""
    failed = [o for o in outcomes if o.status == "failed" and not _is_left(o)]
    head = f"{listing.repo} at {listing.commit[:12]}"
    lines = [f"{head}: {', '.join(_verdict(failed, outcomes, paint))}", *wrap(claim, "  ")]
    if oldest_hash_age_s is not None:
        lines += [f"  the oldest proof by a hash is {show_roughly(oldest_hash_age_s)} old"]
    read = sum(o.size_bytes for o in outcomes)
    if read and outcomes:
        seconds = max(o.start_unix_s + o.seconds for o in outcomes) - min(o.start_unix_s for o in outcomes)
        lines += [f"  {show_bytes(read)} in {show_seconds(seconds)}, {show_rate(read, seconds)}".removesuffix(", ")]
    for outcome in failed:
        lines += _failure(outcome, paint)
    for outcome in (o for o in outcomes if o.status == "done" and o.before):
        lines += [f"  {paint('mended', 'good')} {outcome.title}"]
        lines += wrap(f"it was: {outcome.before}; {outcome.after} from {outcome.source}", "    ")
    if verbose:
        done = [o for o in outcomes if o.status != "failed"]
        lines += table([(o.title, o.status, show_bytes(o.size_bytes) if o.size_bytes else "") for o in done])
    return join(lines)


def verify_document(
    mode: VerifyMode,
    claim: str,
    outcomes: Sequence[Outcome],
    listing: Listing,
    oldest_hash_age_s: float | None = None,
) -> dict[str, Any]:
    """Return the document of `kboot verify --json`. oldest_hash_age_s: None where a file was never hashed."""
    return document(
        "verify",
        {
            "mode": mode,
            "ok": all(o.status not in ("failed", "skipped") for o in outcomes),
            "claim": claim,
            "oldest_hash_age_s": None if oldest_hash_age_s is None else round(oldest_hash_age_s, 1),
            "checkpoint": listing_json(listing),
            "outcomes": [outcome_json(o) for o in outcomes],
        },
    )


def _verdict(failed: Sequence[Outcome], outcomes: Sequence[Outcome], paint: Paint) -> Iterator[str]:
    left = any(_is_left(o) for o in outcomes)
    if failed:
        yield paint(f"{count(len(failed), 'file')} wrong", "bad")
    if left:
        yield paint("interrupted", "bad")
    if not failed and not left:
        yield paint("verified", "good")


def _is_left(outcome: Outcome) -> bool:
    """Return whether kboot was stopped before it knew: what was not looked at is neither right nor wrong."""
    return outcome.status == "skipped" or (outcome.error is not None and outcome.error.code == "interrupted")


def _failure(outcome: Outcome, paint: Paint) -> list[str]:
    lines = [f"  {paint('wrong', 'bad')} {outcome.title}"]
    if outcome.error is None:
        return lines
    lines += wrap(f"{outcome.error.code}: {outcome.error.message}", "    ")
    lines += wrap(outcome.error.hint, "    hint: ") if outcome.error.hint else []
    return lines
