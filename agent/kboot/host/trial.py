"""Does a folder keep what compilers' caches rely on: locks, renames, times, mapped code? Found by trying."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kboot.host.clock import unix_s
from kboot.host.os_errors import explained

SKEW_S = 2.0
"""A file written now should not look older or newer than this: ninja and make compare such times with each other's."""


def try_folder(folder: Path) -> tuple[str, ...]:
    """Return what does not work in the folder, a phrase each with what was seen; empty where all of it does.

    Takes a moment, and leaves nothing behind unless it is killed meanwhile.

    Raises:
        ActionFailed: nothing can be written there at all.
    """
    place = folder / f".kboot-trial-{secrets.token_hex(6)}.tmp"
    with explained("write a test file", place):
        os.mkdir(place, 0o700)
        try:
            found = [_try(name, test, place) for name, test in _TRIALS]
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return tuple(text for text in found if text)


def _try(name: str, test: Callable[[Path], str], place: Path) -> str:
    try:
        seen = test(place / name.split()[0])
    except OSError as exc:
        seen = os.strerror(exc.errno) if exc.errno else str(exc)
    return f"{name}: {seen}" if seen else ""


def _flock(path: Path) -> str:
    """A second lock on the same file must be refused while the first is held."""
    first = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    second = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            return "" if exc.errno in (errno.EWOULDBLOCK, errno.EACCES) else os.strerror(exc.errno or 0)
        return "two processes would get the same lock"
    finally:
        os.close(second)
        os.close(first)


def _rename(path: Path) -> str:
    """A file that is open must stay readable when another takes its name."""
    for name, data in (("old", b"old"), ("new", b"new")):
        path.with_name(name).write_bytes(data)
    fd = os.open(path.with_name("old"), os.O_RDONLY)
    try:
        os.replace(path.with_name("new"), path.with_name("old"))
        kept, found = os.pread(fd, 3, 0), path.with_name("old").read_bytes()
        return "" if (kept, found) == (b"old", b"new") else f"the open file reads {kept!r}, the name {found!r}"
    finally:
        os.close(fd)


def _times(path: Path) -> str:
    """The time of a file must be this machine's, to the nanosecond when it is set, and must not move afterwards."""
    before_s = unix_s()
    path.write_bytes(b"x")
    mtime_s, after_s = os.stat(path).st_mtime, unix_s()
    if mtime_s > after_s + SKEW_S:
        return f"a file written now is {mtime_s - after_s:.0f} s ahead"
    if mtime_s < before_s - SKEW_S:
        return f"a file written now is {before_s - mtime_s:.0f} s behind"
    wanted = 1_781_087_915_292_417_123
    os.utime(path, ns=(wanted, wanted))
    moved = os.stat(path).st_mtime_ns - wanted
    return f"a time that was set is {moved} ns off" if abs(moved) > 1000 else ""


def _map(path: Path) -> str:
    """Compiled code is mapped to be run."""
    path.write_bytes(bytes(mmap.PAGESIZE))
    fd = os.open(path, os.O_RDONLY)
    try:
        with suppress(ValueError), mmap.mmap(fd, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_EXEC):
            return ""
    finally:
        os.close(fd)
    return "it cannot be mapped"


_TRIALS: tuple[tuple[str, Callable[[Path], str]], ...] = (
    ("flock", _flock),
    ("rename over an open file", _rename),
    ("mtime", _times),
    ("execute", _map),
)
