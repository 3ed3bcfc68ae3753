"""Folders of kernel caches, whole and torn, and archives that lie."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard

from kboot.store.cache_archive import list_digest

FACTORS = {"driver": "580.82", "gpu_arch": "sm90", "engine": "vllm", "engine_version": "0.33.0", "commit": "c" * 40}
KEY = "sm90-drv580.82-vllm0.33.0"
MTIME_NS = 1781087915292417123


def elf(size_bytes: int = 4096) -> bytes:
    """An object whose section table ends at its last byte."""
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 1, 190, 1, 0, 0, size_bytes - 256, 0, 64, 0, 0, 64, 4, 3)
    return head + b"k" * (size_bytes - len(head))


def cache_files() -> dict[str, bytes]:
    """The files of a small cache: kernels, a long name, a large module, a script, an empty file."""
    files = {f"triton/{n:052x}/k.json": json.dumps({"n": n}).encode() for n in range(40)}
    files |= {f"triton/{n:052x}/k.cubin": elf(300 + n) for n in range(40)}
    long = "triton_red_fused__to_copy_add_" * 6
    return files | {
        f"inductor/{'ab' * 20}/{long}.py": b"print(1)\n",
        "flashinfer/.cache/flashinfer/0.7.2/90a/cached_ops/moe/moe.so": elf(3 << 20),
        "flashinfer/.cache/flashinfer/0.7.2/90a/cached_ops/moe/.ninja_log": b"# ninja log v5\n",
        "vllm/torch_compile_cache/0a1b2c3d4e/rank_0_0/model": os.urandom(20_000),
        "hf/modules/__init__.py": b"",
    }


def make_cache(cache: Path, key: str = KEY, files: Mapping[str, bytes] | None = None, *, complete: bool = True) -> Path:
    """Make a key's folder below `cache`, its times to the nanosecond; return it."""
    folder = cache / key
    for path, data in (cache_files() if files is None else files).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        os.utime(folder / path, ns=(MTIME_NS, MTIME_NS))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "factors.json").write_text(json.dumps(FACTORS))
    if complete:
        (folder / "complete").write_text("1796020000.000\n")
    return folder


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return (content, mtime in ns) of every file of the engine's in a key's folder."""
    own = {"factors.json", "complete", "inventory", "manifest.json"}
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and str(p.relative_to(folder)) not in own
    }


def archive(files: Mapping[str, bytes], /, *members: tuple[tarfile.TarInfo, bytes], **changes: Any) -> bytes:
    """Return an archive as kboot writes one, made by tar itself. changes: values of the list that are others.

    members: in place of those the files would be.
    """
    rows = [[p, len(d), MTIME_NS, 0o644, hashlib.sha256(d).hexdigest()] for p, d in sorted(files.items())]
    listing = {
        "schema": 1, "kind": "cache-archive", "key": KEY, "factors": FACTORS, "completed_unix_s": 1796020000.0,
        "kboot_version": "0.1.0", "files": rows, **changes,
    }  # fmt: skip
    return pack((info("kboot-cache.json"), signed(listing)), *(members or _members(files)))


def signed(listing: Mapping[str, Any]) -> bytes:
    """Return a list with the digest that makes it a whole one, whatever else is wrong with it."""
    return json.dumps({**listing, "list_sha256": list_digest(listing)}).encode()


def _members(files: Mapping[str, bytes]) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(info(f"files/{path}"), data) for path, data in sorted(files.items())]


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """Return the head of a member."""
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


def pack(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return members as a compressed tar stream."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for head, data in members:
            head.size = len(data)
            tar.addfile(head, io.BytesIO(data))
    return zstandard.ZstdCompressor().compress(raw.getvalue())
