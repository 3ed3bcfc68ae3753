"""Which files of a commit does an engine need? Decided from index and listing, never from how files are numbered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from posixpath import dirname

from kboot.checkpoint import RemoteFile
from kboot.errors import KbootError
from kboot.store.structure import HEAD_BYTES, Index, NotValid, parse_index, recognise

INDEX = "model.safetensors.index.json"
CONSOLIDATED_INDEX = "consolidated.safetensors.index.json"
"""The same of Mistral's own layout, where a repository has no other weights."""
LIMIT_INDEX_BYTES = 256 << 20
"""Largest index that is read; one with a million tensors has about 100 MB."""

_MAX_SMALL_BYTES = 256 << 20
_TOO_LARGE = "larger than 256 MiB and no weights of the index"
_SAFETENSORS = ".safetensors"
_TORCH = (".bin", ".pth", ".pt")
_WHOLE = "model.safetensors"
_VARIANT = re.compile(r"model\.(?:bf16|fp16|fp32|fp8|int8|non_ema)\.safetensors")
_MODULES = "modules.json"
_MODULE = re.compile(r"\d+_\w+")
_NOT_WEIGHTS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt")
_OTHER_WEIGHTS = (
    ".gguf",
    ".ggml",
    ".h5",
    ".msgpack",
    ".ot",
    ".onnx",
    ".onnx_data",
    ".tflite",
    ".mlmodel",
    ".ckpt",
    ".nemo",
    ".tensors",
)
_NOT_READ = (
    ".md", ".rst", ".pdf", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".mp4", ".webm", ".mov", ".ipynb",
    ".gitattributes", ".gitignore",
)  # fmt: skip

Skipped = tuple[tuple[str, str], ...]


def find_index(files: Sequence[RemoteFile]) -> RemoteFile | None:
    """Return the listing's weight index, or None where the weights are not sharded."""
    found = {file.path: file for file in files}
    has_others = any(_is_top_tensors(path) and not path.startswith("consolidated") for path in found)
    return found.get(INDEX) or (None if has_others else found.get(CONSOLIDATED_INDEX))


def select(
    files: Sequence[RemoteFile], index_json: bytes | None, include: Sequence[str], exclude: Sequence[str]
) -> tuple[tuple[RemoteFile, ...], Skipped]:
    """Return the wanted files, and (path, reason) of the rest, both sorted by path.

    index_json: content of find_index(), None where there is none. include: shell patterns over paths that replace the
    choice made here. exclude: patterns that are left out of either. An index that is left out decides nothing.

    Raises:
        KbootError: no loadable weights are left, or the index names shards that are not listed or left out.
    """
    name = listed_index.path if (listed_index := find_index(files)) else INDEX
    if index_json is None and listed_index and _is_asked(name, include, exclude):
        raise ValueError(f"{name} is listed, but its content was not given")
    index = _parse(name, index_json) if _is_asked(name, include, exclude) else None
    listed = {file.path for file in files}
    if index and (lost := [shard for shard in index.shards if shard not in listed]):
        raise _shards("index-shard-not-listed", f"{name} names shards that the commit does not have", lost)
    chosen = _included(files, include) if include else _chosen(files, index, name)
    reasons = {path: _why_excluded(path, exclude) or why for path, why in chosen.items()}
    wanted = tuple(sorted((file for file in files if not reasons[file.path]), key=lambda file: file.path))
    _check_loadable(wanted, index, name, reasons)
    return wanted, tuple(sorted((path, why) for path, why in reasons.items() if why))


def reselect(
    files: Sequence[RemoteFile],
    skipped: Skipped,
    index_json: bytes | None,
    include: Sequence[str],
    exclude: Sequence[str],
) -> tuple[tuple[RemoteFile, ...], Skipped] | None:
    """Select again from an earlier selection, whose skipped files are known by name only.

    Returns None when a file is wanted now that was skipped then: its size and hash are not known.

    Raises:
        KbootError: as select().
    """
    nameless = [RemoteFile(path, _MAX_SMALL_BYTES + 1 if why == _TOO_LARGE else 0, "", None) for path, why in skipped]
    every = [*files, *nameless]
    if (index := find_index(every)) and not index.blob_id and _is_asked(index.path, include, exclude):
        return None
    wanted, others = select(every, index_json, include, exclude)
    return (wanted, others) if all(file.blob_id for file in wanted) else None


def _parse(name: str, index_json: bytes | None) -> Index | None:
    if index_json is None:
        return None
    try:
        return parse_index(index_json)
    except NotValid as exc:
        known = recognise(index_json[:HEAD_BYTES], len(index_json))
        raise KbootError(
            "index-not-valid",
            f"{name} {known.text}" if known else f"{name} is no weight index: {exc}",
            hint="the commit itself is broken: pin another revision, or name the files with checkpoint.include",
        ) from exc


