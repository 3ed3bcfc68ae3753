"""Samples of proven files, and how fast this machine hashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fakes.checkpoints import REPO, listing, paths_in
from kboot.store.hashing import hash_file
from kboot.store.sample import hash_rate, sample_rot
from kboot.store.store import Store
from kboot.store.verifier import RANGE_BYTES

PATH = "model-00001-of-00001.safetensors"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one proven file of a range and a bit, whose beginnings are known."""
    store = Store(paths_in(tmp_path))
    content = os.urandom(1 << 20) * (RANGE_BYTES >> 20) + b"the end"
    wanted = listing({PATH: content})
    file = wanted.files[0]
    blob = store.blob_path(REPO, file.blob_id)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(content)
    store.remember(wanted)
    store.record_hashed(wanted, file, hash_file(blob, file))
    return store


def sample(store: Store, budget_s: float = 100.0) -> tuple[int, int, tuple[str, ...]]:
    """Sample what is there."""
    known = store.known_listing(REPO, "c" * 40)
    assert known is not None
    return sample_rot(store, REPO, store.local(known), 2, budget_s)


def test_a_file_that_is_as_it_was_is_not_wrong(store: Store) -> None:
    """One range of it was read."""
    assert (1, RANGE_BYTES, ()) == sample(store)


def test_a_flipped_bit_in_the_first_range_is_found(store: Store) -> None:
    """Although name, size and times are those of the proven file, as when a disk loses a bit."""
    known = store.known_listing(REPO, "c" * 40)
    assert known is not None
    file = known.files[0]
    blob = store.blob_path(REPO, file.blob_id)
    with blob.open("r+b") as changed:
        changed.seek(RANGE_BYTES // 2)
        changed.write(b"\x00flipped")
        changed.flush()
        os.fsync(changed.fileno())
    row = store.ledger.row(REPO, file.blob_id)
    assert row is not None
    store.record(known, file, store.mark(blob), "full", "this disk")

    assert (1, RANGE_BYTES, (PATH,)) == sample(store)


def test_what_cannot_be_told_is_left_out(store: Store) -> None:
    """No time, or a file of which no beginning is known."""
    assert (0, 0, ()) == sample(store, budget_s=0.0)
    known = store.known_listing(REPO, "c" * 40)
    assert known is not None
    store.forget(known, known.files[0])
    assert (0, 0, ()) == sample(store)


def test_the_rate_is_of_real_hashing() -> None:
    """Every thread hashes at least once, whatever the budget."""
    done, seconds = hash_rate(2, 0.0)

    assert 0 == done % (32 << 20)
    assert 2 * (32 << 20) <= done
    assert seconds > 0
