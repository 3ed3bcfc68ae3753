"""Which tensors does a checkpoint hold, before one byte of them is fetched? Kept for the next boot of that commit."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kboot.checkpoint import Listing, RemoteFile
from kboot.errors import FactMissing, KbootError, SourceError, VerificationFailed
from kboot.host.files import atomic_write, make_dirs, read_small
from kboot.jsontext import parse_json
from kboot.plan.memory.model import Model, model_of
from kboot.plan.memory.shape import ModelShape, read_shape
from kboot.plan.memory.tensors import TensorGroup, read_tensors
from kboot.profile.types import LayoutAsk
from kboot.sources.headers import Header, local_headers, remote_headers
from kboot.sources.types import Source
from kboot.store.store import Store
from kboot.store.verifier import prove

CONFIG = "config.json"
_SCHEMA = 1
_LIMIT_CONFIG_BYTES = 16 << 20
_LIMIT_KEPT_BYTES = 64 << 20


def listed_model(
    listing: Listing,
    store: Store,
    sources: Sequence[Source],
    *,
    keep: bool = True,
    stop: threading.Event | None = None,
) -> Model:
    """Return the model of a listing from its headers: those on this disk are read here, the others from a source.

    A commit's content never changes, so what was read once is kept (state/tensors) and found again in milliseconds.
    stop: set = wait for no source any more.

    Raises:
        FactMissing: it has no safetensors, or one is not what its name says.
        SourceError: headers are missing on this disk and nobody gives them.
    """
    shape = _listed_shape(listing, store, sources)
    weights = tuple(f for f in listing.files if f.path.endswith(".safetensors"))
    if not weights:
        raise FactMissing("no-headers", f"{listing.repo} has no safetensors files, so there are no headers to read")
    kept = store.paths.state / "tensors" / f"{listing.commit}.json"
    names = [f"{f.path}:{f.size_bytes}" for f in weights]
    groups = _load(kept, names)
    if groups is None:
        groups = read_tensors(listed_headers(listing, weights, store, sources, stop))
        if keep:
            with suppress(KbootError):  # a cache: without it the next boot reads the headers again
                _save(kept, names, groups)
    return model_of(groups, shape)


def model_for(
    layouts: Sequence[LayoutAsk],
    listing: Listing,
    store: Store,
    sources: Sequence[Source],
    stop: threading.Event | None = None,
) -> tuple[Model | None, tuple[str, ...]]:
    """Return the model for a boot with one of these layouts; None with a warning where its headers cannot be had.

    A layout without GPUs loads into host memory, where no rank has a limit of its own: no header is read for it.
    """
    if not any(layout.gpus_per_node for layout in layouts):
        return None, ()
    try:
        return listed_model(listing, store, sources, stop=stop), ()
    except (FactMissing, SourceError) as exc:
        if stop is not None and stop.is_set():
            raise
        return None, (f"the fit is judged from the size alone, as if it divided evenly: {exc.message}",)


def folder_model(folder: Path) -> Model:
    """Return the model of a folder: the shards its index names, else every safetensors file in it.

    Raises:
        FactMissing: there are none, or one is not what its name says.
    """
    names = sorted(path.name for path in folder.iterdir() if path.suffix == ".safetensors" and path.is_file())
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        named = _indexed(index)
        absent = sorted(named - set(names))
        if absent:
            message = f"the index names {len(absent)} files that are not here"
            raise FactMissing("shard-missing", message, where=tuple(absent[:3]))
        names = sorted(named)
    if not names:
        raise FactMissing("no-weights", "the folder holds no safetensors files", where=(str(folder),))
    config = folder / CONFIG
    shape = _shape(read_small(config, _LIMIT_CONFIG_BYTES), str(config)) if config.is_file() else ModelShape()
    return model_of(read_tensors(local_headers([(name, folder / name) for name in names])), shape)


def _indexed(index: Path) -> set[str]:
    """Return the shards an index names; it may list half a million tensors, so its values alone are taken."""
    data = read_small(index, _LIMIT_KEPT_BYTES * 4)
    names = set(re.findall(rb':\s*"([^"\\/]+\.safetensors)"', data))
    return {name.decode("utf-8", "replace") for name in names}


def _listed_shape(listing: Listing, store: Store, sources: Sequence[Source]) -> ModelShape:
    file = next((f for f in listing.files if f.path == CONFIG), None)
    if file is None:
        return ModelShape()
    data = store.read_proven(listing.repo, file, _LIMIT_CONFIG_BYTES)
    for source in sources if data is None else ():
        try:
            data = source.read(listing.repo, listing.commit, file, _LIMIT_CONFIG_BYTES)
            prove(file, data)
        except (SourceError, VerificationFailed):
            data = None
        else:
            break
    return ModelShape() if data is None else _shape(data, f"{CONFIG} of {listing.repo}")


def _shape(data: bytes, where: str) -> ModelShape:
    try:
        config = parse_json(data)
    except ValueError as exc:
        raise FactMissing("config-not-valid", f"{where} is not JSON: {exc}") from exc
    if not isinstance(config, dict):
        raise FactMissing("config-not-valid", f"{where} is not an object")
    return read_shape(config)


def listed_headers(
    listing: Listing,
    weights: Sequence[RemoteFile],
    store: Store,
    sources: Sequence[Source],
    stop: threading.Event | None,
) -> Iterator[Header]:
    """Return the headers of some files of a listing: those on this disk first, then those that a source gives.

    Raises:
        FactMissing: a file is no safetensors file. SourceError: nobody gives those that are not here.
    """
    whole = {local.file.path for local in store.local(listing) if local.is_readable}
    here = [(f.path, store.content_path(listing.repo, f)) for f in weights if f.path in whole]
    yield from local_headers(here)
    missing = [f for f in weights if f.path not in whole]
    if missing:
        yield from _from_any(sources, listing, missing, stop)


def _from_any(
    sources: Sequence[Source], listing: Listing, files: Sequence[RemoteFile], stop: threading.Event | None
) -> Iterator[Header]:
    """Return the headers from the first source, from the next those that it does not give, and so on."""
    first: KbootError | None = None
    given = 0
    for source in sources:
        try:
            for header in remote_headers(source, listing.repo, listing.commit, files[given:], stop):
                given += 1
                yield header
        except (FactMissing, SourceError) as exc:
            exc.where = (*exc.where, f"from {source.name}")
            first = first or exc
        else:
            return
    raise first or SourceError(
        "headers-not-here",
        f"{len(files)} of the headers of {listing.repo} are not on this disk, and no source was asked",
        hint="leave out --offline, or fetch the checkpoint first",
    )


def _load(path: Path, names: Sequence[str]) -> tuple[TensorGroup, ...] | None:
    """Return what was kept for exactly these files; None where nothing usable was."""
    try:
        document: Any = parse_json(read_small(path, _LIMIT_KEPT_BYTES))
        if document["schema"] != _SCHEMA or document["files"] != list(names):
            return None
        return tuple(_kept_group(group) for group in document["tensors"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _kept_group(group: dict[str, Any]) -> TensorGroup:
    first, last = group.pop("run", (0, -1))
    experts = tuple(group.pop("experts", ())) or tuple(range(first, last + 1))
    return TensorGroup(**{**group, "shape": tuple(group["shape"]), "experts": experts})


def _save(path: Path, names: Sequence[str], groups: Sequence[TensorGroup]) -> None:
    make_dirs(path.parent)
    document = {"schema": _SCHEMA, "files": list(names), "tensors": [_group_json(group) for group in groups]}
    atomic_write(path, json.dumps(document, separators=(",", ":")).encode())


def _group_json(group: TensorGroup) -> dict[str, Any]:
    """Return a group; the experts of most are a run of numbers."""
    found = asdict(group)
    numbers = found.pop("experts")
    if numbers and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return {**found, "run": (numbers[0], numbers[-1])}
    return {**found, **({"experts": numbers} if numbers else {})}
