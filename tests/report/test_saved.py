"""What is kept of a boot, while it runs and afterwards?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import T0, demo_boot, failed_boot, kimi_boot

from kboot.errors import SourceError
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.report.document import plain
from kboot.report.saved import (
    KEPT_BOOTS,
    RunningBoot,
    change_report,
    clear_progress,
    is_alive,
    load_reports,
    process_mark,
    read_boot,
    read_progress,
    save_refusal,
    save_report,
    write_progress,
)
from kboot.report.types import BootReport


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Folders that do not exist yet."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


def test_a_saved_boot_is_read_back_whole(paths: Paths) -> None:
    """Every field of a report, its error with class and status among them, survives the disk."""
    for boot in (failed_boot(), kimi_boot()):
        save_report(boot, paths)
        (loaded, *_) = load_reports(paths, 1)

        assert plain(boot) == plain(loaded)
        assert plain(boot) == plain(read_boot(paths))
        assert type(boot.error) is type(loaded.error)


def test_a_change_keeps_what_others_changed_meanwhile(paths: Paths) -> None:
    """Two change one report: neither takes the other's away; that of a later boot stays the last one."""
    boot = demo_boot()
    save_report(boot, paths)
    change_report(boot, paths, lambda now: replace(now, ready_unix_s=T0 + 90))
    both = change_report(boot, paths, lambda now: replace(now, warnings=("slow",)))
    assert (T0 + 90, ("slow",)) == (both.ready_unix_s, both.warnings)
    assert plain(both) == plain(read_boot(paths))
    save_report(demo_boot(at=T0 + 1000), paths)
    change_report(boot, paths, lambda now: replace(now, warnings=("late",)))

    assert T0 + 1000 == last_of(paths).started_unix_s


def test_reports_come_newest_first_and_no_more_than_asked(paths: Paths) -> None:
    """The history is ordered by when boots began, whatever order they were saved in."""
    for at in (T0 + 20, T0, T0 + 10):
        save_report(demo_boot(at=at), paths)

    assert [T0 + 20, T0 + 10] == [r.started_unix_s for r in load_reports(paths, 2)]


def test_a_damaged_report_is_left_out(paths: Paths) -> None:
    """A file that is no report, torn or of another kind, hides no other boot."""
    save_report(demo_boot(), paths)
    (paths.history / "99990101T000000.000000-x.json").write_text('{"kind": "boot", "boot_id": "x"')
    (paths.history / "99990102T000000.000000-x.json").write_text('{"kind": "facts"}')
    (paths.history / "99990103T000000.000000-x.json").write_text("[]")

    assert [T0] == [r.started_unix_s for r in load_reports(paths, 10)]


def test_no_history_is_no_boots(paths: Paths) -> None:
    """A node that never booted has no reports and no last boot."""
    assert () == load_reports(paths, 10)
    assert read_boot(paths) is None
    assert read_progress(paths) is None


def test_old_reports_go(paths: Paths) -> None:
    """The history keeps the newest KEPT_BOOTS and no more."""
    paths.history.mkdir(parents=True)
    for number in range(KEPT_BOOTS + 5):
        (paths.history / f"20000101T000000.{number:06d}-old.json").write_text("{}")

    save_report(demo_boot(), paths)

    names = sorted(p.name for p in paths.history.iterdir())
    assert KEPT_BOOTS == len(names)
    assert names[-1].endswith("-demo.json")


def test_a_report_of_a_time_to_come_is_kept_when_it_is_saved_and_goes_first_later(paths: Paths) -> None:
    """Its clock was far ahead: it is on record, and makes room before any other."""
    paths.history.mkdir(parents=True)
    for number in range(KEPT_BOOTS):
        (paths.history / f"20000101T000000.{number:06d}-old.json").write_text("{}")
    ahead = save_report(demo_boot(at=4e9), paths)
    assert ahead.exists()

    save_report(demo_boot(at=1.7e9), paths)

    assert not ahead.exists()