def _is_asked(path: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    return (not include or any(_matches(path, p) for p in include)) and not _why_excluded(path, exclude)


def _why_excluded(path: str, exclude: Sequence[str]) -> str:
    return next((f"excluded by the profile ({pattern})" for pattern in exclude if _matches(path, pattern)), "")


def _included(files: Sequence[RemoteFile], include: Sequence[str]) -> dict[str, str]:
    return {
        file.path: "" if any(_matches(file.path, p) for p in include) else "not included by the profile"
        for file in files
    }


def _chosen(files: Sequence[RemoteFile], index: Index | None, name: str) -> dict[str, str]:
    """Return why each file is left out; empty for those that an engine needs. name: of the index."""
    weights = _weights(files, index) | _modules([file.path for file in files])
    folders_of = {
        kind: {dirname(file.path) for file in files if _is_weights(file.path) and (file.path in weights) is kind}
        for kind in (True, False)
    }
    other_models = folders_of[False] - folders_of[True] - {""}
    return {f.path: "" if f.path == name else _why_not(f, weights, other_models, index) for f in files}


def _why_not(file: RemoteFile, weights: frozenset[str], other_models: set[str], index: Index | None) -> str:
    path, folder = file.path, dirname(file.path)
    if path in weights:
        return ""
    if _is_weights(path):
        return _why_not_weights(path, index)
    if folder in other_models:
        return f"belongs to the weights in {folder}/, which are not loaded"
    if f"/{path}".lower().endswith(_NOT_READ):
        return "no engine reads it"
    if path.endswith(".index.json") and not _is_index_of(path, weights):
        return "index of weights that are not loaded"
    return _TOO_LARGE if file.size_bytes > _MAX_SMALL_BYTES else ""


def _weights(files: Sequence[RemoteFile], index: Index | None) -> frozenset[str]:
    """Return the paths of the weights an engine loads: the index's shards, else those at the top, in one format."""
    if index:
        return frozenset(index.shards)
    top = [file.path for file in files if "/" not in file.path and file.path not in _NOT_WEIGHTS]
    once = [path for path in top if path.endswith(_SAFETENSORS) and not path.startswith("consolidated")]
    if _WHOLE in once:
        once = [path for path in once if not _VARIANT.fullmatch(path)]
    return frozenset(once or _one_format(top))


def _modules(paths: Sequence[str]) -> frozenset[str]:
    """Return the weights of the layers behind an embedding model (2_Dense/), which engines apply to what it gives.

    https://github.com/vllm-project/vllm/pull/23408
    """
    folders = {dirname(path) for path in paths if _MODULE.fullmatch(dirname(path))} if _MODULES in paths else set()
    return frozenset(
        path for folder in folders for path in _one_format([path for path in paths if dirname(path) == folder])
    )


def _one_format(paths: Iterable[str]) -> Sequence[str]:
    paths = tuple(paths)
    formats = ([path for path in paths if path.endswith(kind)] for kind in (_SAFETENSORS, *_TORCH))
    return next(filter(None, formats), ())


def _is_top_tensors(path: str) -> bool:
    return "/" not in path and path.endswith(_SAFETENSORS)


def _why_not_weights(path: str, index: Index | None) -> str:
    if _VARIANT.fullmatch(path):
        return "the same weights in another precision"
    if path.endswith(_SAFETENSORS):
        return "not in the index: the same weights again, or another model's" if index else "not at the top"
    if path.endswith(_TORCH):
        return "torch weights; engines load the safetensors"
    return "weights in a format that the engines here do not load"


def _is_index_of(path: str, weights: frozenset[str]) -> bool:
    """Return whether an index belongs to the weights that are loaded: pytorch_model.bin.index.json to *.bin."""
    kind = path.removesuffix(".index.json").rpartition(".")[2]
    return any(weight.endswith(f".{kind}") for weight in weights) and not any(w.endswith(_SAFETENSORS) for w in weights)


def _is_weights(path: str) -> bool:
    return path.lower().endswith((_SAFETENSORS, *_TORCH, *_OTHER_WEIGHTS))


def _matches(path: str, pattern: str) -> bool:
    """Match as huggingface_hub does: `*` crosses folders, and a folder stands for all below it."""
    return fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def _check_loadable(wanted: Sequence[RemoteFile], index: Index | None, name: str, reasons: dict[str, str]) -> None:
    if not any(_is_weights(file.path) for file in wanted):
        raise KbootError(
            "no-loadable-weights",
            f"none of the {len(reasons)} listed files are weights that would be fetched",
            where=tuple(f"{path}: {why}" for path, why in sorted(reasons.items()) if why and _is_weights(path))[:10],
            hint="take a repository with safetensors, or name what is to be fetched in checkpoint.include of a profile",
        )
    if index and (lost := [shard for shard in index.shards if reasons[shard]]):
        raise _shards("index-shard-left-out", f"{name} names shards that include or exclude leave out", lost)


def _shards(code: str, what: str, shards: Sequence[str]) -> KbootError:
    more = f" and {len(shards) - 3} more" if len(shards) > 3 else ""
    return KbootError(
        code,
        f"{what}: {', '.join(shards[:3])}{more}",
        hint="an engine would start with weights that were never set; fix the profile or pin another revision",
    )
