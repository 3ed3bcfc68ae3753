"""What is found wrong on this disk is fetched at once, and the report stays honest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kboot.apply.mend import MENDED, damage_of, mend, mends
from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, KbootError, SourceError, VerificationFailed
from kboot.events import Event, Notice
from kboot.plan.types import FetchFile, VerifyFile
from kboot.report.types import Outcome

FILES = [RemoteFile(name, 8, name * 40, None) for name in "abc"]
ACTIONS = [VerifyFile(file, "full", "test") for file in FILES]
WRONG = VerificationFailed("shard-hash-mismatch", "b: sha256 is 12…, the listing says 34…")
AWAY = SourceError("connection-refused", "nobody listens")


def verified(error: KbootError | None = None) -> Outcome:
    return Outcome("verify", "verify it (full)", "test", "failed" if error else "done", 0.0, 1.0, error=error)


def fetched(error: KbootError | None = None) -> Outcome:
    return Outcome("fetch", "fetch it", "", "failed" if error else "done", 0.0, 1.0, 8, "hub", error=error)


class Fetch:
    """Answers one outcome for each file it is asked for."""

    def __init__(self, outcome: Outcome) -> None:
        self.asked: list[str] = []
        self._outcome = outcome

    def __call__(self, actions: Sequence[FetchFile]) -> list[Outcome]:
        self.asked += [action.file.path for action in actions]
        return [self._outcome for _ in actions]


def test_a_wrong_file_is_fetched_and_its_damage_stays_on_record() -> None:
    """One of three is wrong: it alone is fetched; its outcome is done, with what was wrong as `before`."""
    fetch, told = Fetch(fetched()), list[Event]()
    after = mend(ACTIONS, [verified(), verified(WRONG), verified()], fetch, told.append)

    assert ["b"] == fetch.asked
    assert ["done"] * 4 == [o.status for o in after]
    assert (WRONG.message, MENDED, "hub", None) == (after[1].before, after[1].after, after[1].source, after[1].error)
    assert ["file.damaged"] == [e.event for e in told if isinstance(e, Notice)]
    assert (f"damage on this disk was mended from hub: {WRONG.message}",) == damage_of(after)


def test_where_the_source_does_not_help_the_file_stays_wrong() -> None:
    """The first cause is the damage; the source's error stands beside it; nothing counts as mended."""
    after = mend(ACTIONS, [verified(), verified(WRONG), verified()], Fetch(fetched(AWAY)), lambda _: None)

    assert [None, WRONG, None, AWAY] == [o.error for o in after]
    assert () == damage_of(after)


def test_nothing_is_fetched_where_nothing_is_wrong() -> None:
    """The outcomes stay as they are."""
    fetch = Fetch(fetched())

    assert (verified(),) * 3 == mend(ACTIONS, [verified()] * 3, fetch, lambda _: None)
    assert [] == fetch.asked


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (WRONG, True),
        (VerificationFailed("structure-lfs-pointer", "is a pointer"), True),
        (VerificationFailed("file-missing", "is not on this disk"), True),
        (VerificationFailed("published-broken", "its hash is the listed one"), False),
        (VerificationFailed("index-does-not-fit", "the index names another"), False),
        (ActionFailed("permission-denied", "may not"), False),
        (None, False),
    ],
)
def test_other_bytes_help_only_where_the_bytes_are_wrong(error: KbootError | None, wanted: bool) -> None:
    """A file that was published as it is, or that may not be read, is not fetched again."""
    assert wanted == mends(error)
