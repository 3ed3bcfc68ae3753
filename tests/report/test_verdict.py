"""What may pass by itself is tried again; what a person must mend is not."""

from __future__ import annotations

import pytest

from kboot.errors import ActionFailed, FactMissing, KbootError, NotReady, SourceError
from kboot.report.verdict import is_transient


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (SourceError("connect-timeout", "x", retry=True), True),
        (SourceError("file-not-found", "x"), False),
        (NotReady("fleet-not-together", "x"), True),
        (FactMissing("fleet-incomplete", "x"), True),
        (FactMissing("not-in-fleet", "x"), True),
        (ActionFailed("fleet-disagrees", "x"), False),
        (NotReady("engine-died", "x"), False),
    ],
)
def test_a_node_that_is_not_there_may_come(error: KbootError, transient: bool) -> None:
    """Like a source that is away; nodes that differ will not agree by waiting."""
    assert transient == is_transient(error)