def test_a_profile_named_by_path_stays_inside_the_history(paths: Paths) -> None:
    """The name of a report holds no separators, whatever the profile is called."""
    path = save_report(replace(demo_boot(), profile="../../etc/x"), paths)

    assert paths.history == path.parent


def test_progress_is_of_a_living_process_or_of_a_dead_one(paths: Paths) -> None:
    """The process is told by number and start: a later process of the same number is another one."""
    host = RealHost()
    pid, mark = process_mark(host, "self")
    running = RunningBoot("b", "demo", pid, mark, T0, T0, {"phases": []})
    write_progress(running, paths)

    assert running == read_progress(paths)
    assert is_alive(running, host)
    assert not is_alive(replace(running, process="1"), host)

    clear_progress(paths)
    assert read_progress(paths) is None


def test_a_process_name_with_brackets_does_not_move_the_start_time(tmp_path: Path) -> None:
    """/proc/PID/stat is read from behind its last bracket, as a name may hold some."""
    (tmp_path / "proc/7").mkdir(parents=True)
    fields = " ".join(str(n) for n in range(4, 53))
    (tmp_path / "proc/7/stat").write_text(f"7 (a) b (c)) S {fields}\n")

    assert (7, "22") == process_mark(RecordedHost(tmp_path), 7)
    assert (0, "") == process_mark(RecordedHost(tmp_path), 8)


def test_the_record_is_one_json_document_with_schema_and_kind(paths: Paths) -> None:
    """boot.json is what other tools read: one document, schema 1, kind boot."""
    save_report(kimi_boot(), paths)
    doc = json.loads(paths.boot.read_text())

    assert (1, "boot", 111) == (doc["schema"], doc["kind"], len(doc["outcomes"]))


def test_a_run_about_the_bytes_does_not_take_the_place_of_a_boot(paths: Paths) -> None:
    """`kboot fetch` after a boot is in the history, and the last boot stays the last boot."""
    fetched = replace(demo_boot(at=T0 + 50), what="bytes")
    save_report(replace(fetched, started_unix_s=T0 - 50), paths)
    assert "bytes" == last_of(paths).what

    save_report(demo_boot(), paths)
    save_report(fetched, paths)

    assert ("boot", T0) == (last_of(paths).what, last_of(paths).started_unix_s)
    assert ["bytes", "boot", "bytes"] == [r.what for r in load_reports(paths, 5)]


def last_of(paths: Paths) -> BootReport:
    """Return the last boot, which there is."""
    report = read_boot(paths)
    assert report is not None
    return report


def test_a_run_about_the_bytes_does_not_hide_a_boot_that_serves(paths: Paths) -> None:
    """Each kind has its progress; the boot's is shown first, and ends with it alone."""
    boot = RunningBoot("b", "demo", 1, "1", T0, T0, {})
    write_progress(boot, paths)
    write_progress(replace(boot, pid=2), paths, "bytes")
    assert boot == read_progress(paths)

    clear_progress(paths, "bytes")
    assert boot == read_progress(paths)

    clear_progress(paths)
    assert read_progress(paths) is None


def test_the_same_refusal_again_is_kept_once(paths: Paths) -> None:
    """A daemon that is refused every minute does not push the boots out of the history."""
    save_report(demo_boot(), paths)
    error = SourceError("connection-refused", "127.0.0.1:9 refuses connections")
    refused = replace(demo_boot(), status="failed", commit="", outcomes=(), error=error)
    for at in (T0 + 10, T0 + 20):
        save_refusal(replace(refused, started_unix_s=at), paths)
    save_refusal(replace(refused, started_unix_s=T0 + 30, error=SourceError("not-found", "404")), paths)

    assert [T0 + 30, T0 + 20, T0] == [r.started_unix_s for r in load_reports(paths, 9)]
    assert "not-found" == getattr(last_of(paths).error, "code", "")
