"""How does a boot read at 80 columns?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from report_samples import T0, demo_boot, failed_boot, kimi_boot

from kboot.errors import ActionFailed
from kboot.report.price import HourPrice
from kboot.report.render_text import Style, laid_out_for
from kboot.report.text_timeline import draw_bar, history_text, timeline_text
from kboot.report.timeline import make_timeline
from kboot.report.types import Span

Golden = Callable[[str, str], None]
EARLIER = [kimi_boot(fetch_s=900.0 + n, at=T0 - 1e5 * (n + 1)) for n in range(4)]


def test_a_cold_boot_with_a_regression(golden: Golden) -> None:
    """Bars in three lanes on one clock, the critical path marked, what took longest, the regression with its phase."""
    golden("timeline-cold.txt", timeline_text(make_timeline(kimi_boot(tune_s=912.0), EARLIER), price=HourPrice(68.08)))


def test_a_small_boot(golden: Golden) -> None:
    """A boot of seconds has an axis in seconds; a skipped phase says so."""
    golden("timeline-demo.txt", timeline_text(make_timeline(demo_boot())))


def test_a_failed_boot(golden: Golden) -> None:
    """A boot that failed shows how far it came and ends with its error and hint."""
    golden("timeline-failed.txt", timeline_text(make_timeline(failed_boot())))


def test_what_took_longest_took_as_long_as_its_bar_says() -> None:
    """Slack between two phases belongs to neither, though the critical path has no holes."""
    spans = (Span("plan", "kboot", T0, T0 + 0.38), Span("fetch", "kboot", T0 + 0.40, T0 + 0.65))
    boot = replace(demo_boot(), spans=spans, ready_unix_s=T0 + 0.65, finished_unix_s=T0 + 0.65)
    text = timeline_text(make_timeline(boot))

    assert "longest   0.38 s plan, 58 % of the boot" in text


def test_no_line_of_a_timeline_is_wider_than_the_terminal() -> None:
    """Names of any length and rates of any size keep within 80 columns."""
    boot = kimi_boot()
    long = replace(boot, spans=tuple(replace(s, name=f"{s.name} of a very long name indeed") for s in boot.spans))

    assert max(len(line) for line in timeline_text(make_timeline(long)).splitlines()) <= 80


def test_colour_changes_nothing_but_colour() -> None:
    """Escape codes are added after layout: without them the text is the same."""

    def mark(text: str, style: Style) -> str:
        return f"\x01{text}\x02"

    plain = timeline_text(make_timeline(failed_boot()))
    painted = timeline_text(make_timeline(failed_boot()), paint=mark)

    assert plain != painted
    assert plain == painted.replace("\x01", "").replace("\x02", "")


def test_a_span_of_no_length_is_still_seen() -> None:
    """What ran is drawn at least one cell wide, at the very end as well."""
    assert "█   " == draw_bar(0.0, 0.0, 100.0, 4, True)
    assert "   ░" == draw_bar(100.0, 0.0, 100.0, 4, False)
    assert "    " == draw_bar(0.0, 0.0, 0.0, 4, True)


def test_the_history_is_one_line_a_boot() -> None:
    """Newest first, with the number that --boot takes, status and time to the answer."""
    text = history_text((demo_boot(), failed_boot()))

    assert [
        "1  2026-11-30 06:26:40Z  done     5.9 s  demo",
        "2  2026-11-30 06:26:40Z  failed  41.2 s  demo",
    ] == text.splitlines()


@pytest.mark.parametrize(("columns", "cells"), [(60, 10), (80, 24), (110, 54)])
def test_bars_are_as_long_as_the_terminal_has_room_for(columns: int, cells: int) -> None:
    """Names are cut before numbers are; no line passes the edge, a status in the place of a rate neither."""
    spans = (Span("fetch", "kboot", T0, T0 + 4.2, 18_000_000, "interrupted"),)
    stopped = replace(demo_boot(), spans=spans, status="interrupted", ready_unix_s=None, finished_unix_s=T0 + 4.2)
    with laid_out_for(columns):
        text = timeline_text(make_timeline(stopped))

    assert cells == text.count("█")
    assert "4.2 s  18.0 MB interrupted" in text
    assert max(map(len, text.splitlines())) <= columns


def test_the_numbers_of_a_long_history_stand_below_each_other() -> None:
    """Twelve boots: the first nine are moved to the right."""
    lines = history_text((demo_boot(),) * 12).splitlines()

    assert [" 1  2026", "12  2026"] == [line[:8] for line in (lines[0], lines[-1])]


def test_few_boots_have_a_median_and_no_percentile() -> None:
    """p95 of two is the slower of them; a run about the bytes alone is not called a boot."""
    earlier = [demo_boot(at=T0 - 100 * n) for n in range(1, 5)]
    few = timeline_text(make_timeline(demo_boot(), earlier[:2]))
    enough = timeline_text(make_timeline(demo_boot(), earlier))
    run = timeline_text(make_timeline(replace(demo_boot(), what="bytes", ready_unix_s=None), ()))

    assert ("of 2 earlier boots" in few, "p95" in few) == (True, False)
    assert ("of 4 earlier boots" in enough, "p95" in enough) == (True, True)
    assert ("% of the run" in run, "% of the boot" in run) == (True, False)


def test_the_times_below_the_bars_keep_apart() -> None:
    """A run of a fifth of a second: between two of them is a blank, or one is left out."""
    spans = (Span("plan", "kboot", T0, T0 + 0.16),)
    boot = replace(demo_boot(), spans=spans, ready_unix_s=T0 + 0.193, finished_unix_s=T0 + 0.193)
    text = timeline_text(make_timeline(boot))

    assert "0.05 s" in text and "s0.1" not in text


def test_an_interruption_is_no_error_of_one_file() -> None:
    """Which of a hundred files was under way helps nobody; how to go on does. Another error is shown whole."""
    stopped = ActionFailed("interrupted", "a.safetensors: stopped with 1 of 2 bytes here", hint="run it again")
    texts = [
        timeline_text(make_timeline(replace(failed_boot(), status="interrupted", error=error)))
        for error in (stopped, ActionFailed("disk-full", "no room for a.safetensors"))
    ]

    assert "hint: run it again" == texts[0].splitlines()[-1]
    assert [False, True] == ["a.safetensors" in text for text in texts]
