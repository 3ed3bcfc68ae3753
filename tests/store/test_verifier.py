import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.checkpoint import RemoteFile
from kboot.errors import VerificationFailed
from kboot.store.verifier import Verifier, prove, wanted_digest

CONTENT = b"the quick brown fox"
LFS = RemoteFile(
    "a.safetensors", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(CONTENT).hexdigest()
)
GIT = RemoteFile("config.json", 2, "9e26dfeeb6e641a33dae4961196235bdb965b21b", None)  # git hash-object of {}


def test_git_files_are_proven_by_their_blob_sha1() -> None:
    """The two bytes {} are the blob that git names 9e26dfee…"""
    prove(GIT, b"{}")


def test_lfs_files_are_proven_by_their_sha256() -> None:
    """The listed content passes."""
    prove(LFS, CONTENT)


@given(st.lists(st.integers(0, len(CONTENT)), max_size=6))
def test_pieces_do_not_matter(cuts: list[int]) -> None:
    """However the bytes are cut, the verdict is the same."""
    edges = [0, *sorted(cuts), len(CONTENT)]
    verifier = Verifier(LFS)
    for start, end in pairwise(edges):
        verifier.feed(CONTENT[start:end])

    assert len(CONTENT) == verifier.fed_bytes
    verifier.finish()


def test_one_bit_is_enough() -> None:
    """A single wrong bit is told with what was got and what was wanted."""
    with pytest.raises(VerificationFailed) as caught:
        prove(LFS, b"The quick brown fox")

    assert "shard-hash-mismatch" == caught.value.code
    assert f"wanted {LFS.sha256}" in caught.value.where


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"!"])
def test_a_wrong_length_is_told_as_such(content: bytes) -> None:
    """Too few or too many bytes are a size that does not fit, not a hash."""
    with pytest.raises(VerificationFailed) as caught:
        prove(LFS, content)

    assert "shard-size-mismatch" == caught.value.code


def test_digest_so_far_does_not_end_the_hashing() -> None:
    """so_far() names the prefix, and feeding goes on."""
    verifier = Verifier(LFS)
    verifier.feed(CONTENT[:5])

    assert hashlib.sha256(CONTENT[:5]).hexdigest() == verifier.so_far()
    verifier.feed(CONTENT[5:])
    verifier.finish()


def test_a_verdict_is_given_once() -> None:
    """Feeding or finishing after the verdict is a bug in kboot, and says so."""
    verifier = Verifier(LFS)
    verifier.feed(CONTENT)
    verifier.finish()

    with pytest.raises(RuntimeError):
        verifier.feed(b"")
    with pytest.raises(RuntimeError):
        verifier.finish()


def test_wanted_digest_names_its_kind() -> None:
    """A git file is wanted by blob id, an LFS file by sha256."""
    assert ("git blob sha1", GIT.blob_id) == wanted_digest(GIT)
    assert ("sha256", LFS.sha256) == wanted_digest(LFS)
