"""What a listing says of its files, and what of it is believed."""

from __future__ import annotations

import pytest

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.sources.entries import Entry, Lfs, to_files

OID = "b" * 40


def test_entries_become_files() -> None:
    """Size and hash of an LFS file are those of its content, not of its pointer."""
    entries = [Entry("b.bin", 134, OID, Lfs("a" * 64, 5000), "x"), Entry("a.txt", 3, OID)]

    assert (RemoteFile("a.txt", 3, "b" * 40, None), RemoteFile("b.bin", 5000, "a" * 64, "a" * 64, "x")) == to_files(
        entries
    )


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (Entry("../../etc/passwd", 3, OID), "listing-not-valid"),
        (Entry("/etc/passwd", 3, OID), "listing-not-valid"),
        (Entry("a", -1, OID), "listing-not-valid"),
        (Entry("a", 3, "../../x"), "listing-without-hashes"),
        (Entry("a", 3, OID, Lfs(None, 3)), "listing-without-hashes"),
        (Entry("a", 3, OID, Lfs(10**63, 3)), "listing-without-hashes"),
        (Entry("a", True, OID), "listing-not-valid"),
        (Entry("a", "3", OID), "listing-not-valid"),
        (Entry("a", 3, OID, Lfs("a" * 64, 1 << 63)), "listing-not-valid"),
        (Entry(None, 3, OID), "listing-not-valid"),
        (Entry("a", 3, OID, Lfs("A" * 64, 3)), "listing-without-hashes"),
        (Entry("model.safetensors", 5_000_000_000, OID), "listing-without-hashes"),
    ],
)
def test_entries_that_cannot_be_trusted(entry: Entry, code: str) -> None:
    """A path that leads out, a size that is none, a hash that is none: the listing is refused, whole."""
    with pytest.raises(SourceError) as caught:
        to_files([Entry("fine", 1, OID), entry])

    assert code == caught.value.code


def test_a_file_listed_twice_is_refused() -> None:
    """One path, two contents: neither is believed."""
    with pytest.raises(SourceError):
        to_files([Entry("a", 1, OID), Entry("a", 2, OID)])


@pytest.mark.parametrize("path", ["x" * 251 + ".json", "\u00fc" * 128, "a.txt/inner.json", "a.txt/b/c.json"])
def test_paths_that_cannot_be_linked_are_refused(path: str) -> None:
    """Before the first byte: a name longer than 255 bytes, or a file that is also a folder."""
    with pytest.raises(SourceError) as caught:
        to_files([Entry("a.txt", 3, OID), Entry(path, 3, OID)])

    assert "listing-not-valid" == caught.value.code


def test_the_longest_name_is_taken() -> None:
    """255 bytes are a name; folders may hold files of like names."""
    paths = ["a.txt", "a.txt2/b", "x" * 255]

    assert paths == [file.path for file in to_files([Entry(path, 3, OID) for path in paths])]


@pytest.mark.timeout(20)
def test_folders_thousands_deep_cost_no_more_than_their_length() -> None:
    """A listing of 64 MiB has 16,000 such paths; the name of every folder above each would take minutes."""
    deep = "a/" * 2000

    assert 2000 == len(to_files([Entry(f"{deep}{n}", 3, OID) for n in range(2000)]))
