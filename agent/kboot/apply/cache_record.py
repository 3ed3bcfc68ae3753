"""Puts on record what decided a boot's kernel caches, and what lay in them before and after the engine's start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kboot.apply.caches import mark_complete
from kboot.engines.logs import LogReader
from kboot.engines.vllm_env import hashed_names
from kboot.facts.caches import machine_mark
from kboot.host.files import read_small
from kboot.host.paths import Paths
from kboot.host.tree import Tree, read_tree, sync_file_system
from kboot.host.types import Host
from kboot.plan.types import Plan
from kboot.report.cache_manifest import Added, CacheManifest, manifest_of, without_secrets
from kboot.report.saved_caches import load_manifest, save_manifest
from kboot.store.cache_files import MANIFEST, OWN, write_inventory

_NAMED = re.compile(
    r"vllm/torch_compile_cache/[0-9a-f]{10}"
    r"|vllm/torch_compile_cache/torch_aot_compile/[0-9a-f]{64}"
    r"|vllm/startup_plan/startup_plan_[0-9a-f]{16}\.json"
    r"|flashinfer-autotune/(?:.+/)?[0-9a-f]{16,64}"
    r"|sglang/flashinfer/autotune/.+/[0-9a-f]{16}"
    r"|flashinfer/\.cache/flashinfer/[^/]+/[^/]+/cached_ops/[^/]+"
)
_FACTORS = re.compile(r"(vllm/torch_compile_cache/[0-9a-f]{10})/.*cache_key_factors\.json")
_FACTOR_FILES = 8
_FACTOR_BYTES = 1 << 20
_NAMED_FOLDERS = 2000


@dataclass(frozen=True, slots=True)
class Seen:
    """What lies in a key's folder. folders, factors: as in CacheManifest."""

    tree: Tree
    folders: tuple[str, ...]
    factors: Mapping[str, Mapping[str, Any]]


def observe(folder: Path) -> Seen:
    """Look through a key's folder; one that is not there is an empty one."""
    tree = read_tree(folder, skip=OWN)
    named = sorted(e.path for entries in (tree.folders, tree.files) for e in entries if _NAMED.fullmatch(e.path))
    return Seen(tree, tuple(named[:_NAMED_FOLDERS]), dict(_engine_factors(folder, tree)))


def _engine_factors(folder: Path, tree: Tree) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Yield what the engine wrote of its newest folders' keys, one of its ranks for each; ranks differ in nothing."""
    newest: dict[str, tuple[int, str]] = {}
    for entry in tree.files:
        if found := _FACTORS.fullmatch(entry.path):
            newest[found[1]] = max(newest.get(found[1], (0, "")), (entry.mtime_ns, entry.path))
    for name, (_, path) in sorted(newest.items(), key=lambda item: item[1], reverse=True)[:_FACTOR_FILES]:
        with suppress(OSError, ValueError):
            document = json.loads(read_small(folder / path, _FACTOR_BYTES))
            if isinstance(document, dict):
                env = document.get("env")
                yield name, {**document, "env": without_secrets(env) if isinstance(env, dict) else {}}


def record_prepared(plan: Plan, boot_id: str, started_unix_s: float, host: Host, paths: Paths) -> None:
    """Put on record what a boot starts its engine with; nothing where the key has no folder.

    Raises:
        KbootError: the record cannot be written.
    """
    folder = Path(plan.cache_dir)
    if not folder.is_dir():
        return
    seen = observe(folder)
    set_names = {s.name for s in plan.launch.env} | set(plan.launch.unset)
    hashed = hashed_names(plan.cache_key.factors.get("engine_version"))
    manifest = manifest_of(
        plan,
        boot_id=boot_id,
        started_unix_s=started_unix_s,
        machine=machine_mark(host),
        inherited={n: v for n, v in host.environ().items() if n in hashed and n not in set_names},
        before=seen.folders,
        files=len(seen.tree.files),
        size_bytes=seen.tree.size_bytes,
    )
    save_manifest(replace(manifest, engine_factors=seen.factors), paths)


def record_ready(plan: Plan, started_unix_s: float, reader: LogReader, paths: Paths) -> None:
    """Put on record what the engine made of its caches; what lies there now is durable, and known to be whole.

    The completion mark comes last: with it, everything before it is true.

    Raises:
        KbootError: something cannot be written.
    """
    folder = Path(plan.cache_dir)
    if not folder.is_dir():
        return
    prepared = load_manifest(folder / MANIFEST)
    sync_file_system(folder)
    seen = observe(folder)
    write_inventory(folder, ((f.path, f.size_bytes, f.mtime_ns) for f in seen.tree.files))
    if prepared is not None and prepared.started_unix_s == started_unix_s:
        save_manifest(_ready(prepared, seen, reader), paths)
    mark_complete(plan.cache_dir)


def _ready(prepared: CacheManifest, seen: Seen, reader: LogReader) -> CacheManifest:
    return replace(
        prepared,
        state="ready",
        folders=seen.folders,
        engine_factors=seen.factors,
        files=len(seen.tree.files),
        size_bytes=seen.tree.size_bytes,
        added=_added(seen.tree, prepared.started_unix_s),
        said={said.cache: (said.hits, said.misses) for said in reader.caches()},
        seconds={span.name: round(span.seconds, 3) for span in reader.spans() if span.seconds is not None},
    )


def _added(tree: Tree, since_unix_s: float) -> dict[str, Added]:
    """Return what was written since the boot began, by the folder at the top."""
    gained: dict[str, Added] = {}
    for entry in tree.files:
        if entry.mtime_ns >= since_unix_s * 1e9:
            top = entry.path.partition("/")[0]
            before = gained.get(top, Added(0, 0))
            gained[top] = Added(before.files + 1, before.size_bytes + entry.size_bytes)
    return dict(sorted(gained.items()))
