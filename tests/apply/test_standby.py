"""May a node that stands by serve now?"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kboot.apply.live import begin_serving, boot_with_engine, is_held, nobody_starts, stop_serving
from kboot.apply.standby import WarmKeeper, go_live, hold, is_live, stand_by
from kboot.errors import ActionFailed
from kboot.events import Event, Notice, PhaseFinished, PhaseStarted
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.report.saved import RunningBoot, process_mark, write_progress

HOST = RealHost()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Folders of a node of its own."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


def test_live_is_said_once_for_the_whole_boot_and_can_be_taken_back(paths: Paths) -> None:
    """Not live, live, not live again; taking back what was never said is no error."""
    seen = [is_live(paths, HOST)]
    for change in (lambda: go_live(paths, HOST), lambda: stand_by(paths), lambda: stand_by(paths)):
        change()
        seen.append(is_live(paths, HOST))

    assert [False, True, False, False] == seen


def test_what_was_said_before_the_machine_was_started_again_does_not_count(paths: Paths) -> None:
    """A runtime folder that outlives the kernel holds another boot's id."""
    go_live(paths, HOST)
    paths.live.write_text("00000000-0000-4000-8000-000000000000\n")

    assert not is_live(paths, HOST)


def test_a_hold_ends_with_what_is_said_after_it_began(paths: Paths) -> None:
    """An earlier word is taken back first: a container that starts again stands by again."""
    go_live(paths, HOST)
    events: list[Event] = []

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice):
            assert not is_live(paths, HOST)
            go_live(paths, HOST)

    assert hold(paths, HOST, emit, threading.Event(), lambda: None)
    assert [PhaseStarted, Notice, PhaseFinished] == [type(event) for event in events]


def test_a_hold_ends_when_kboot_is_stopped(paths: Paths) -> None:
    """Nobody said live: the engine is not started."""
    stop = threading.Event()
    stop.set()

    events: list[Event] = []

    assert not hold(paths, HOST, events.append, stop, lambda: None)
    assert ["interrupted"] == [e.status for e in events if isinstance(e, PhaseFinished)]


def test_what_is_missing_is_read_while_the_node_stands_by() -> None:
    """Looked at again and again; trouble is said and ends nothing; a node that serves is left alone."""
    looks, seen = threading.Semaphore(0), []

    def warm() -> None:
        looks.release()
        raise ActionFailed("disk-error", "the disk does not read")

    keeper = WarmKeeper(lambda: True, warm, seen.append, every_s=0.01)
    keeper.begin()
    assert all(looks.acquire(timeout=60) for _ in range(3))
    keeper.end()
    serving = WarmKeeper(lambda: False, warm, seen.append, every_s=0.01)
    before = len(seen)
    serving.begin()
    serving.end()

    assert {("standby.not_warmed", "disk-error: the disk does not read")} == {(n.event, n.text) for n in seen}
    assert before == len(seen)


def test_a_node_that_does_not_stand_by_cannot_go_live(paths: Paths) -> None:
    """Neither its configuration nor a boot holds: named, and nothing is written."""
    for act in (lambda: begin_serving(paths, HOST, False), lambda: stop_serving(paths, HOST, False)):
        with pytest.raises(ActionFailed) as caught:
            act()
        assert "not-standing-by" == caught.value.code
    assert not paths.live.exists()
    assert not is_held(paths, HOST)


def test_a_node_that_is_not_prepared_does_not_go_live(paths: Paths) -> None:
    """Without a record there is nothing to start, and nothing starts later either."""
    with pytest.raises(ActionFailed) as caught:
        begin_serving(paths, HOST, True)

    assert "handoff-missing" == caught.value.code
    assert not is_live(paths, HOST)


def under_way(paths: Paths, *phases: tuple[str, str]) -> int:
    """Write this process down as a boot with these phases; return its number."""
    pid, process = process_mark(HOST, "self")
    progress = {"phases": [{"name": name, "status": status} for name, status in phases]}
    write_progress(RunningBoot("b", "demo", pid, process, 1.0, 2.0, progress), paths)
    return pid


def test_an_engine_in_the_foreground_is_not_said_to_stop(paths: Paths) -> None:
    """No service has it: the process that does is named, and what comes next holds."""
    pid = under_way(paths, ("standby", "done"), ("serve", "done"))
    go_live(paths, HOST)
    with pytest.raises(ActionFailed) as caught:
        stop_serving(paths, HOST, True)

    assert "engine-without-service" == caught.value.code
    assert f"kill {pid}" in (caught.value.hint or "")
    assert not is_live(paths, HOST)


def test_a_boot_that_holds_or_serves_has_the_engine_and_one_that_prepares_has_not(paths: Paths) -> None:
    """Whoever has it starts it: systemd is then asked for nothing."""
    seen = []
    for phases in ([("standby", "running")], [("serve", "running")], [("fetch", "running")]):
        pid = under_way(paths, *phases)
        seen.append(boot_with_engine(paths, HOST) == pid)

    assert [True, True, False] == seen


def test_without_a_boot_and_a_service_somebody_has_to_start_the_engine(paths: Paths, tmp_path: Path) -> None:
    """A container without systemd: the operator is told, and does not only wait."""
    (tmp_path / "bare").mkdir()
    (tmp_path / "init/run/systemd/system").mkdir(parents=True)

    assert nobody_starts(paths, RecordedHost(tmp_path / "bare"))
    assert not nobody_starts(paths, RecordedHost(tmp_path / "init"))
