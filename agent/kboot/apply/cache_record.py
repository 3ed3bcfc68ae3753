"""Puts on record what decided a boot's kernel caches, and what lay in them before and after the engine's start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kboot.apply.caches import mark_complete
from kboot.engines.vllm_env import hashed_names
from kboot.facts.cache_scan import scan_of
from kboot.facts.caches import machine_mark
from kboot.facts.types import CacheScan
from kboot.host.files import read_small
from kboot.host.paths import Paths
from kboot.host.tree import Tree, read_tree, sync_file_system
from kboot.host.types import Host
from kboot.jsontext import parse_json
from kboot.report.cache_manifest import Added, CacheManifest, manifest_of, without_secrets
from kboot.report.saved_caches import load_manifest, save_manifest
from kboot.store.cache_files import MANIFEST, OWN, write_inventory

if TYPE_CHECKING:
    from kboot.engines.logs import LogReader
    from kboot.plan.types import Plan

_FACTOR_BYTES = 1 << 20


def engine_factors(folder: Path, files: Iterable[tuple[str, str]]) -> dict[str, Mapping[str, Any]]:
    """Return what the engine wrote of its folders' keys, secrets veiled; a file that cannot be read is left out."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, path in files:
        with suppress(OSError, ValueError):
            document = parse_json(read_small(folder / path, _FACTOR_BYTES))
            if isinstance(document, dict):
                env = document.get("env")
                found[name] = {**document, "env": without_secrets(env) if isinstance(env, dict) else {}}
    return found


def record_prepared(
    plan: Plan, boot_id: str, started_unix_s: float, host: Host, paths: Paths, scan: CacheScan | None = None
) -> None:
    """Put on record what a boot starts its engine with; nothing where the key has no folder.

    scan: what the plan was made from; None where the folder was changed since, and is looked through again.

    Raises:
        KbootError: the record cannot be written.
    """
    folder = Path(plan.cache_dir)
    if not folder.is_dir():
        return
    seen = scan or scan_of(read_tree(folder, skip=OWN))
    set_names = {s.name for s in plan.launch.env} | set(plan.launch.unset)
    hashed = hashed_names(plan.cache_key.factors.get("engine_version"))
    manifest = manifest_of(
        plan,
        boot_id=boot_id,
        started_unix_s=started_unix_s,
        machine=machine_mark(host),
        inherited={n: v for n, v in host.environ().items() if n in hashed and n not in set_names},
        before=seen.named,
        files=seen.files,
        size_bytes=seen.size_bytes,
    )
    save_manifest(replace(manifest, engine_factors=engine_factors(folder, seen.factor_files)), paths)


def record_ready(cache_dir: str, paths: Paths, reader: LogReader | None = None) -> None:
    """Put on record what the engine made of its caches; what lies there now is durable, and known to be whole.

    The completion mark comes last: with it, everything before it is true. reader: what the engine's log said; None
    where another service keeps it.

    Raises:
        KbootError: something cannot be written.
    """
    folder = Path(cache_dir)
    if not folder.is_dir():
        return
    prepared = load_manifest(folder / MANIFEST)
    sync_file_system(folder)
    tree = read_tree(folder, skip=OWN)
    write_inventory(folder, ((f.path, f.size_bytes, f.mtime_ns) for f in tree.files))
    if prepared is not None and prepared.key == folder.name:
        save_manifest(_ready(prepared, folder, tree, reader), paths)
    mark_complete(cache_dir)


def _ready(prepared: CacheManifest, folder: Path, tree: Tree, reader: LogReader | None) -> CacheManifest:
    seen = scan_of(tree)
    caches, spans = (reader.caches(), reader.spans()) if reader else ((), ())
    return replace(
        prepared,
        state="ready",
        folders=seen.named,
        engine_factors=engine_factors(folder, seen.factor_files),
        files=seen.files,
        size_bytes=seen.size_bytes,
        added=_added(tree, prepared.started_unix_s),
        said={said.cache: (said.hits, said.misses) for said in caches},
        seconds={span.name: round(span.seconds, 3) for span in spans if span.seconds is not None},
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
