"""What becomes of a file that was found wrong on this disk, where a source can be asked? It is fetched at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.plan.types import FetchFile, VerifyFile
from kboot.report.types import Outcome

_WRONG_HERE = frozenset(
    {
        "file-changed-while-read",
        "file-damaged",
        "file-missing",
        "file-unreadable",
        "share-damaged",
        "shard-hash-mismatch",
        "shard-size-mismatch",
    }
)
MENDED = "fetched again and proven"


def mends(error: KbootError | None) -> bool:
    """Return whether other bytes would help: not where the file was published as it is, or nobody hashed it."""
    return error is not None and (error.code in _WRONG_HERE or error.code.startswith("structure-"))


def mend(
    actions: Sequence[VerifyFile],
    outcomes: Sequence[Outcome],
    fetch: Callable[[Sequence[FetchFile]], Sequence[Outcome]],
    emit: Emit,
) -> tuple[Outcome, ...]:
    """Fetch what the verification found wrong; return its outcomes as they are now, and those of the fetch after them.

    outcomes: one for each action, in their order. A file that was mended keeps what was wrong with it as `before`.
    """
    wrong = [(action, o.error) for action, o in zip(actions, outcomes, strict=True) if mends(o.error) and o.error]
    if not wrong:
        return tuple(outcomes)
    for action, error in wrong:
        emit(Notice("file.damaged", f"{action.file.path} is not right on this disk and is fetched: {error.message}"))
    fetched = fetch([FetchFile(action.file, 0, error.message) for action, error in wrong])
    of_action = dict(zip((action for action, _ in wrong), fetched, strict=True))
    after = [_after(o, of_action[a]) if a in of_action else o for a, o in zip(actions, outcomes)]
    return (*after, *fetched)


def damage_of(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return a sentence for each file that was found wrong and mended."""
    mended = (o for o in outcomes if o.phase == "verify" and o.status == "done" and o.after == MENDED)
    return tuple(f"damage on this disk was mended from {o.source}: {o.before}" for o in mended)


def _after(verified: Outcome, fetched: Outcome) -> Outcome:
    if fetched.status == "failed" or verified.error is None:
        return verified
    return replace(
        verified, status="done", before=verified.error.message, after=MENDED, source=fetched.source, error=None
    )
