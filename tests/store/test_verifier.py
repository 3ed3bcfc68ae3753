import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.checkpoint import RemoteFile
from kboot.errors import VerificationFailed
from kboot.store.verifier import NO_PREFIXES, Prefixes, Verifier, WrongRange, first_difference, prove, wanted_digest

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


STEP = 4
KNOWN = Prefixes(STEP, tuple(hashlib.sha256(CONTENT[:end]).digest() for end in range(STEP, len(CONTENT) + 1, STEP)))


@given(st.lists(st.integers(0, len(CONTENT)), max_size=6))
def test_the_beginnings_are_hashed_on_the_way(cuts: list[int]) -> None:
    """However the bytes are cut, there is a digest after each whole range, and none for the rest."""
    verifier = Verifier(LFS, Prefixes(STEP, ()))
    for start, end in pairwise([0, *sorted(cuts), len(CONTENT)]):
        verifier.feed(CONTENT[start:end])

    assert KNOWN == verifier.prefixes
    verifier.finish()


@given(st.sets(st.integers(0, len(CONTENT) - 1), min_size=1), st.integers(1, 7))
def test_wrong_ranges_are_told_one_by_one_and_mended(places: set[int], piece: int) -> None:
    """Any bytes wrong, fed in any pieces: exactly their ranges are told, each once, and right bytes end it."""
    content = bytearray(byte ^ (n in places) for n, byte in enumerate(CONTENT))
    verifier, told = Verifier(LFS, KNOWN), []
    while True:
        try:
            while (at := verifier.fed_bytes) < len(content):
                verifier.feed(content[at : at + piece])
            verifier.finish()
            break
        except WrongRange as exc:
            told.append((exc.start, exc.end))
            content[exc.start : exc.end] = CONTENT[exc.start : exc.end]

    wanted = sorted({(n // STEP * STEP, min((n // STEP + 1) * STEP, len(CONTENT))) for n in places})
    assert wanted == told
    assert KNOWN == verifier.prefixes


def test_what_is_known_proves_nothing() -> None:
    """Wrong digests of the beginnings do not make wrong bytes right, and in doubt the whole decides."""
    wrong = Prefixes(STEP, tuple(bytes(32) for _ in KNOWN.digests))
    verifier = Verifier(LFS, wrong)
    with pytest.raises(WrongRange):
        verifier.feed(CONTENT)
    verifier.doubt()
    verifier.feed(CONTENT)
    verifier.finish()

    other = Verifier(LFS, KNOWN)
    with pytest.raises(WrongRange):
        other.feed(CONTENT.upper())


@pytest.mark.parametrize(("at", "wanted"), [(0, (0, 4)), (3, (0, 4)), (7, (4, 8)), (16, (16, 19)), (18, (16, 19))])
def test_the_place_of_a_difference_is_its_range(at: int, wanted: tuple[int, int]) -> None:
    """The first range in which two contents differ, the rest after the last whole range included."""
    verifier = Verifier(LFS, Prefixes(STEP, ()))
    verifier.feed(CONTENT[:at] + b"!" + CONTENT[at + 1 :])

    assert wanted == first_difference(KNOWN, verifier.prefixes, len(CONTENT))
    assert first_difference(NO_PREFIXES, verifier.prefixes, len(CONTENT)) is None
