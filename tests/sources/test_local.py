import os
from pathlib import Path

import pytest

from fakes.checkpoints import remote
from kboot.errors import SourceError
from kboot.sources.local import Local

CONTENT = bytes(range(256)) * 20
FILE = remote("sub/a.safetensors", CONTENT)
REPO, COMMIT = "org/m", "c" * 40


@pytest.mark.parametrize(
    "place",
    [
        FILE.path,
        f"snapshots/{COMMIT}/{FILE.path}",
        f"blobs/{FILE.blob_id}",
        f"models--org--m/snapshots/{COMMIT}/{FILE.path}",
        f"models--org--m/blobs/{FILE.blob_id}",
    ],
)
def test_a_file_is_found_in_every_layout(tmp_path: Path, place: str) -> None:
    """A plain folder, a snapshot, a repository's cache folder, a whole cache."""
    where = tmp_path / place
    where.parent.mkdir(parents=True)
    where.write_bytes(CONTENT)

    assert CONTENT == Local(str(tmp_path)).read(REPO, COMMIT, FILE, 10_000)


def test_a_range_is_a_range(tmp_path: Path) -> None:
    """Bytes [start, end) and nothing more, whatever the buffer."""
    (tmp_path / "sub").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT)
    got, buffer = b"", memoryview(bytearray(7))
    with Local(str(tmp_path)).open(REPO, COMMIT, FILE, 100, 200) as body:
        while n := body.readinto(buffer):
            got += bytes(buffer[:n])

    assert CONTENT[100:200] == got


def test_a_short_file_is_told(tmp_path: Path) -> None:
    """A file that ends early is an error, not an end."""
    (tmp_path / "sub").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT[:50])
    buffer = memoryview(bytearray(100))
    with pytest.raises(SourceError) as caught, Local(str(tmp_path)).open(REPO, COMMIT, FILE, 0) as body:
        while body.readinto(buffer):
            pass

    assert "short-body" == caught.value.code


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """All the places are listed."""
    with pytest.raises(SourceError) as caught:
        Local(str(tmp_path)).open(REPO, COMMIT, FILE, 0)

    assert "file-not-found" == caught.value.code
    assert 5 == len(caught.value.where)


@pytest.mark.timeout(20)
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe in a shared folder would be opened until somebody writes to it."""
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / FILE.path)
    with pytest.raises(SourceError) as caught:
        Local(str(tmp_path)).open(REPO, COMMIT, FILE, 0)

    assert "file-not-readable" == caught.value.code
    assert "is not a file" in caught.value.message


def test_a_small_file_that_is_shorter_there_is_told(tmp_path: Path) -> None:
    """It is not made as long as the listing says."""
    (tmp_path / "sub").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT[:-1])
    with pytest.raises(SourceError) as caught:
        Local(str(tmp_path)).read(REPO, COMMIT, FILE, 10_000)

    assert "short-body" == caught.value.code


def test_a_folder_cannot_vouch_for_itself(tmp_path: Path) -> None:
    """It gives no listing, and a small file larger than expected is not read."""
    source = Local(str(tmp_path))
    with pytest.raises(SourceError) as listing:
        source.list(REPO, "main")
    with pytest.raises(SourceError) as large:
        source.read(REPO, COMMIT, FILE, 10)

    assert ("no-trusted-listing", "file-too-large") == (listing.value.code, large.value.code)
    assert not source.trusted


def test_interrupting_ends_open_bodies(tmp_path: Path) -> None:
    """A body that is open when kboot is told to stop gives no more bytes, and its file is closed."""
    (tmp_path / "sub").mkdir()
    (tmp_path / FILE.path).write_bytes(CONTENT)
    source = Local(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SourceError) as caught, source.open(REPO, COMMIT, FILE, 0) as body:
        source.interrupt()
        body.readinto(memoryview(bytearray(10)))

    assert "interrupted" == caught.value.code
    assert before == len(os.listdir("/proc/self/fd"))
