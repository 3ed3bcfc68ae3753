"""A loader of its own: reads small checkpoints as an engine's worker would, slice by slice, and counts what it holds.

It shares no code with kboot: every tensor is read from its file, cut into rows or columns for the rank, and kept.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROWS = {"q_b_proj", "kv_b_proj", "g_proj", "f_b_proj", "b_proj", "gate_proj", "up_proj", "q_proj", "k_proj", "v_proj"}
COLUMNS = {"o_proj", "down_proj"}
FIRST = {"q_conv1d", "k_conv1d", "v_conv1d"}
WIDTH = {"BF16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}


@dataclass(frozen=True)
class Worker:
    """Where one worker stands: ranks and sizes of every kind of parallelism, and the model's numbers."""

    data: int
    tensor: int
    stage: int
    data_size: int
    tensor_size: int
    stages: int
    layers: int
    experts: int
    spread: bool
    whole_shared: bool = False
    kv_heads: int = 0


def write(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """Write a safetensors file with real bytes; tensors: name → dtype and shape."""
    header, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * WIDTH[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(at)))


def load(files: Sequence[Path], worker: Worker) -> int:
    """Return how many bytes the worker holds after loading the files."""
    held = []
    for file in files:
        data = file.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8 : 8 + length]).items():
            start, end = entry["data_offsets"]
            body = data[8 + length + start : 8 + length + end]
            piece = take(name, body, entry["shape"], WIDTH[entry["dtype"]], worker)
            if piece is not None:
                held.append(piece)
    return sum(map(len, held))


def take(name: str, body: bytes, shape: Sequence[int], width: int, w: Worker) -> bytes | None:
    """Return what the worker keeps of one tensor; None where it keeps nothing."""
    if not on_stage(name, w):
        return None
    module = name.split(".")[-2]
    if found := re.search(r"\.experts\.(\d+)\.", name):
        ranks = w.data_size * w.tensor_size
        mine = w.data * w.tensor_size + w.tensor
        if w.spread:
            return body if int(found[1]) in numbers(w.experts, ranks, mine) else None
        return cut(body, shape, width, module in ("w1", "w3", "gate_proj", "up_proj"), mine, ranks)
    if "shared_experts" in name and w.whole_shared:
        return body
    if module in ("embed_tokens", "lm_head"):
        padded = math.ceil(shape[0] / 64) * 64
        rows = padded // w.tensor_size
        body += bytes((padded - shape[0]) * shape[1] * width)
        return body[w.tensor * rows * shape[1] * width : (w.tensor + 1) * rows * shape[1] * width]
    if module in ("k_proj", "v_proj") and 0 < w.kv_heads < w.tensor_size:
        each = w.tensor_size // w.kv_heads
        return cut(body, shape, width, True, w.tensor // each, w.kv_heads)
    if module in ROWS or module in FIRST or name.endswith("dt_bias"):
        return cut(body, shape, width, True, w.tensor, w.tensor_size)
    if module in COLUMNS:
        return cut(body, shape, width, False, w.tensor, w.tensor_size)
    return body


def cut(body: bytes, shape: Sequence[int], width: int, by_rows: bool, rank: int, ranks: int) -> bytes:
    """Return one of `ranks` parts of a matrix."""
    rows, row_bytes = shape[0], len(body) // shape[0]
    if by_rows:
        part = rows // ranks
        assert part * ranks == rows
        return body[rank * part * row_bytes : (rank + 1) * part * row_bytes]
    if len(shape) < 2:
        return body
    part = row_bytes // ranks
    assert part * ranks == row_bytes
    return b"".join(body[r * row_bytes + rank * part : r * row_bytes + (rank + 1) * part] for r in range(rows))


def numbers(experts: int, ranks: int, rank: int) -> range:
    """Return the experts of one rank: contiguous, the first ranks one more."""
    sizes = [experts // ranks + (r < experts % ranks) for r in range(ranks)]
    return range(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def on_stage(name: str, w: Worker) -> bool:
    """Return whether the tensor is of the worker's pipeline stage."""
    if name.startswith(("vision_tower.", "mm_projector.")):
        return True
    found = re.search(r"\blayers\.(\d+)\.", name)
    if found:
        if int(found[1]) >= w.layers:
            return False
        sizes = [w.layers // w.stages] * w.stages
        for extra in range(w.layers % w.stages):
            sizes[w.stages - 2 - extra] += 1
        return sum(sizes[: w.stage]) <= int(found[1]) < sum(sizes[: w.stage + 1])
    return w.stage == (0 if "embed_tokens" in name else w.stages - 1)
