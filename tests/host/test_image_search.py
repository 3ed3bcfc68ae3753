"""A search looks into every file within its bounds, packed ones too, and tells what it did not look at."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from kboot.host.image import Entry, ImageTree
from kboot.host.image_search import ImageSearch, SearchBounds, Searched
from kboot.host.removal import remove_folder

WORD = b"canary"
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def has_word(data: bytes) -> str:
    return "a word" if WORD in data else ""


def search(
    root: Path,
    bounds: SearchBounds | None = None,
    choose: Callable[[Entry], Callable[[bytes], str] | str] = lambda _: has_word,
) -> tuple[list[str], Searched]:
    found = ImageSearch(ImageTree(root), lambda _: False, choose, bounds or SearchBounds())
    return [entry.path for entry, _ in found], found.searched


@pytest.mark.parametrize("end", sorted(PACKERS))
def test_what_is_packed_is_unpacked(tmp_path: Path, end: str) -> None:
    """Rotated logs are compressed; two packed pieces one after the other are one file."""
    pack = PACKERS[end]
    (tmp_path / f"log.1{end}").write_bytes(pack(b"x" * 5000) + pack(b" " + WORD))
    (tmp_path / f"other{end}").write_bytes(pack(b"x" * 5000))

    assert [f"log.1{end}"] == search(tmp_path)[0]


@pytest.mark.parametrize("end", sorted(PACKERS))
def test_a_packed_file_that_is_none_is_looked_at_as_it_is(tmp_path: Path, end: str) -> None:
    """Its name says nothing about what it holds; one that is cut is read as far as it goes."""
    (tmp_path / f"a{end}").write_bytes(b"not packed, " + WORD)
    (tmp_path / f"b{end}").write_bytes(b"not packed")
    (tmp_path / f"c{end}").write_bytes(PACKERS[end](os.urandom(4096))[:-20])

    assert ([f"a{end}"], 3) == (search(tmp_path)[0], search(tmp_path)[1].files)


def test_a_small_file_that_unpacks_to_a_large_one_is_bounded(tmp_path: Path) -> None:
    """What lies behind the bound is not read, and that is told."""
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(9 << 20) + WORD))
    found, searched = search(tmp_path, SearchBounds(file_bytes=1 << 20))

    assert [] == found
    assert [1] == list(searched.passed.values())
    assert searched.size_bytes < 3 << 20


def test_a_word_across_two_reads_is_found(tmp_path: Path) -> None:
    """Each piece begins with the end of the one before."""
    (tmp_path / "a").write_bytes(b" " * ((4 << 20) - 3) + WORD)

    assert ["a"] == search(tmp_path)[0]


@pytest.mark.parametrize("bounds", [SearchBounds(files=2), SearchBounds(total_bytes=2), SearchBounds(seconds=0)])
def test_a_search_ends_at_its_bounds_and_says_so(tmp_path: Path, bounds: SearchBounds) -> None:
    """The files that were left are counted."""
    for name in "abcd":
        (tmp_path / name).write_bytes(b"x")
    searched = search(tmp_path, bounds)[1]

    assert 4 == searched.files + sum(searched.passed.values())
    assert searched.passed


def test_what_is_passed_by_is_counted_with_its_reason(tmp_path: Path) -> None:
    """Neither opened nor forgotten."""
    (tmp_path / "a.zip").write_bytes(WORD)
    (tmp_path / "b").write_bytes(WORD)
    found, searched = search(tmp_path, choose=lambda e: "packed" if e.path.endswith(".zip") else has_word)

    assert (["b"], {"packed": 1}) == (found, dict(searched.passed))


def test_a_pipe_and_a_link_are_not_opened(tmp_path: Path) -> None:
    """A pipe would wait for a writer; a link may lead out of the tree."""
    outside = tmp_path / "outside"
    outside.write_bytes(WORD)
    (tmp_path / "image").mkdir()
    os.mkfifo(tmp_path / "image/pipe")
    (tmp_path / "image/link").symlink_to(outside)

    assert ([], Searched()) == search(tmp_path / "image")


@pytest.mark.parametrize("end", sorted(PACKERS))
def test_a_packed_file_with_wrong_bits_ends_no_search(tmp_path: Path, end: str) -> None:
    """A disk or a crash may do that to a log; that it was not looked into is told."""
    packed = bytearray(PACKERS[end](os.urandom(100)))
    packed[4:40] = b"\xff" * 36
    (tmp_path / f"a{end}").write_bytes(packed)
    (tmp_path / "b").write_bytes(WORD)
    found, searched = search(tmp_path)

    assert ["b"] == found
    assert {"packed files that could not be unpacked to their end (damaged, or for more memory than there is)": 1} == (
        searched.passed
    )


def test_a_tree_may_be_deeper_than_a_process_may_open_folders(tmp_path: Path) -> None:
    """What is below a thousand folders, one in the other, is found as well, and each folder beside them."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a", dir_fd=fd)
        os.mkdir("b", dir_fd=fd)
        below = os.open("a", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    with os.fdopen(os.open("last", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=fd), "wb") as file:
        file.write(WORD)
    os.close(fd)
    (tmp_path / "b/beside").write_bytes(WORD)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    try:
        found, searched = search(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        remove_folder(str(tmp_path / "a"))

    assert [("a/" * 1500) + "last", "b/beside"] == found
    assert {} == searched.passed


def test_a_folder_that_is_moved_out_meanwhile_leads_nowhere_else(tmp_path: Path) -> None:
    """Beside where it is now lies a folder with the name of the next one; that one is looked at where it is."""
    for name in ("image/a/b", "image/a/c", "outside/c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "image/a/b/first").write_bytes(WORD)
    (tmp_path / "image/a/c/second").write_bytes(WORD)
    (tmp_path / "outside/c/other").write_bytes(WORD)
    seen = []
    for entry, _ in ImageSearch(ImageTree(tmp_path / "image"), lambda _: False, lambda _: has_word, SearchBounds()):
        seen.append(entry.path)
        if entry.path == "a/b/first":
            (tmp_path / "image/a/b").rename(tmp_path / "outside/b")

    assert ["a/b/first", "a/c/second"] == seen


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    """A search that says nothing of it would call the image clean."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").write_bytes(WORD)
    tree = ImageTree(tmp_path)
    found = ImageSearch(tree, lambda _: False, lambda _: has_word, SearchBounds())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = [entry.path for entry, _ in found if _open_no_more(hard)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert ["b"] == seen
    assert {"files or folders that could not be looked at": 1} == found.searched.passed


def _open_no_more(hard: int) -> bool:
    """Let this process open no more files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    return True
