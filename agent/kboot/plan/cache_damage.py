"""Which entries of a kernel cache must be out of the way before the engine starts, and why?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from posixpath import basename, dirname
from typing import TYPE_CHECKING

from kboot.plan.placement import workers_on_node
from kboot.plan.types import QuarantineCache

if TYPE_CHECKING:
    from kboot.engines.types import CacheKey
    from kboot.facts.types import CacheFacts, CacheScan, NodeFacts, TornFile, TunedFile
    from kboot.profile.types import LayoutAsk

# Folders that are one entry: their files were written by one compilation and are of use together only.
_ENTRY = re.compile(
    r"(?:.*/)?triton(?:_cache)?/[^/]+(?=/)"
    r"|(?:trtllm-)?deep_(?:gemm|ep)/cache/[^/]+(?=/)"
    r"|tilelang/cache/(?:[^/]+/)*?[0-9a-f]{32,64}(?=/)"
    r"|humming/cache/(?:[^/]+/)*?[0-9a-f]{16,64}(?=/)"
)
_RANK = re.compile(r"autotune_configs_dp\d+_rank\d+\.json")
_VAGUE = frozenset({"", "*", "unknown", "None"})  # FlashInfer replaces a file stamped so; "*" fits every machine
_CUDA_TAG = re.compile(r"\+cu(\d+)(\d)$")


def plan_quarantine(facts: NodeFacts, layout: LayoutAsk, path: str) -> tuple[QuarantineCache, ...]:
    """Return what to move out of the key's folder at `path`, one action for each entry."""
    scan = facts.caches.scan
    if scan is None:
        return ()
    found: dict[str, tuple[str, str]] = {}
    for entry, file, why in (
        *_torn(scan.torn),
        *_foreign(scan.tuned, _stamps_here(facts)),
        *_incomplete(scan, layout),
        *_batons(scan),
        *_other_machine(scan),
        *_moved(scan),
    ):
        found.setdefault(entry, (file, why))
    return tuple(QuarantineCache(path, entry, file, why) for entry, (file, why) in sorted(found.items()))


def scan_warnings(caches: CacheFacts, key: CacheKey) -> tuple[str, ...]:
    """Return what an operator should know of the key's folder although boot goes on."""
    scan = caches.scan
    if scan is None:
        return ()
    found = []
    if scan.unwritable is not None:
        first = scan.unwritable
        found.append(
            f"the engine's user cannot change {first.count} entries of kernel cache {key.name}, "
            f"first {first.path or '.'} (owner {first.uid}, mode {first.mode}): what it builds is lost or fails; "
            "chown them to the engine's user"
        )
    found += [
        f"{b.path} of the kernel cache is a lock without a deadline, held by {_held_by(b.holders, b.unseen)}: "
        "an engine that needs that module waits for it"
        for b in scan.batons
        if b.holders or b.unseen
    ]
    if not scan.whole:
        found.append(f"kernel cache {key.name} has more entries than were looked at ({scan.files:,} files)")
    return tuple(found)


def entry_of(path: str) -> str:
    """Return what must go with a torn file: its whole entry, or the file alone where the engine builds that again."""
    found = _ENTRY.match(path)
    return found[0] if found else path


def _torn(torn: Iterable[TornFile]) -> Iterator[tuple[str, str, str]]:
    for file in torn:
        yield entry_of(file.path), file.path, f"torn by a crash: {file.path} has {_seen(file)}"


def _seen(file: TornFile) -> str:
    return file.seen if file.seen.startswith(f"{file.size_bytes} bytes") else f"{file.size_bytes} bytes, {file.seen}"


def _stamps_here(facts: NodeFacts) -> Mapping[str, frozenset[str]]:
    """Return what FlashInfer stamps its tuned files with on this node, as far as it can be told without running it."""
    packages = facts.engine.packages
    cuda = _CUDA_TAG.search(packages.get("torch", ""))
    here = {
        "flashinfer_version": {packages.get("flashinfer-python", "")},
        "cudnn_frontend_version": {packages.get("nvidia-cudnn-frontend", "")},
        "cuda_version": {f"{cuda[1]}.{cuda[2]}"} if cuda else set(),
        "gpu": {gpu.name for gpu in facts.gpu.gpus},
    }
    return {name: frozenset(values - {""}) for name, values in here.items() if values - {""}}


def _foreign(tuned: Iterable[TunedFile], here: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str, str]]:
    """FlashInfer neither reads nor replaces a file of another environment: that rank tunes again at every boot."""
    for file in tuned:
        off = [
            f"{name} is {file.stamps[name]}, here {' or '.join(sorted(values))}"
            for name, values in sorted(here.items())
            if file.stamps.get(name, "") not in values | _VAGUE
        ]
        if off:
            yield file.path, file.path, f"tuned in another environment ({'; '.join(off)}): it would tune at every boot"


def _incomplete(scan: CacheScan, layout: LayoutAsk) -> Iterator[tuple[str, str, str]]:
    """Engines tune again on all ranks unless every rank has its file, so a part of a set is of no use."""
    sets: dict[str, list[str]] = {}
    for file in scan.tuned:
        if _RANK.fullmatch(basename(file.path)):
            sets.setdefault(dirname(file.path), []).append(file.path)
    wanted = workers_on_node(layout)
    for folder, paths in sorted(sets.items()):
        if len(paths) < wanted:
            why = f"{len(paths)} of {wanted} ranks have tuned kernels in {folder}: without all, every rank tunes again"
            yield from ((path, path, why) for path in paths)


def _batons(scan: CacheScan) -> Iterator[tuple[str, str, str]]:
    for baton in scan.batons:
        if not baton.holders and not baton.unseen:
            yield baton.path, baton.path, "a lock without a live holder: the next build would wait for it for ever"


def _other_machine(scan: CacheScan) -> Iterator[tuple[str, str, str]]:
    """The probe's file names GPUs by number, not the machine they are in."""
    if scan.made_on and scan.machine and scan.made_on != scan.machine:
        yield from ((path, path, "says which GPUs of another machine reach each other") for path in scan.p2p)


def _moved(scan: CacheScan) -> Iterator[tuple[str, str, str]]:
    """The engine ends where a graph is not at the path that it noted: these caches were made in another folder."""
    for path, graph in scan.moved:
        yield path, path, f"made in another folder: it names {graph}, which is not there"


def _held_by(holders: tuple[int, ...], unseen: int) -> str:
    named = [f"process {', '.join(map(str, holders))}"] if holders else []
    return " and ".join([*named, *([f"perhaps one of {unseen} that cannot be looked into"] if unseen else [])])
