"""Is what lies here still what was proven, as far as seconds can tell, and how fast could all of it be hashed?"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kboot.checkpoint import LocalFile
from kboot.host.clock import monotonic_s
from kboot.host.pagecache import Reading, new_buffer
from kboot.store.hashing import BUFFER_BYTES
from kboot.store.store import Store
from kboot.store.verifier import RANGE_BYTES

_ROUND_BYTES = 32 << 20
"""Hashed between two looks at the clock."""


def hash_rate(threads: int, budget_s: float) -> tuple[int, float]:
    """Return (bytes, seconds) of SHA-256 over memory on so many threads at once, each from a buffer of its own."""
    started_s = monotonic_s()

    def work() -> int:
        data, digest, done = new_buffer(BUFFER_BYTES), hashlib.sha256(usedforsecurity=False), 0
        while not done or monotonic_s() - started_s < budget_s:
            for _ in range(_ROUND_BYTES // BUFFER_BYTES):
                digest.update(data)
            done += _ROUND_BYTES
        return done

    with ThreadPoolExecutor(threads, thread_name_prefix="hash-rate") as pool:
        total = sum(f.result() for f in [pool.submit(work) for _ in range(threads)])
    return total, monotonic_s() - started_s


def sample_rot(
    store: Store, repo: str, files: Sequence[LocalFile], threads: int, budget_s: float
) -> tuple[int, int, tuple[str, ...]]:
    """Return (files, bytes, paths that differ) of hashing the first range of proven files, from the disk itself.

    A file is compared with what its beginning hashed to when all of it was proven; those of which that is not known, or
    that do not come in time, are left out.
    """
    deadline_s = monotonic_s() + budget_s
    proven = [f for f in files if f.state == "verified" and f.file.size_bytes >= RANGE_BYTES]
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="rot") as pool:
        looked = [v for v in pool.map(lambda f: _same(store, repo, f, deadline_s), proven) if v is not None]
    wrong = tuple(sorted(path for path, same in looked if not same))
    return len(looked), len(looked) * RANGE_BYTES, wrong


def _same(store: Store, repo: str, local: LocalFile, deadline_s: float) -> tuple[str, bool] | None:
    """Return the path and whether its first range is as it was; None where that cannot be told."""
    file = local.file
    known = store.ledger.prefixes(file.blob_id)
    if not known.digests or known.step_bytes != RANGE_BYTES or monotonic_s() >= deadline_s:
        return None
    digest = hashlib.sha256(usedforsecurity=False)
    try:
        buffer = new_buffer(BUFFER_BYTES)
        with Reading(store.blob_path(repo, file.blob_id), buffer, 0, RANGE_BYTES, past_cache=True) as reading:
            for data in reading:
                digest.update(data)
    except OSError:  # what the disk cannot read is disk.errors' finding, and that of a verification
        return None
    return file.path, digest.digest() == known.digests[0]
