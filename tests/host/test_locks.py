"""One process at a time, and a dead one never stands in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.locks import flock_holder, holder, lock_file

HOLD = (
    "import pathlib, sys\n"
    "from kboot.host.locks import lock_file\n"
    "with lock_file(pathlib.Path(sys.argv[1]), 10):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


def hold(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that holds the lock until its stdin ends."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout
    assert b"held\n" == child.stdout.readline()
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill and reap."""
    child.kill()
    child.communicate(timeout=30)


def test_a_held_lock_names_its_holder_when_the_deadline_passes(tmp_path: Path) -> None:
    """B011: a bounded wait, then who holds it."""
    path = tmp_path / "lock"
    child = hold(path)
    try:
        with pytest.raises(ActionFailed) as caught, lock_file(path, 0.1):
            pass
    finally:
        end(child)

    assert "locked" == caught.value.code
    assert f"pid {child.pid} on " in caught.value.message


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    """B011: the file of a dead process is no lock, however fresh it is."""
    path = tmp_path / "lock"
    end(hold(path))
    assert holder(path) is not None

    with lock_file(path, 0):
        assert "pid" in (holder(path) or "")


def test_a_lock_can_be_taken_again_after_it_was_let_go(tmp_path: Path) -> None:
    """The file stays, unsigned."""
    path = tmp_path / "lock"
    for _ in range(2):
        with lock_file(path, 0):
            pass

    assert (True, None) == (path.exists(), holder(path))


def test_two_locks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """Threads are kept apart as processes are."""
    path = tmp_path / "lock"
    with lock_file(path, 0), pytest.raises(ActionFailed, match="held by pid"), lock_file(path, 0):
        pass


def test_a_lock_in_a_missing_folder_is_our_error(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(ActionFailed) as caught, lock_file(tmp_path / "no" / "lock", 0):
        pass

    assert "path-missing" == caught.value.code


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": 1}'])
def test_a_lock_file_of_any_content_can_be_locked(tmp_path: Path, content: bytes) -> None:
    """What a killed holder half wrote does no harm."""
    path = tmp_path / "lock"
    path.write_bytes(content)

    assert holder(path) is None
    with lock_file(path, 0):
        pass


def test_whoever_waits_sees_the_holder_get_on(tmp_path: Path) -> None:
    """B011: a heartbeat tells a holder that works from one that hangs."""
    path = tmp_path / "lock"
    waiting = lock_file(path, 0)
    assert 0.0 == waiting.last_beat()
    with lock_file(path, 0) as lock:
        os.utime(path, (1, 1))
        assert 1.0 == waiting.last_beat()
        lock.beat()

        assert 1.0 < waiting.last_beat()


def test_the_process_that_has_a_file_locked_is_named(tmp_path: Path) -> None:
    """By the kernel's own list of locks; nobody is named when nobody has it."""
    path = tmp_path / "lock"
    path.touch()
    assert flock_holder(path) is None
    child = hold(path)
    try:
        assert child.pid == flock_holder(path)
    finally:
        end(child)
    assert flock_holder(tmp_path / "none") is None
