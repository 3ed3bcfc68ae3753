"""How long do an engine's phases usually take?"""

from __future__ import annotations

from dataclasses import replace

import pytest
import report_samples

from kboot.engines.logs import Standing
from kboot.report.types import BootReport, Span
from kboot.report.usual import Usual, is_slow, standing_words, usual_phases


def boot(seconds: float, *, ready: bool = True, profile: str = "k3", status: str = "done") -> BootReport:
    """A boot whose engine loaded for so long."""
    span = Span("load model", "engine", 100.0, 100.0 + seconds, status=status)
    mine = Span("fetch", "kboot", 0.0, 50.0)
    return replace(
        report_samples.demo_boot(), profile=profile, ready_unix_s=200.0 if ready else None, spans=(mine, span)
    )


def test_the_median_of_boots_that_got_ready() -> None:
    """Other profiles, boots that failed and phases that were cut do not count; kboot's own phases neither."""
    reports = [
        boot(40),
        boot(50),
        boot(44),
        boot(9999, ready=False),
        boot(1, profile="x"),
        boot(7, status="unfinished"),
    ]

    assert {"load model": Usual(44, 3)} == usual_phases(reports, "k3")
    assert {} == usual_phases([], "k3")


@pytest.mark.parametrize(
    ("stands", "usual", "words"),
    [
        (Standing("load", 312.4, 3.0), Usual(44.2, 7), "at load for 312 s, usually 44 s (median of 7 boots)"),
        (Standing("load model", 312.4, 3.0), None, "at load model for 312 s"),
        (Standing("compile", 400.0, 290.0), Usual(9, 1), "at compile for 400 s, usually 9 s (median of 1 boot); "
         "its log is silent for 290 s"),
        (Standing(None, 400.0, 2.0), None, "between two phases that its log names"),
    ],
)  # fmt: skip
def test_where_a_boot_stands_reads_as_one_clause(stands: Standing, usual: Usual | None, words: str) -> None:
    """Phase, how long, how long usually, and how long nothing was said."""
    assert words == standing_words(stands, usual)


@pytest.mark.parametrize(
    ("seconds", "usual", "slow"),
    [(61.0, 1.0, False), (62.0, 1.0, True), (299.0, 100.0, False), (301.0, 100.0, True)],
)
def test_slow_is_three_times_as_long_and_a_minute_more(seconds: float, usual: float, slow: bool) -> None:
    """A phase of a second may take a minute before anybody is told; what is not known is never slow."""
    assert slow is is_slow(Standing("load", seconds, 0.0), Usual(usual, 3))
    assert not is_slow(Standing("load", seconds, 0.0), None)
