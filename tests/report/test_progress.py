"""How far is the running boot, how fast does it go, and when will it serve?"""

from __future__ import annotations

import pytest

from kboot.events import EngineLine, Event, FileDone, FileProgress, FileTrouble, Notice, PhaseFinished, PhaseStarted
from kboot.report.progress import History, Tracker, summarize


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def tracked(*events: tuple[float, Event], history: History | None = None) -> tuple[Tracker, Clock]:
    """Return a tracker that saw the events at these seconds."""
    clock = Clock()
    tracker = Tracker(lambda _event: None, history, clock)
    for at_s, event in events:
        clock.now_s = at_s
        tracker.emit(event)
    return tracker, clock


FETCH = PhaseStarted("fetch", 2, 1000)


def test_bytes_on_disk_before_the_boot_are_not_progress() -> None:
    """A resumed file counts from where it was resumed, under way and when it is done."""
    tracker, _ = tracked(
        (0, FETCH),
        (1, FileProgress("fetch", "a", 400, 700)),
        (2, FileProgress("fetch", "a", 500, 700)),
    )
    assert 100 == tracker.phases()[0].done_bytes

    tracker.emit(FileDone("fetch", "a", 700, 1.0, "hub", reused_bytes=400))

    assert (300, 1) == (tracker.phases()[0].done_bytes, tracker.phases()[0].files_done)


def test_files_that_are_not_told_apart_are_counted() -> None:
    """Bytes and files are those of the phase."""
    tracker, _ = tracked(
        (0, PhaseStarted("hash", 7, 1000)),
        (0, FileProgress("hash", "", 0, 1000)),
        (1, FileProgress("hash", "", 500, 1000, 3)),
    )

    assert (500, 3) == (tracker.phases()[0].done_bytes, tracker.phases()[0].files_done)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """A fast start that is long over does not make the rate; a stall shows."""
    progress = [(float(s), FileProgress("fetch", "a", 50 * s, 1000)) for s in range(11)]
    tracker, clock = tracked((0, FETCH), *progress)
    assert 50 == round(tracker.view().rate_bytes_s)

    clock.now_s = 40.0
    tracker.view()
    clock.now_s = 51.0

    assert 0 == tracker.view().rate_bytes_s
    assert tracker.view().eta_s is None


def test_the_outlook_adds_what_is_to_come_and_says_what_it_rests_on() -> None:
    """Seconds to the answer: the bytes left at the present rate, and the median of phases not begun."""
    history = History({"fetch": 99.0, "warm": 5.0, "serve": 30.0}, boots=3)
    tracker, _ = tracked(
        (0, FETCH),
        (0, FileProgress("fetch", "a", 0, 1000)),
        (5, FileProgress("fetch", "a", 500, 1000)),
        history=history,
    )
    view = tracker.view()

    assert 5 + 35 == round(view.eta_s or 0)
    assert "rate of the last 10 s, median of 3 boots" == view.eta_basis


@pytest.mark.parametrize(
    ("goal", "first", "history"),
    [
        ("serving", "plan", {"fetch": 9.0, "serve": 30.0}),
        ("serving", "serve", {}),
        ("prepared", "plan", {"fetch": 9.0}),
        ("done", "verify", {}),
    ],
)
def test_an_outlook_says_what_it_ends_with(goal: str, first: str, history: dict[str, float]) -> None:
    """Serving only where the engine's start is counted; a run without a plan prepares nothing."""
    tracker, _ = tracked((0, PhaseStarted(first, 1, 0)), history=History(history, 1))

    assert goal == tracker.view().eta_of


def test_without_a_rate_or_history_there_is_no_outlook() -> None:
    """Nothing supports a number: none is given."""
    assert tracked()[0].view().eta_s is None
    assert tracked((0, PhaseStarted("serve", 1, 0)))[0].view().eta_s is None


def test_the_time_a_phase_has_taken_is_taken_off_its_median() -> None:
    """An engine that has been starting for 10 s of its usual 30 s needs 20 s more."""
    tracker, clock = tracked((0, PhaseStarted("serve", 1, 0)), history=History({"serve": 30.0}, 1))
    clock.now_s = 10.0

    assert 20.0 == tracker.view().eta_s
    assert "median of 1 boot" == tracker.view().eta_basis


