"""Which tensors does one rank hold, and what do their bytes add up to?"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

_HEADER_LIMIT_BYTES = 100 << 20
_EXPERT = re.compile(r"\.experts\.(\d+)\.")


class SafetensorError(Exception):
    """A shard that is no safetensors file, in the words of the safetensors library."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a rank loaded. dense: checksum over tensors that every rank holds; experts: over its own experts'."""

    dense: int
    experts: int
    size_bytes: int


def shards_of(model: Path) -> dict[str, list[str]]:
    """Return the tensors of each shard, as the index lists them.

    Raises:
        FileNotFoundError: no index, or it names a file that is not there.
    """
    index = model / "model.safetensors.index.json"
    if not index.exists():
        raise FileNotFoundError(f"Cannot find any model weights with `{model}`")
    shards: dict[str, list[str]] = {}
    for tensor, shard in json.loads(index.read_text())["weight_map"].items():
        shards.setdefault(shard, []).append(tensor)
    missing = sorted(shard for shard in shards if not (model / shard).exists())
    if missing:
        raise FileNotFoundError(f"Weight files referenced in index but missing: {missing}")
    return dict(sorted(shards.items()))


def read(model: Path, rank: int, ranks: int, spread: bool, threads: int, progress: Callable[[int, int], None]) -> Part:
    """Read this rank's part of every shard and checksum it.

    spread: experts are divided among the ranks, contiguously; else every rank holds all. threads: readers at once.
    """
    shards = shards_of(model)
    experts = 1 + max((int(m[1]) for names in shards.values() for n in names if (m := _EXPERT.search(n))), default=-1)
    mine = range(rank * experts // ranks, (rank + 1) * experts // ranks) if spread else range(experts)
    parts = []
    with ThreadPoolExecutor(threads) as pool:
        jobs = [pool.submit(_read_shard, model / shard, names, mine) for shard, names in shards.items()]
        progress(0, len(jobs))
        for done, job in enumerate(jobs, 1):
            parts.append(job.result())
            progress(done, len(jobs))
    dense = experts_sum = 0
    for part in parts:  # exclusive or: the order of shards and threads does not matter
        dense ^= part.dense
        experts_sum ^= part.experts
    return Part(dense, experts_sum, sum(p.size_bytes for p in parts))


def _read_shard(path: Path, names: list[str], mine: range) -> Part:
    dense = experts = size_bytes = 0
    with open(path, "rb") as file:
        place_of = _places(file.fileno(), path)
        if not place_of:
            return Part(0, 0, 0)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as data:
            for name in names:
                found = _EXPERT.search(name)
                if found and int(found[1]) not in mine:
                    continue
                if name not in place_of:
                    raise SafetensorError(f"File does not contain tensor {name}: {path.name}")
                start, end = place_of[name]
                checksum = zlib.crc32(data[start:end], zlib.crc32(name.encode()))
                size_bytes += end - start
                if found:
                    experts ^= checksum
                else:
                    dense ^= checksum
    return Part(dense, experts, size_bytes)


def _places(fd: int, path: Path) -> dict[str, tuple[int, int]]:
    """Return where in the file each tensor's bytes are."""
    size = os.fstat(fd).st_size
    if size < 8:
        raise SafetensorError(f"Error while deserializing header: header too small: {path.name}")
    (length,) = struct.unpack("<Q", os.pread(fd, 8, 0))
    if length > _HEADER_LIMIT_BYTES:
        raise SafetensorError(f"Error while deserializing header: header too large: {path.name}")
    try:
        header = json.loads(os.pread(fd, length, 8))
        header.pop("__metadata__", None)
        places = {n: (8 + length + t["data_offsets"][0], 8 + length + t["data_offsets"][1]) for n, t in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise SafetensorError(f"Error while deserializing header: invalid JSON in header: {path.name}") from exc
    if max((end for _, end in places.values()), default=8 + length) != size:
        raise SafetensorError(
            f"Error while deserializing header: incomplete metadata, file not fully covered: {path.name}"
        )
    return places
