import hashlib
import os
from functools import cache
from pathlib import Path

import pytest

from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.store.hashing import hash_file
from kboot.store.verifier import RANGE_BYTES


@cache
def content() -> bytes:
    return os.urandom(1 << 20) * 21 + b"and a tail"


def listed(content: bytes) -> RemoteFile:
    digest = hashlib.sha256(content).hexdigest()
    return RemoteFile("model.safetensors", len(content), digest, digest)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "blob"
    path.write_bytes(content())
    return path


@pytest.mark.parametrize("past_cache", [False, True])
def test_every_byte_is_hashed_once_and_in_order(past_cache: bool, path: Path) -> None:
    """Mapped, copied or past the cache: the bytes seen grow to the whole file, and its beginnings are known."""
    seen: list[int] = []

    hashed = hash_file(path, listed(content()), on_bytes=lambda n: not seen.append(n), past_cache=past_cache)

    assert sorted(set(seen)) == seen
    assert len(content()) == seen[-1] == hashed.identity.size_bytes
    assert (hashlib.sha256(content()[:RANGE_BYTES]).digest(),) == hashed.prefixes.digests


def test_one_bit_is_found_wherever_it_is(path: Path) -> None:
    """In the first window, in a later one, and in the tail that is copied."""
    for place in (0, 9 << 20, len(content()) - 1):
        wrong = bytearray(content())
        wrong[place] ^= 1
        path.write_bytes(wrong)

        with pytest.raises(VerificationFailed) as caught:
            hash_file(path, listed(content()))
        assert "shard-hash-mismatch" == caught.value.code


@pytest.mark.filterwarnings("error")
def test_a_failed_hashing_keeps_nobody_waiting(path: Path) -> None:
    """While its error is still in somebody's hands, the file can be opened for writing without a wait."""
    with pytest.raises(VerificationFailed) as too_long:
        hash_file(path, listed(content()[: 6 << 20]))
    with pytest.raises(ActionFailed) as stopped:
        hash_file(path, listed(content()), on_bytes=lambda _: False)

    assert ("shard-size-mismatch", "interrupted") == (too_long.value.code, stopped.value.code)
    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
