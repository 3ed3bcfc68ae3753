"""What decided which kernel caches a boot could use, and which of them did it use? One value per boot. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from kboot.report.document import Document, document, plain
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.plan.types import Plan

KIND = "cache-manifest"

_SECRET = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)
_KNOWN = re.compile(r"cache_?key|key_?factors|tokeni[sz]er|tokens?_(?:per|threshold)|max_|_threshold", re.IGNORECASE)
_MODEL_FILES = re.compile(r"config\.json|generation_config\.json|[^/]+\.safetensors\.index\.json")


@dataclass(frozen=True, slots=True)
class Added:
    """What one cache gained in a boot."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CacheManifest:
    """One boot and its kernel caches.

    state: prepared = written before an engine started, ready = after it answered.
    env: all that kboot set for the engine; inherited: hashed variables it took from kboot's own environment. Values
    that look secret are digests. model_files: path → id of the content, of the files that decide kernels.
    machine: mark of the machine. before, folders: cache folders named by a hash, at the start and at the end.
    engine_factors: such a folder → what the engine itself wrote of its key (vLLM's cache_key_factors.json).
    added: top folder → what it gained. said: cache → (hits, misses) of the engine's log. seconds: of its phases.
    """

    boot_id: str
    profile: str
    started_unix_s: float
    state: Literal["prepared", "ready"]
    key: str
    factors: Mapping[str, str]
    engine: str
    engine_version: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    inherited: Mapping[str, str]
    model_path: str
    model_files: Mapping[str, str]
    machine: str
    before: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    engine_factors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    files: int = 0
    size_bytes: int = 0
    added: Mapping[str, Added] = field(default_factory=dict)
    said: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)


def manifest_of(
    plan: Plan,
    *,
    boot_id: str,
    started_unix_s: float,
    machine: str,
    inherited: Mapping[str, str],
    before: Iterable[str],
    files: int,
    size_bytes: int,
) -> CacheManifest:
    """Return what is known of a boot before its engine starts."""
    factors = plan.cache_key.factors
    return CacheManifest(
        boot_id=boot_id,
        profile=plan.profile,
        started_unix_s=started_unix_s,
        state="prepared",
        key=plan.cache_key.name,
        factors=factors,
        engine=plan.launch.engine,
        engine_version=factors.get("engine_version", ""),
        argv=plan.launch.argv,
        env=without_secrets({s.name: s.value for s in plan.launch.env}),
        inherited=without_secrets(inherited),
        model_path=plan.model_path,
        model_files={f.path: f.blob_id for f in plan.listing.files if _MODEL_FILES.fullmatch(f.path)},
        machine=machine,
        before=tuple(before),
        folders=tuple(before),
        files=files,
        size_bytes=size_bytes,
    )


def without_secrets(env: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables with the values of secrets replaced by a digest, by which a change still shows."""
    return {name: _veiled(value) if _is_secret(name) else value for name, value in sorted(env.items())}


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(_KNOWN.sub("", name)))


def _veiled(value: Any) -> Any:
    return value if value in (None, "") else "sha256:" + hashlib.sha256(str(value).encode()).hexdigest()[:12]


def manifest_document(manifest: CacheManifest) -> Document:
    """Return the manifest as it is kept."""
    return document(KIND, plain(manifest))


def manifest_from_json(doc: Mapping[str, Any]) -> CacheManifest:
    """Return the manifest that a document holds.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not such a document.
    """
    if doc["kind"] != KIND:
        raise ValueError(f"kind is {doc['kind']}, wanted {KIND}")
    values = {name: doc[name] for name in CacheManifest.__slots__}
    for name in ("argv", "before", "folders"):
        values[name] = tuple(str(item) for item in values[name])
    values["added"] = {name: Added(**gained) for name, gained in values["added"].items()}
    values["said"] = {name: (int(hits), int(misses)) for name, (hits, misses) in values["said"].items()}
    values["seconds"] = {name: float(seconds) for name, seconds in values["seconds"].items()}
    return CacheManifest(**values)