def test_an_outlook_that_depends_on_others_says_so() -> None:
    """A wait for other nodes, or for `kboot live`, has no length: what comes after it has, and it is said from when."""
    history = History({"meet": 40.0, "serve": 30.0}, 2)
    meets, clock = tracked((0, PhaseStarted("meet", 4, 0)), history=history)
    clock.now_s = 300.0

    assert (30.0, "once the other nodes are ready, median of 2 boots") == (meets.view().eta_s, meets.view().eta_basis)
    holds, _ = tracked((0, PhaseStarted("standby", 0, 0)), history=History({"serve": 30.0}, 2))
    assert (30.0, "once `kboot live` is said, median of 2 boots") == (holds.view().eta_s, holds.view().eta_basis)
    assert (None, "") == ((alone := tracked((0, PhaseStarted("meet", 4, 0)))[0].view()).eta_s, alone.eta_basis)
    met, _ = tracked((0, PhaseStarted("meet", 4, 0)), (9, PhaseFinished("meet", "done", 9.0, 0)), history=history)
    assert (30.0, "median of 2 boots") == (met.view().eta_s, met.view().eta_basis)


def test_a_final_failure_stays_and_a_retry_goes_when_the_file_is_done() -> None:
    """Per-file failures stay visible with their reason; a try that failed is forgotten once the file is there."""
    tracker, _ = tracked(
        (0, FETCH),
        (1, FileTrouble("fetch", "a", "stalled", "no byte for 30 s", final=False)),
        (2, FileTrouble("fetch", "b", "shard-hash-mismatch", "sha256 is 9c, wanted 41", final=True)),
    )
    assert ["a"] == [t.path for t in tracker.view().retrying]

    tracker.emit(FileDone("fetch", "a", 100, 1.0, "hub"))

    assert [] == [t.path for t in tracker.view().retrying]
    assert ["shard-hash-mismatch"] == [t.code for t in tracker.view().failed]


def test_active_files_are_ordered_by_nearness_to_their_end() -> None:
    """What is shown first is what finishes first."""
    tracker, _ = tracked(
        (0, FETCH),
        (1, FileProgress("fetch", "a", 10, 100)),
        (1, FileProgress("fetch", "b", 90, 100)),
    )

    assert ["b", "a"] == [f.path for f in tracker.view().active]


def test_only_what_moves_the_boot_on_counts_as_moving() -> None:
    """The same bytes again, a failed try and a notice are no sign of life; bytes and engine lines are."""
    tracker, _ = tracked((0, FETCH), (1, FileProgress("fetch", "a", 10, 100)))
    before = tracker.moved

    tracker.emit(FileProgress("fetch", "a", 10, 100))
    tracker.emit(FileTrouble("fetch", "a", "stalled", "no byte", final=False))
    tracker.emit(Notice("source.demoted", "mirror is slow"))
    assert before == tracker.moved

    tracker.emit(FileProgress("fetch", "a", 11, 100))
    tracker.emit(EngineLine(0.0, "INFO loading"))

    assert before + 2 == tracker.moved


def test_a_finished_phase_keeps_the_length_and_bytes_it_reported() -> None:
    """After its end a phase says what PhaseFinished said, and the next one may run."""
    tracker, _ = tracked((0, FETCH), (9, PhaseFinished("fetch", "done", 8.5, 1000)), (9, PhaseStarted("warm", 1, 0)))
    fetch, warm = tracker.phases()

    assert ("done", 8.5, 1000) == (fetch.status, fetch.seconds, fetch.done_bytes)
    assert "running" == warm.status


def test_the_summary_names_what_runs_and_how_far_it_is() -> None:
    """One line for `systemctl status`."""
    tracker, _ = tracked((0, FETCH), (1, FileProgress("fetch", "a", 0, 700)), (2, FileProgress("fetch", "a", 250, 700)))

    assert "finding the hardware" == summarize(())
    assert "fetch 250 B of 1.00 kB, 0 files done" == summarize(tracker.phases())


def test_once_it_answers_nothing_is_still_to_come() -> None:
    """While the engine serves there is no time to the answer, whatever earlier boots did besides."""
    tracker, _ = tracked(
        (0, PhaseStarted("serve", 0, 0)),
        (3, PhaseFinished("serve", "done", 3.0, 0)),
        history=History({"serve": 3.0, "bytecode": 2.7}, 2),
    )

    assert (None, "") == (tracker.view().eta_s, tracker.view().eta_basis)
