"""Where did the boot's time go, what waited for what, and how does it compare with earlier boots?"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import T0, demo_boot, failed_boot, kimi_boot

from kboot.report.html import timeline_html
from kboot.report.render_svg import timeline_svg
from kboot.report.text_timeline import timeline_text
from kboot.report.timeline import compare, critical_path, make_timeline, percentile, rows, tick_label, ticks
from kboot.report.trace import trace_document
from kboot.report.types import Span


def names(steps: object) -> list[str]:
    """Return the names of steps."""
    return [s.name for s in steps]  # type: ignore[attr-defined]


def test_the_critical_path_leads_through_fetch_and_engine() -> None:
    """What runs beside the fetch is not on the path; `serve` has only the time that no engine phase explains."""
    path = names(make_timeline(kimi_boot()).critical)

    assert ["kernel", "userspace before kboot", "facts", "plan", "fetch", "publish", "warm", "handoff"] == path[:8]
    engine = ["start processes", "join ranks", "load weights", "profile run", "autotune", "capture graphs"]
    assert ["serve", *engine, "serve"] == path[8:]
    assert {"tune", "cache"}.isdisjoint(path)


def test_the_lengths_of_the_critical_path_sum_to_the_boot() -> None:
    """No second of the boot is missing from the path, and none is counted twice."""
    for boot in (kimi_boot(), demo_boot(), failed_boot()):
        timeline = make_timeline(boot)

        assert timeline.total_s == pytest.approx(sum(s.seconds for s in timeline.critical), abs=0.1)


def test_a_stretch_without_a_span_is_a_wait_named_by_its_neighbours() -> None:
    """Time in which nothing known ran is shown as waiting, with what came before and after."""
    spans = (Span("facts", "kboot", 0.0, 1.0), Span("fetch", "kboot", 4.0, 9.0))

    path = critical_path(spans, 0.0, 9.0)

    assert ["facts", "between facts and fetch", "fetch"] == names(path)
    assert ["span", "wait", "span"] == [s.kind for s in path]
    assert 3.0 == path[1].seconds


def test_time_inside_serve_without_an_engine_phase_belongs_to_serve() -> None:
    """Before the engine's first recognised line, and after its last, the boot waits for `serve` itself."""
    spans = (Span("serve", "kboot", 1.0, 10.0), Span("load weights", "engine", 4.0, 9.0))

    assert [
        ("before load weights", "wait", 1.0),
        ("serve", "span", 3.0),
        ("load weights", "span", 5.0),
        ("serve", "span", 1.0),
    ] == [(s.name, s.kind, s.seconds) for s in critical_path(spans, 0.0, 10.0)]


def test_a_phase_with_short_parts_keeps_the_rest_of_its_time() -> None:
    """A phase of ten seconds in which only two have a name of their own is on the path with the other eight."""
    spans = (Span("front end", "engine", 0.0, 10.0), Span("compile", "engine", 3.0, 5.0))

    assert [("front end", 3.0), ("compile", 2.0), ("front end", 5.0)] == [
        (s.name, s.seconds) for s in critical_path(spans, 0.0, 10.0)
    ]


def test_a_span_is_critical_where_its_parts_are() -> None:
    """`serve` that is explained by engine phases to the last second did not have slack, nor has a phase with parts."""
    serve, load = Span("serve", "kboot", T0, T0 + 9.0), Span("load model", "engine", T0, T0 + 9.0)
    read, beside = Span("read weights", "engine", T0, T0 + 8.98), Span("warm", "kboot", T0, T0 + 2.0)
    boot = replace(demo_boot(), started_unix_s=T0, ready_unix_s=T0 + 9.0, spans=(serve, load, read, beside))
    found = make_timeline(boot)

    assert "serve" not in names(found.critical)
    assert [True, True, False] == [found.is_critical(span) for span in (serve, load, beside)]


def test_a_boot_that_ended_before_its_answer_ends_with_its_report() -> None:
    """Without an answer of the engine the timeline ends where the boot did."""
    assert 41.2 == pytest.approx(make_timeline(failed_boot()).total_s)


def test_the_next_boot_saves_the_fetch_of_a_good_boot_only() -> None:
    """Fetched bytes are there next time; a failed boot promises nothing."""
    assert 946.0 == pytest.approx(make_timeline(kimi_boot()).next_boot_saves_s)
    assert 0.0 == make_timeline(failed_boot()).next_boot_saves_s


def test_a_slower_boot_names_the_phase_that_made_it_slower() -> None:
    """A boot a fifth and a second over its median names its regression; one within that names none."""
    earlier = [kimi_boot(at=T0 - 1e5 * n) for n in range(1, 5)]

    slow = compare(kimi_boot(tune_s=912.0), earlier)
    same = compare(kimi_boot(tune_s=13.0), earlier)

    assert slow is not None
    assert slow.regression is not None
    assert ("autotune", 900.0) == (slow.regression.name, pytest.approx(slow.regression.slower_s))
    assert 4 == slow.boots
    assert same is not None
    assert same.regression is None


