"""What every kind of source promises, asked of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakes.checkpoints import remote
from fakes.fetching import sources_of
from fakes.hub import COMMIT, REPO, FakeHub
from fakes.objects import ObjectServer
from fakes.peer import serving_peer
from kboot.errors import SourceError
from kboot.sources.types import Source

NAME = "sub/a.safetensors"
CONTENT = bytes(range(251)) * 40_000
FILES = {NAME: CONTENT, "config.json": b"{}"}
FILE = remote(NAME, CONTENT)


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Source]:
    """Give one source of a kind that has FILES."""
    with FakeHub(FILES, cdn=kind == "hub with cdn") as hub:
        if kind == "peer":
            with serving_peer(folder, FILES) as peer:
                yield peer
        elif kind in ("web folder", "s3"):
            if kind == "s3":
                pytest.importorskip("obstore")
            with ObjectServer({f"bucket/m/{path}": content for path, content in FILES.items()}) as server:
                env = {"AWS_ENDPOINT_URL": server.url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
                yield sources_of(
                    hub.url, f"{server.url}/bucket/m/" if kind == "web folder" else "s3://bucket/m", env=env
                )[1]
        elif kind == "folder":
            (folder / "sub").mkdir()
            for path, content in FILES.items():
                (folder / path).write_bytes(content)
            yield sources_of(hub.url, f"file://{folder}")[1]
        else:
            yield sources_of(hub.url, hub.url.replace("127.0.0.1", "localhost"))[kind == "mirror"]


@pytest.fixture(params=["hub", "hub with cdn", "mirror", "folder", "web folder", "s3", "peer"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    with opened(request.param, tmp_path) as one:
        yield one


def received(source: Source, start: int, end: int | None) -> bytes:
    got, buffer = b"", memoryview(bytearray(300_000))
    with source.open(REPO, COMMIT, FILE, start, end) as body:
        assert body.start <= start
        assert body.total_bytes in (None, len(CONTENT))
        while n := body.readinto(buffer):
            got += bytes(buffer[:n])
        assert 0 == body.readinto(buffer), "an end stays an end"
    return got


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, 1), (1_000_000, None), (5, 2_000_000), (10_039_999, None)])
def test_a_range_is_that_range(source: Source, start: int, end: int | None) -> None:
    """Bytes [start, end) of the file, from every kind of source."""
    assert CONTENT[start:end] == received(source, start, end)


def test_small_files_are_read_whole(source: Source) -> None:
    """read() gives the content, and refuses one that is too large."""
    assert b"{}" == source.read(REPO, COMMIT, remote("config.json", b"{}"), 100)
    with pytest.raises(SourceError) as caught:
        source.read(REPO, COMMIT, FILE, 100)
    assert "file-too-large" == caught.value.code


def test_a_file_that_is_not_there_is_final(source: Source) -> None:
    """Asking again would not help, and the error says so."""
    with pytest.raises(SourceError) as caught:
        source.open(REPO, COMMIT, remote("none.safetensors", b"x"), 0)

    assert ("file-not-found", False) == (caught.value.code, caught.value.retry)


def test_only_a_trusted_source_lists(source: Source) -> None:
    """A listing comes from the operator's Hub; where there are only files, nobody gives one."""
    if source.trusted:
        assert COMMIT == source.list(REPO, "main").commit
    elif source.name.startswith(("file:", "s3:", "peer ")) or source.name.endswith("/m/"):
        with pytest.raises(SourceError):
            source.list(REPO, "main")


def test_close_is_no_end(source: Source) -> None:
    """Idle connections go, the source stays; interrupt() is the end."""
    received(source, 0, 10)
    source.close()
    assert CONTENT[:10] == received(source, 0, 10)
    source.interrupt()
    with pytest.raises(SourceError):
        received(source, 0, 10)
