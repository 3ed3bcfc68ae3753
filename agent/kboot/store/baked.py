"""What is in an image, as `kboot bake` wrote it down: the manifest that every copy of the image carries.

It names no machine. The same inputs give the same digest, which is the image's id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from kboot.checkpoint import is_commit
from kboot.errors import ActionFailed
from kboot.host.files import atomic_write, make_dirs, read_small
from kboot.host.paths import IMAGE_MANIFEST
from kboot.jsontext import parse_json
from kboot.values import dataclass

SCHEMA = 1
_KIND = "bake"
_LIMIT_BYTES = 64 << 20
_LATEST_UNIX_S = 1e12


@dataclass(frozen=True, slots=True)
class BakedFile:
    """One file of the checkpoint, proven when the image was made.

    samples: SHA-256 of its ranges (kboot.store.samples). verity: the file system's own digest; empty without.
    """

    path: str
    size_bytes: int
    blob_id: str
    sha256: str | None
    samples: tuple[str, ...] = ()
    verity: str = ""


@dataclass(frozen=True, slots=True)
class BakedCache:
    """One folder of kernel caches. sha256: over the path and content of every file in it."""

    key: str
    factors: Mapping[str, str]
    complete: bool
    files: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BakedTarget:
    """One layout that the image was made for. factors: of its cache key, those that are known without its GPUs."""

    layout: str
    gpu: str
    gpus_per_node: int
    nodes: int
    engine: str
    factors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baked:
    """One image. left_out, deferred: what is not in it, and what a node does at its first boot, each with why.

    manifest_digest: over the checkpoint's files. bytecode: folders of compiled Python. units: enabled ones.
    built_unix_s: no part of the digest.
    """

    profile: str
    profile_digest: str
    repo: str
    commit: str
    manifest_digest: str
    versions: Mapping[str, str]
    targets: tuple[BakedTarget, ...]
    files: tuple[BakedFile, ...]
    caches: tuple[BakedCache, ...]
    bytecode: tuple[str, ...]
    units: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    deferred: tuple[tuple[str, str], ...]
    built_unix_s: float

    @property
    def digest(self) -> str:
        """Return the image's id: one hash over everything but when it was made."""
        content = {name: value for name, value in asdict(self).items() if name != "built_unix_s"}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def file_of(self, blob_id: str) -> BakedFile | None:
        """Return what is known of a content."""
        return next((file for file in self.files if file.blob_id == blob_id), None)


def path_in(state: Path) -> Path:
    """Return where the manifest of an image lies."""
    return state / IMAGE_MANIFEST


def write_baked(baked: Baked, state: Path) -> None:
    """Write the manifest; durable on return."""
    make_dirs(state)
    document = {"schema": SCHEMA, "kind": _KIND, "digest": baked.digest, **asdict(baked)}
    atomic_write(path_in(state), json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n")


def read_baked(state: Path) -> Baked | None:
    """Return the manifest of the image this state folder came in; None where it came in none.

    Raises:
        ActionFailed: bake-manifest-damaged: it is not what kboot wrote, so nothing in it can be trusted.
    """
    path = path_in(state)
    try:
        document = parse_json(read_small(path, _LIMIT_BYTES))
        if (document.pop("schema"), document.pop("kind")) != (SCHEMA, _KIND):
            raise ValueError(f"not a manifest of schema {SCHEMA}")
        digest = document.pop("digest")
        baked = _baked(document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise _damaged(path, f"{type(exc).__name__}: {exc}"[:200]) from exc
    if digest != baked.digest:
        raise _damaged(path, "its digest is not that of its content")
    return baked


def _baked(document: dict[str, Any]) -> Baked:
    pairs = {name: tuple((str(a), str(b)) for a, b in document[name]) for name in ("left_out", "deferred")}
    baked = Baked(
        **{
            **document,
            **pairs,
            "targets": tuple(BakedTarget(**each) for each in document["targets"]),
            "files": tuple(BakedFile(**{**each, "samples": tuple(each["samples"])}) for each in document["files"]),
            "caches": tuple(BakedCache(**each) for each in document["caches"]),
            "bytecode": tuple(document["bytecode"]),
            "units": tuple(document["units"]),
        }
    )
    _require_form(baked)
    return baked


def _require_form(baked: Baked) -> None:
    """Return when every value is of its type: a digest that fits is no proof of that, anybody can compute one.

    Raises:
        ValueError: one is not.
    """
    texts: list[object] = [baked.profile, baked.profile_digest, baked.repo, baked.manifest_digest]
    texts += [*baked.bytecode, *baked.units]
    numbers: list[object] = []
    tables: list[object] = [baked.versions]
    for file in baked.files:
        texts += [file.path, file.blob_id, file.verity, *file.samples, *([] if file.sha256 is None else [file.sha256])]
        numbers.append(file.size_bytes)
    for cache in baked.caches:
        texts += [cache.key, cache.sha256]
        numbers += [cache.files, cache.size_bytes]
        tables.append(cache.factors)
    for target in baked.targets:
        texts += [target.layout, target.gpu, target.engine]
        numbers += [target.gpus_per_node, target.nodes]
        tables.append(target.factors)
    texts += [text for table in tables if isinstance(table, dict) for text in table.values()]
    time_s = baked.built_unix_s
    if not (
        all(isinstance(text, str) for text in texts)
        and all(type(number) is int and 0 <= number < 1 << 63 for number in numbers)
        and all(isinstance(table, dict) for table in tables)
        and all(type(cache.complete) is bool for cache in baked.caches)
        and type(time_s) in (int, float)
        and 0 <= time_s < _LATEST_UNIX_S
        and isinstance(baked.commit, str)
        and is_commit(baked.commit)
    ):
        raise ValueError("a value is not of its type")


def _damaged(path: Path, why: str) -> ActionFailed:
    return ActionFailed(
        "bake-manifest-damaged",
        f"the image's manifest cannot be used: {why}",
        where=(str(path),),
        hint=f"make the image again; or remove {path}, and every byte is proven like that of any other disk",
    )
