"""Can an engine load these files? Judged from headers and index alone: bytes in, verdict out, nothing is trusted."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Literal, NoReturn

from kboot.checkpoint import RemoteFile, is_inside
from kboot.errors import VerificationFailed
from kboot.values import dataclass

MAX_HEADER_BYTES = 100_000_000
"""Longest header that the safetensors library reads (MAX_HEADER_SIZE in its source)."""

HEAD_BYTES = 1024
"""How much of a file's beginning is enough to tell what it is."""

Code = Literal[
    "empty",
    "cut",
    "trailing-bytes",
    "lfs-pointer",
    "html",
    "xml",
    "gzip",
    "torch-zip",
    "pickle",
    "gguf",
    "zeros",
    "text",
    "header-too-long",
    "header-not-json",
    "header-not-valid",
    "offsets-not-tiled",
]

_BITS: Mapping[str, int] = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
_MOST_DIMENSIONS = 64  # as torch has them; the elements of more may be a number that cannot be written
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\r?\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\r?\nsize (\d{1,19})\r?\n"
)
_WORDS = re.compile(rb"[\t\n\r -~]*[!-~][\t\n\r -~]*")  # of an error page, or of a pointer to the file
_WITHOUT_IT_WRONG = re.compile(r"(scale|scales|scale_inv|zero|zeros|zero_point|input_scale)$")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file cannot be what it should be. text: completes "<path>: …"."""

    code: Code
    text: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """start, end: half-open byte range in the data that follows the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A safetensors header whose tensors tile the data without gap or overlap."""

    tensors: Mapping[str, Tensor]
    data_bytes: int


@dataclass(frozen=True, slots=True)
class Index:
    """A weight index: the shard of each tensor. Sums in its metadata are often wrong and are not read."""

    shard_of: Mapping[str, str]

    @property
    def shards(self) -> tuple[str, ...]:
        """Return the shard paths, relative to the index, sorted."""
        return tuple(sorted(set(self.shard_of.values())))


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not fit between index, shards and headers. severity error: the model would load wrong or not at all."""

    severity: Literal["error", "warn"]
    shard: str
    tensor: str
    text: str


class NotValid(ValueError):
    """The bytes are not an index."""


class _Refused(Exception):
    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(code, text)


def published_broken(file: RemoteFile, problem: Problem) -> VerificationFailed:
    """Return the error for a file that is what the commit has, and yet nothing that an engine can load."""
    return VerificationFailed(
        "published-broken",
        f"{file.path}: {problem.text}, although its hash is the listed one",
        hint="whoever wrote the file made the mistake, fetching it again will not help: pin another revision",
    )


def recognise(head: bytes, size_bytes: int) -> Problem | None:
    """Return what a file really is, when its first bytes say that it is nobody's weights, config or code.

    head: the first HEAD_BYTES of it, or all.
    """
    pointer = lfs_pointer(head)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if pointer:
        return Problem("lfs-pointer", f"is a git-lfs pointer of {size_bytes} bytes, real size {pointer[1]}")
    if text.startswith((b"<!doctype html", b"<html")) or (text.startswith(b"<!--") and b"<html" in text):
        return Problem("html", "is an HTML page: a proxy or login page answered instead of the source")
    if text.startswith((b"<?xml", b"<error>")) and b"<error>" in text:
        return Problem("xml", "is an XML error of an object store")
    return None


def lfs_pointer(head: bytes) -> tuple[str, int] | None:
    """Return sha256 and size of the file that a git-lfs pointer stands for; None where it is no pointer."""
    match = _POINTER.match(head)
    return (match[1].decode(), int(match[2])) if match else None


def header_end(head: bytes, size_bytes: int) -> int | Problem:
    """Return how many bytes from the start hold a safetensors header, or why it is no safetensors file.

    head: the first HEAD_BYTES of the file, or all. size_bytes: of the whole file.
    """
    try:
        return 8 + _header_length(head, size_bytes)
    except _Refused as exc:
        return exc.problem


def parse_header(start: bytes, size_bytes: int) -> Header | Problem:
    """Return the header of a safetensors file after checking that its tensors tile the data exactly.

    start: the file's first header_end() bytes, or more. size_bytes: of the whole file.
    """
    try:
        length = _header_length(start, size_bytes)
        tensors = _tensors(_json_object(start[8 : 8 + length]))
        return Header(tensors, _tiled(tensors, size_bytes - 8 - length))
    except _Refused as exc:
        return exc.problem


def parse_index(data: bytes) -> Index:
    """Return the weight index.

    Raises:
        NotValid: it is not JSON, or maps tensors to something that is not a file beside or below it.
    """
    try:
        document = _strict_json(data)
    except ValueError as exc:
        raise NotValid(f"not JSON: {exc}") from exc
    shard_of = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(shard_of, dict) or not shard_of:
        raise NotValid("no weight_map, or an empty one")
    for tensor, shard in shard_of.items():
        if not isinstance(shard, str) or not is_inside(shard):
            raise NotValid(f"tensor {_short(tensor)} lies in {_short(shard)}, which is no file beside the index")
    return Index(shard_of)


def missing_shards(index: Index, complete: Set[str]) -> tuple[str, ...]:
    """Return the shards that the index names and that are not complete on disk, sorted."""
    return tuple(shard for shard in index.shards if shard not in complete)


