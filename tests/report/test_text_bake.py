"""How does a bake read?"""

from __future__ import annotations

from collections.abc import Sequence

from kboot.errors import ActionFailed, SourceError
from kboot.report.text_bake import bake_text
from kboot.report.types import Outcome

STOPPED = tuple(SourceError("interrupted", f"model-{n:05d}-of-00095.safetensors: stopped") for n in range(1, 96))
FULL = ActionFailed("disk-full", "no space is left")


def failed(*errors: SourceError | ActionFailed) -> Sequence[Outcome]:
    return [Outcome("fetch", "fetch", "", "failed", 0.0, 0.0, error=error) for error in errors]


def test_a_bake_that_was_stopped_says_so_once() -> None:
    """Each file that was under way failed alike; the next step is read, not scrolled away."""
    lines = bake_text(None, failed(*STOPPED), (), "", 1.0).splitlines()

    assert [
        "bake: interrupted after 1.0 s",
        "",
        "error: interrupted",
        "  model-00001-of-00095.safetensors: stopped",
        "  94 more steps failed so; `-v` shows each",
    ] == lines


def test_each_kind_of_failure_is_shown_and_all_on_demand() -> None:
    """A full disk is not hidden behind files that failed before it."""
    gone = (SourceError("connection-cut", "one"), SourceError("connection-cut", "two"))
    short = bake_text(None, failed(*gone, FULL), (), "", 1.0)
    long = bake_text(None, failed(*gone, FULL), (), "", 1.0, verbose=True)

    assert short.startswith("bake: failed in 1.0 s, 3 steps failed")
    assert (2, 3) == (short.count("error: "), long.count("error: "))
    assert "no space is left" in short and "two" not in short and "two" in long
