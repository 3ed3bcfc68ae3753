"""What stands in the headers of safetensors files, of this disk or far away? Their data is never asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from kboot.checkpoint import RemoteFile
from kboot.errors import FactMissing, SourceError
from kboot.host.plain_file import open_plain
from kboot.sources.asking import fill
from kboot.sources.patience import Patience
from kboot.sources.types import Source

MAX_HEADER_BYTES = 100_000_000
"""Longest header that the safetensors library reads."""

_T = TypeVar("_T")
_LENGTH_BYTES = 8
_READERS = 8
_STREAMS = 16
_FIRST_ASK_BYTES = 1 << 20  # a shard of the largest checkpoint known has 0.7 MB of header
_LEAST_ASK_BYTES = 16 << 10


class Header(NamedTuple):
    """json: the header itself, without its length. data_bytes: size of the file behind it."""

    path: str
    json: bytes
    data_bytes: int


def local_headers(files: Sequence[tuple[str, Path]]) -> Iterator[Header]:
    """Return the headers of files on this disk, in order, read ahead by a few threads. files: (name, where it is).

    Raises:
        FactMissing: a file cannot be read, or is no safetensors file.
    """
    yield from _ahead(lambda file: _local(*file), files, _READERS)


def remote_headers(
    source: Source, repo: str, commit: str, files: Sequence[RemoteFile], stop: threading.Event | None = None
) -> Iterator[Header]:
    """Return the headers of files of a source, in order: one range of each, sixteen at a time.

    The shards of a checkpoint have headers of much the same length (the first and last may be shorter), so one from the
    middle tells how much to ask of the others; what is longer is asked for once more. stop: set = wait for nothing.

    Raises:
        SourceError: the source does not answer or refuses. FactMissing: a file is no safetensors file.
    """
    if not files:
        return
    ask = _Asking(source, repo, commit, stop)
    middle = len(files) // 2
    known = ask.header(files[middle], _FIRST_ASK_BYTES)
    expected = max(_LEAST_ASK_BYTES, (_LENGTH_BYTES + len(known.json)) * 5 // 4)
    others = _ahead(lambda file: ask.header(file, expected), [*files[:middle], *files[middle + 1 :]], _STREAMS)
    for at, header in enumerate(others):
        if at == middle:
            yield known
        yield header
    if middle == len(files) - 1:
        yield known


def _ahead(read: Callable[[_T], Header], items: Sequence[_T], threads: int) -> Iterator[Header]:
    """Yield what `read` gives, in order, with so many reads under way but never more than twice as many kept."""
    with ThreadPoolExecutor(threads, thread_name_prefix="headers") as pool:
        running = [pool.submit(read, item) for item in items[: 2 * threads]]
        try:
            for at in range(len(items)):
                yield running[at].result()
                if len(running) < len(items):
                    running.append(pool.submit(read, items[len(running)]))
        finally:
            for future in running:
                future.cancel()


def _local(name: str, where: Path) -> Header:
    try:
        fd = open_plain(where)
        try:
            size = os.fstat(fd).st_size
            length = _length(name, os.pread(fd, _LENGTH_BYTES, 0), size)
            json = os.pread(fd, length, _LENGTH_BYTES)
        finally:
            os.close(fd)
    except OSError as exc:
        raise FactMissing("header-not-readable", f"{name}: {exc.strerror or exc}", where=(str(where),)) from exc
    return _header(name, json, length, size)


class _Asking:
    """Asks one source for the beginnings of files."""

    def __init__(self, source: Source, repo: str, commit: str, stop: threading.Event | None) -> None:
        self._source = source
        self._repo = repo
        self._commit = commit
        self._stop = stop

    def header(self, file: RemoteFile, expected: int) -> Header:
        """Return a file's header, asked for with `expected` bytes at first."""
        start = self._read(file, 0, min(expected, file.size_bytes))
        length = _length(file.path, start, file.size_bytes)
        missing = _LENGTH_BYTES + length - len(start)
        if missing > 0:
            start += self._read(file, len(start), len(start) + missing)
        return _header(file.path, start[_LENGTH_BYTES : _LENGTH_BYTES + length], length, file.size_bytes)

    def _read(self, file: RemoteFile, start: int, end: int) -> bytes:
        return Patience(not_yet_for_s=0.0).answer(lambda: self._read_once(file, start, end), self._stop)

    def _read_once(self, file: RemoteFile, start: int, end: int) -> bytes:
        with self._source.open(self._repo, self._commit, file, start, end) as body:
            ahead = start - body.start  # a server that ignores ranges begins at 0
            data = bytearray(ahead + end - start)
            done = fill(body, memoryview(data), file.path)
            if done < len(data):
                raise SourceError("short-body", f"{file.path} ended {len(data) - done} bytes early", retry=True)
            return bytes(memoryview(data)[ahead:])


def _length(name: str, start: bytes, size: int) -> int:
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    if len(start) < _LENGTH_BYTES or not 2 <= length <= min(MAX_HEADER_BYTES, size - _LENGTH_BYTES):
        raise FactMissing(
            "header-not-valid",
            f"{name} is no safetensors file: its first 8 bytes say {length:,} bytes of header, it has {size:,}",
            hint="see with `kboot verify --mode quick` what it is",
        )
    return length


def _header(name: str, json: bytes, length: int, size: int) -> Header:
    if len(json) < length:
        raise FactMissing("header-not-valid", f"{name} ends inside its header of {length:,} bytes")
    return Header(name, json, size - _LENGTH_BYTES - length)
