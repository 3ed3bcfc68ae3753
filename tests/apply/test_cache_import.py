"""Fills a folder of kernel caches from an archive: all of it, proven and durable, or nothing."""

from __future__ import annotations

import io
import os
import signal
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.caches import FACTORS, KEY, archive, cache_files, content, info, make_cache, pack
from kboot.apply.cache_export import export_cache
from kboot.apply.cache_import import Imported, import_cache
from kboot.errors import ActionFailed, DoesNotFit
from kboot.events import Event, PhaseFinished
from kboot.facts.cache_scan import scan_cache
from kboot.plan.cache import misfits
from kboot.store.cache_archive import ArchiveList

SMALL = {"triton/A/k.json": b"{}", "triton/B/k.json": b'{"a": 1}'}


def fits(_: ArchiveList) -> tuple[str, ...]:
    """Everything fits."""
    return ()


def take(data: bytes, cache: Path, *, replace: bool = False) -> Imported:
    """Import an archive."""
    return import_cache(io.BytesIO(data), cache, fits, replace=replace)


def left(cache: Path) -> list[str]:
    """Return what lies below the cache folder, kboot's lock left out."""
    return sorted(p.name for p in cache.iterdir() if p.name != ".lock") if cache.exists() else []


def test_a_cache_arrives_as_it_was(tmp_path: Path) -> None:
    """Every file, its time to the nanosecond, the factors and the mark; the next scan has nothing to read."""
    folder = make_cache(tmp_path / "there")
    told: list[Event] = []
    export_cache(folder, tmp_path / "a", 2, emit=told.append)
    with open(tmp_path / "a", "rb") as file:
        done = import_cache(file, tmp_path / "here", fits, emit=told.append)
    scan = scan_cache(tmp_path / "here" / KEY, "m")
    ended = {event.phase: event.bytes_done for event in told if isinstance(event, PhaseFinished)}

    assert content(folder) == content(tmp_path / "here" / KEY)
    assert (KEY, True, len(cache_files())) == (done.key, done.complete, done.files)
    assert (0, (), "") == (scan.looked_at, scan.torn, scan.made_on)
    for own in ("factors.json", "complete"):
        assert (tmp_path / "here" / KEY / own).exists()
    assert [KEY] == left(tmp_path / "here")
    assert ["look", "hash", "write", "unpack"] == list(ended)
    assert done.size_bytes == ended["hash"] == ended["unpack"] < ended["write"]


def test_an_archive_that_does_not_fit_is_refused_with_the_factor(tmp_path: Path) -> None:
    """Status 13, the differing factor named, nothing written."""
    here = {**FACTORS, "driver": "590.1"}
    with pytest.raises(ActionFailed) as caught:
        import_cache(io.BytesIO(archive(SMALL)), tmp_path / "c", lambda found: misfits(found.factors, here))

    assert ("cache-does-not-fit", 13) == (caught.value.code, caught.value.status)
    assert "driver is 580.82 in it, 590.1 here" in caught.value.message
    assert [] == left(tmp_path / "c")


def test_a_complete_cache_is_replaced_only_when_asked_and_kept_then(tmp_path: Path) -> None:
    """Refused first; with replace the old one lies in the quarantine, whole."""
    make_cache(tmp_path, files={"old": b"1"})
    with pytest.raises(ActionFailed) as caught:
        take(archive(SMALL), tmp_path)
    done = take(archive(SMALL), tmp_path, replace=True)

    assert "cache-exists" == caught.value.code
    assert b"1" == (Path(done.replaced) / "old").read_bytes()
    assert set(SMALL) == set(content(tmp_path / KEY))


def test_a_cache_nobody_was_ready_with_gives_way(tmp_path: Path) -> None:
    """What a boot has prepared, or half filled, is put aside without asking."""
    make_cache(tmp_path, files={"old": b"1"}, complete=False)

    assert take(archive(SMALL), tmp_path).replaced
    assert set(SMALL) == set(content(tmp_path / KEY))


def test_an_archive_without_the_mark_gives_a_cache_without_it(tmp_path: Path) -> None:
    """Completion is carried, never made up."""
    assert not take(archive(SMALL, completed_unix_s=None), tmp_path).complete
    assert not (tmp_path / KEY / "complete").exists()