def check_index(index: Index, headers: Mapping[str, Header]) -> tuple[Finding, ...]:
    """Return what does not fit between the index and the headers of its shards, by shard and tensor.

    headers: by shard; shards without one are not judged, nor weights that are none of its shards.
    """
    shards = set(index.shards)
    absent = [
        Finding("error", shard, tensor, f"the index puts tensor {_short(tensor)} here, the header does not have it")
        for tensor, shard in index.shard_of.items()
        if shard in headers and tensor not in headers[shard].tensors
    ]
    extra = [
        _unindexed(shard, tensor, index.shard_of.get(tensor))
        for shard, header in headers.items()
        if shard in shards
        for tensor in header.tensors
        if index.shard_of.get(tensor) != shard
    ]
    return tuple(sorted(absent + extra, key=lambda f: (f.shard, f.tensor)))


def dtype_bytes(dtype: str, elements: int) -> int | None:
    """Return the bytes that so many elements take, whole bytes; None for a dtype not known here."""
    bits = _BITS.get(dtype)
    return None if bits is None else -(-bits * elements // 8)


def _unindexed(shard: str, tensor: str, elsewhere: str | None) -> Finding:
    if elsewhere is not None:
        text = f"tensor {_short(tensor)} is here too, the index puts it in {elsewhere}"
        return Finding("warn", shard, tensor, f"{text}: an engine that loads every tensor of a shard may take this one")
    wrong = _WITHOUT_IT_WRONG.search(tensor) is not None
    why = "an engine that goes by the index computes with a default instead" if wrong else "engines may skip it"
    return Finding("warn", shard, tensor, f"tensor {_short(tensor)} is not in the index: {why}")


def _refuse(code: Code, text: str) -> NoReturn:
    raise _Refused(code, text)


def _header_length(head: bytes, size_bytes: int) -> int:
    if size_bytes == 0:
        _refuse("empty", "is empty")
    # Every magic number could be the length of a long header; the brace after it tells.
    if head[8:9] != b"{" and (known := recognise(head, size_bytes) or _other_weights(head)):
        raise _Refused(known.code, known.text)
    if size_bytes < 8 or len(head) < 8:
        _refuse("cut", f"has {size_bytes} bytes, the length of its header alone takes 8")
    length = int(struct.unpack_from("<Q", head)[0])
    if length > MAX_HEADER_BYTES:
        _refuse("header-too-long", f"says its header is {length} bytes long, allowed are {MAX_HEADER_BYTES}")
    if 8 + length > size_bytes:
        _refuse("cut", f"has {size_bytes} bytes and ends inside its header of {length}")
    if length < 2:
        _refuse("header-not-json", f"has a header of {length} bytes")
    return length


def _other_weights(head: bytes) -> Problem | None:
    if head.startswith(b"PK\x03\x04"):
        return Problem("torch-zip", "is a zip: a torch checkpoint (.bin, .pt), not safetensors")
    if head.startswith(b"GGUF"):
        return Problem("gguf", "is a GGUF file, not safetensors")
    if head.startswith(b"\x1f\x8b\x08"):
        return Problem("gzip", "is gzip: something on the way compressed it")
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return Problem("pickle", "is a pickle: an old torch checkpoint, not safetensors")
    if not head.strip(b"\0"):
        return Problem("zeros", "begins with zeros: blocks that were reserved and never written, as after a power cut")
    if len(head) < HEAD_BYTES and _WORDS.fullmatch(head):
        return Problem("text", f"is a text of {len(head)} bytes: {_short(head.decode().splitlines()[0])}")
    return None


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        document = _strict_json(data)
    except ValueError as exc:
        _refuse("header-not-json", f"has a header that is not one JSON value: {exc}")
    if not isinstance(document, dict):
        _refuse("header-not-valid", "has a header that is not a JSON object")
    return document


def _strict_json(data: bytes) -> object:
    """Parse JSON; what the json module would accept beyond the standard, or choke on, is a ValueError."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except RecursionError as exc:
        raise ValueError("nested too deep") from exc


def _no_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _tensors(document: Mapping[str, Any]) -> dict[str, Tensor]:
    metadata = document.get("__metadata__")  # null, absent and {} all occur and are all valid
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    ):
        _refuse("header-not-valid", "has metadata that is not a map of strings")
    return {name: _tensor(name, entry) for name, entry in document.items() if name != "__metadata__"}


def _tensor(name: str, entry: object) -> Tensor:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(start), int(end)]} if (
            len(shape) <= _MOST_DIMENSIONS
            and all(_is_count(n) for n in shape)
            and _is_count(start)
            and _is_count(end)
            and start <= end
        ):
            tensor = Tensor(dtype, tuple(shape), start, end)
        case _:
            _refuse("header-not-valid", f"has no valid dtype, shape and offsets for tensor {_short(name)}")
    wanted = dtype_bytes(dtype, math.prod(tensor.shape))
    if wanted is not None and wanted != end - start:
        _refuse("header-not-valid", f"gives tensor {_short(name)} {end - start} bytes, its shape takes {wanted}")
    return tensor


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _tiled(tensors: Mapping[str, Tensor], room_bytes: int) -> int:
    """Return the length of the data after checking that it is covered once, from the first byte to the last."""
    order = sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end))
    end = order[-1][1].end if order else 0
    if order and order[0][1].start != 0:
        _refuse("offsets-not-tiled", f"has its first tensor at byte {order[0][1].start}, not 0")
    for (name, one), (other, two) in pairwise(order):
        if one.end != two.start:
            what = "overlap" if two.start < one.end else "leave a gap"
            _refuse("offsets-not-tiled", f"has tensors {_short(name)} and {_short(other)} that {what}")
    if end > room_bytes:
        _refuse("cut", f"ends {end - room_bytes} bytes before its last tensor does")
    if end < room_bytes:
        _refuse("trailing-bytes", f"has {room_bytes - end} bytes after its last tensor")
    return end


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…'"
