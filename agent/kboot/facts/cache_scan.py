"""What lies in the folder of kernel caches that this boot will use: how much, and what of it looks wrong?

Cheap enough for every boot: one stat for each file, and the content of only those that changed since the last boot that
reached ready, whose files were made durable then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from kboot.facts.types import Baton, CacheScan, TornFile, TunedFile, Unwritable
from kboot.host.files import read_small
from kboot.host.holders import holders_of
from kboot.host.sharing import engine_user
from kboot.host.tree import Tree, read_head, read_tree
from kboot.jsontext import parse_json
from kboot.store.cache_files import MANIFEST, OWN, Marks, read_inventory
from kboot.store.cache_shape import is_read, torn

MAX_READ_FILES = 50_000
"""Files whose content is looked at in one scan; more than that have changed only where nothing is known to be whole."""

_SPECIAL = re.compile(r"(?:\.json|/lock|/vllm_compile_cache\.py)$")
_TABLE = re.compile(r"/vllm_compile_cache\.py$")
_GRAPH = re.compile(rb"'(/[^'\n]+/torch_compile_cache/[^'\n]+)'")
_TUNED = re.compile(r"(?:autotune_configs|rank_tp\d+_)[^/]*\.json$")
_P2P = re.compile(r"gpu_p2p_access_cache_for_[\d,]+\.json$")
_BATON = re.compile(r"torch-extensions/(?:.*/)?lock$")
_TUNED_BYTES = _TABLE_BYTES = 64 << 20
_NAMED = re.compile(
    r"vllm/torch_compile_cache/[0-9a-f]{10}"
    r"|vllm/torch_compile_cache/torch_aot_compile/[0-9a-f]{64}"
    r"|vllm/startup_plan/startup_plan_[0-9a-f]{16}\.json"
    r"|flashinfer-autotune/(?:.+/)?[0-9a-f]{16,64}"
    r"|sglang/flashinfer/autotune/.+/[0-9a-f]{16}"
    r"|flashinfer/\.cache/flashinfer/[^/]+/[^/]+/cached_ops/[^/]+"
)
_FACTORS = re.compile(r"(vllm/torch_compile_cache/[0-9a-f]{10})/.*cache_key_factors\.json")
_FACTOR_NAME = "/cache_key_factors.json"
_PLANS = "vllm/startup_plan/"
_FACTOR_FILES = 8
_NAMED_FOLDERS = 2000


def scan_cache(folder: Path, machine: str) -> CacheScan:
    """Look through one key's folder; one that is not there is an empty one.

    machine: what tells this machine from another (see `kboot.facts.caches.machine_mark`).
    """
    tree = read_tree(folder, skip=OWN)
    looked, found = _torn(folder, tree, read_inventory(folder))
    special = sorted(f.path for f in tree.files if _SPECIAL.search(f.path))
    return replace(
        scan_of(tree),
        looked_at=looked,
        torn=found,
        tuned=tuple(_tuned(folder, special)),
        batons=_batons(folder, special),
        p2p=tuple(path for path in special if _P2P.search(path)),
        moved=tuple(_moved(folder, special)),
        machine=machine,
        made_on=_made_on(folder),
        unwritable=_unwritable(folder, tree),
    )


def scan_of(tree: Tree) -> CacheScan:
    """Return how much is in a folder and what is named in it, without opening anything."""
    named = sorted(e.path for e in tree.folders if _NAMED.fullmatch(e.path))
    named += sorted(e.path for e in tree.files if e.path.startswith(_PLANS) and _NAMED.fullmatch(e.path))
    return CacheScan(
        files=len(tree.files),
        size_bytes=tree.size_bytes,
        looked_at=0,
        named=tuple(sorted(named)[:_NAMED_FOLDERS]),
        factor_files=_factor_files(tree),
        whole=tree.whole,
    )


def _factor_files(tree: Tree) -> tuple[tuple[str, str], ...]:
    """Return one file for each of the newest folders; those of a folder's ranks differ in nothing."""
    newest: dict[str, tuple[int, str]] = {}
    for entry in tree.files:
        if entry.path.endswith(_FACTOR_NAME) and (found := _FACTORS.fullmatch(entry.path)):
            newest[found[1]] = max(newest.get(found[1], (0, "")), (entry.mtime_ns, entry.path))
    order = sorted(newest.items(), key=lambda item: item[1], reverse=True)
    return tuple((name, path) for name, (_, path) in order[:_FACTOR_FILES])


def _torn(folder: Path, tree: Tree, known: Marks) -> tuple[int, tuple[TornFile, ...]]:
    """Return how many files were opened, and those that are not whole."""
    looked, found = 0, []
    for path, size_bytes, mtime_ns, *_ in tree.files:
        if known.get(path) == (size_bytes, mtime_ns):
            continue
        if is_read(path) and size_bytes:
            if looked >= MAX_READ_FILES:
                continue
            looked += 1
        with suppress(OSError):  # it went away, or this user may not read it; then the engine says so
            if seen := torn(path, size_bytes, partial(read_head, folder / path)):
                found.append(TornFile(path, size_bytes, seen))
    return looked, tuple(sorted(found, key=lambda t: t.path))


def _tuned(folder: Path, paths: Iterable[str]) -> Iterator[TunedFile]:
    """Yield the tuned kernels' files whose metadata can be read; torn ones are told apart from these."""
    for path in filter(_TUNED.search, paths):
        with suppress(OSError, ValueError):
            document = parse_json(read_small(folder / path, _TUNED_BYTES))
            stamps = document.get("_metadata") if isinstance(document, dict) else None
            stamps = stamps if isinstance(stamps, dict) else {}
            yield TunedFile(path, {str(k): str(v) for k, v in sorted(stamps.items()) if v is not None})


def _moved(folder: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield vLLM's tables of compiled graphs that name, by its whole path, one that is not there."""
    for path in filter(_TABLE.search, paths):
        with suppress(OSError):  # also where this user may not look whether a graph is there
            graphs = (
                name.decode(errors="surrogateescape")
                for name in _GRAPH.findall(read_small(folder / path, _TABLE_BYTES))
            )
            lost = next((graph for graph in graphs if not Path(graph).exists()), None)
            if lost is not None:
                yield path, lost


def _batons(folder: Path, special: Iterable[str]) -> tuple[Baton, ...]:
    paths = [path for path in special if _BATON.search(path)]
    with suppress(OSError):  # one was let go just now
        held = holders_of(folder / path for path in paths)
        return tuple(Baton(p, held[folder / p].pids, held[folder / p].unseen) for p in paths)
    return ()


def _made_on(folder: Path) -> str:
    with suppress(OSError, ValueError, AttributeError):
        return str(parse_json(read_small(folder / MANIFEST, _TUNED_BYTES)).get("machine", ""))
    return ""


def _unwritable(folder: Path, tree: Tree) -> Unwritable | None:
    """Return the first folder, else file, that the engine's user cannot change."""
    user = engine_user(folder.parent)
    for entries in (tree.folders, tree.files):
        off = [e for e in entries if not user.may_write(e.mode, e.uid, e.gid)]
        if off:
            first = min(off)
            return Unwritable(first.path, first.uid, f"{first.mode & 0o7777:04o}", len(off))
    return None