A = ("files/triton/A/k.json", b"{}")
B = ("files/triton/B/k.json", b'{"a": 1}')
HOSTILE = {
    "a path that leads out": archive({"../../evil": b"x"}),
    "an absolute path": archive({"/etc/evil": b"x"}),
    "a key that is a path": archive(SMALL, key="../evil"),
    "a time that no float holds": archive(SMALL, completed_unix_s=10**400),
    "kboot's own mark": archive({"complete": b"1"}),
    "a link in place of a file": archive(
        SMALL, (info(A[0], tarfile.SYMTYPE, "/etc/passwd"), b""), (info(B[0]), B[1])
    ),
    "a hard link": archive(SMALL, (info(A[0], tarfile.LNKTYPE, "/etc/passwd"), b""), (info(B[0]), B[1])),
    "a device": archive(SMALL, (info(A[0], tarfile.CHRTYPE), b""), (info(B[0]), B[1])),
    "a folder": archive(SMALL, (info("files/triton", tarfile.DIRTYPE), b""), (info(A[0]), A[1]), (info(B[0]), B[1])),
    "another content": archive(SMALL, (info(A[0]), b"[]"), (info(B[0]), B[1])),
    "another size": archive(SMALL, (info(A[0]), b"{ }"), (info(B[0]), B[1])),
    "another order": archive(SMALL, (info(B[0]), B[1]), (info(A[0]), A[1])),
    "a file too few": archive(SMALL, (info(A[0]), A[1])),
    "a file too many": archive(SMALL, (info(A[0]), A[1]), (info(B[0]), B[1]), (info("files/z"), b"x")),
    "a file that is not listed": archive(SMALL, (info("files/y"), A[1]), (info(B[0]), B[1])),
    "no list": pack((info(A[0]), A[1])),
    "a list that is a link": pack((info("kboot-cache.json", tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "no archive": b"PK\x03\x04 something else",
    "nothing": b"",
    "half of one": archive(cache_files())[:-5000],
    "a flipped bit": (lambda d: d[:2000] + bytes([d[2000] ^ 1]) + d[2001:])(archive(cache_files())),
    "two archives": archive(SMALL) + archive(SMALL),
    "a window of 1 GiB": zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=30)
    ).compress(bytes(1 << 21)),
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_or_damaged_archive_leaves_nothing_behind(tmp_path: Path, data: bytes) -> None:
    """Whatever it holds: status 13, nothing outside of the cache, nothing in it."""
    with pytest.raises(ActionFailed) as caught:
        take(data, tmp_path / "c")

    assert 13 == caught.value.status
    assert [] == left(tmp_path / "c")
    assert ["c"] == [p.name for p in tmp_path.iterdir()]


def test_what_claims_more_than_there_is_room_for_is_refused_first(tmp_path: Path) -> None:
    """A list of petabytes stops before the first byte is written."""
    rows = [[f"{n:06}", (1 << 33) - 1, 0, 0o644, "0" * 64] for n in range(200_000)]
    with pytest.raises(DoesNotFit) as caught:
        take(archive(SMALL, files=rows), tmp_path / "c")

    assert "cache-no-room" == caught.value.code


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_no_damage_gives_a_cache(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed, cut out or doubled anywhere: an error of ours, or exactly the files of the archive."""
    whole = archive(SMALL)
    at = data.draw(st.integers(0, len(whole) - 1))
    harmed = data.draw(
        st.sampled_from(
            [whole[:at], whole[:at] + b"\0" + whole[at:], whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :]]
        )
    )
    cache = tmp_path / os.urandom(8).hex()
    try:
        take(harmed, cache)
    except ActionFailed:
        assert [] == left(cache)
    else:
        assert SMALL == {path: found for path, (found, _) in content(cache / KEY).items()}


STEPS = {"open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "chmod", "fchmod", "close", "utime",
         "rmdir", "scandir", "renameat2", "submit", "release"}  # fmt: skip


def killed_before(step: int, work: Callable[[], object]) -> bool:
    """Work in a process that is killed before its n-th change; return whether it was."""
    if not (pid := os.fork()):
        count = step

        def watch(_frame: object, event: str, function: object) -> None:
            nonlocal count
            if event == "c_call" and getattr(function, "__name__", "") in STEPS:
                count -= 1
                if not count:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.setprofile(watch)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def whole(cache: Path) -> bool:
    """Return whether the key's folder is the new one; False for the old one; anything else fails."""
    found = {path: data for path, (data, _) in content(cache / KEY).items()}
    if found == {"old": b"1"}:
        return False
    assert SMALL == found
    assert (cache / KEY / "complete").exists()
    return True


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_step_the_key_has_the_old_cache_or_the_new_one(memory_path: Path, stride: int) -> None:
    """Never a part of one; the next import finishes, and sweeps what was left."""
    data = archive(SMALL)
    for step in range(1, 2000, stride):
        cache = memory_path / str(step)
        make_cache(cache, files={"old": b"1"})
        killed = killed_before(step, lambda cache=cache: take(data, cache, replace=True))
        done = whole(cache)
        if not killed:
            break
        take(data, cache, replace=True)
        assert whole(cache)
        assert {KEY, ".quarantine"} == set(left(cache))

    assert not killed
    assert done
    assert step > 60


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_an_export_killed_at_any_step_leaves_the_old_archive_or_the_new_one(memory_path: Path, stride: int) -> None:
    """The name never means a part of an archive."""
    folder = make_cache(memory_path / "cache", files=SMALL)
    target = memory_path / "out/a"
    target.parent.mkdir()
    new = memory_path / "new"
    export_cache(folder, new, 1)
    for step in range(1, 2000, stride):
        target.write_bytes(b"old")
        killed = killed_before(step, lambda: export_cache(folder, target, 1))
        assert target.read_bytes() in (b"old", new.read_bytes())
        if not killed:
            break

    assert not killed
    assert new.read_bytes() == target.read_bytes()


def test_two_at_once_give_one_cache(tmp_path: Path) -> None:
    """Two nodes' daemons on one disk, or a boot and a person: one takes it in, the other finds it there."""
    data = archive(cache_files(), kboot_version="1")

    def try_it() -> None:
        try:
            take(data, tmp_path)
        except ActionFailed as exc:
            os._exit(3 if exc.code == "cache-exists" else 4)

    pids = []
    for _ in range(2):
        if not (pid := os.fork()):
            status = 1
            try:
                try_it()
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    statuses = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)

    assert [0, 3] == statuses
    assert [KEY] == left(tmp_path)
    assert cache_files().keys() == content(tmp_path / KEY).keys()