def test_a_phase_within_its_own_p95_is_not_the_regression() -> None:
    """A fetch that is always uneven loses most seconds, yet the phase that was never so slow is named."""
    uneven = [300.0, 350.0, 400.0, 2000.0]
    earlier = [kimi_boot(fetch_s=each, at=T0 - 1e5 * (n + 1)) for n, each in enumerate(uneven)]
    found = compare(kimi_boot(fetch_s=1700.0, tune_s=300.0), earlier)

    assert found is not None
    assert "fetch" == found.phases[0].name
    assert found.phases[0].seconds < found.phases[0].p95_s
    assert found.regression is not None
    assert ("autotune", 12.0) == (found.regression.name, found.regression.p95_s)


def test_only_good_boots_of_the_same_profile_are_compared() -> None:
    """Failed boots, other profiles, boots that did not serve, fetches alone and the boot itself are left out."""
    boot = kimi_boot()
    others = [
        boot,
        replace(boot, profile="demo", started_unix_s=T0 - 1),
        replace(boot, status="failed", started_unix_s=T0 - 2),
        replace(boot, ready_unix_s=None, started_unix_s=T0 - 3),
        replace(boot, cache_key="", started_unix_s=T0 - 4),
    ]

    assert compare(boot, others) is None
    assert compare(failed_boot(), [demo_boot(at=T0 - 100)]) is None


def test_percentiles_are_interpolated() -> None:
    """The median of an even number of values lies between the middle two."""
    assert 2.5 == percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    assert 7.0 == percentile([7.0], 0.95)


def test_ticks_are_round_and_few() -> None:
    """The axis has round numbers, in seconds up to three minutes and in minutes above."""
    assert (0.0, 2.0, 4.0) == ticks(5.9, 4)
    assert (0.0, 600.0, 1200.0, 1800.0) == ticks(2002.0, 4)
    assert ["0", "2 s", "10 min"] == [tick_label(0, 9), tick_label(2, 9), tick_label(600, 2002)]


spans_strategy = st.lists(
    st.builds(
        lambda name, lane, start, length: Span(name, lane, start, start + length),
        st.sampled_from("abcdef"),
        st.sampled_from(("machine", "kboot", "engine")),
        st.floats(0, 100),
        st.floats(0, 50),
    ),
    max_size=12,
)


@given(spans_strategy, st.floats(0, 150))
def test_the_critical_path_covers_any_boot_without_overlap(spans: list[Span], end: float) -> None:
    """Whatever spans there are, steps follow each other from the start to the end."""
    path = critical_path(spans, 0.0, end)

    assert end == pytest.approx(sum(s.seconds for s in path), abs=0.06 * (len(path) + 1))
    for before, after in pairwise(path):
        assert before.end_unix_s == pytest.approx(after.start_unix_s, abs=0.051)


@given(spans_strategy)
def test_spans_of_one_row_never_overlap(spans: list[Span]) -> None:
    """Rows for drawing hold every span once, and none that overlap."""
    packed = rows(spans)

    assert len(spans) == sum(len(r) for r in packed)
    for row in packed:
        for before, after in pairwise(row):
            assert before.end_unix_s <= after.start_unix_s


def test_a_run_about_the_bytes_is_compared_with_its_like_alone() -> None:
    """A no-op fetch of a second makes no boot slow, nor the other way round."""
    fetch = replace(demo_boot(at=T0 - 100), what="bytes")

    assert make_timeline(demo_boot(), [fetch]).comparison is None
    assert make_timeline(replace(demo_boot(), what="bytes"), [fetch]).comparison is not None


@pytest.mark.parametrize("by_s", [-400 * 86_400.0, -3600.0, -300.0, 3600.0, 4000 * 86_400.0])
def test_a_clock_that_is_set_during_a_boot_breaks_no_view(by_s: float) -> None:
    """A step back or ahead in the middle of the fetch: wrong lengths are shown, none below zero, and nothing raises."""
    boot, at = kimi_boot(), T0 + 100

    def set_(unix_s: float) -> float:
        return unix_s + by_s if unix_s >= at else unix_s

    assert boot.ready_unix_s is not None
    spans = tuple(replace(s, start_unix_s=set_(s.start_unix_s), end_unix_s=set_(s.end_unix_s)) for s in boot.spans)
    outcomes = tuple(replace(o, start_unix_s=set_(o.start_unix_s)) for o in boot.outcomes)
    ready_unix_s, finished_unix_s = set_(boot.ready_unix_s), set_(boot.finished_unix_s)
    jumped = replace(boot, spans=spans, outcomes=outcomes, ready_unix_s=ready_unix_s, finished_unix_s=finished_unix_s)
    timeline = make_timeline(jumped, [boot])

    assert min(step.seconds for step in timeline.critical) >= 0
    assert "ready to serve in" in timeline_text(timeline)
    assert 'width="-' not in timeline_svg(timeline)
    assert timeline_html(timeline, version="0", price=None).startswith("<!doctype html>")
    assert trace_document(timeline)["traceEvents"]
