"""What does a node fetch of files of whose experts its ranks load a part, and which node fetches each of them whole?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.pieces import Pieces, pieces_in
from kboot.plan.local_ranges import loaded_by
from kboot.plan.memory.ranks import flag_value
from kboot.plan.memory.tensors import entries_of

if TYPE_CHECKING:
    from kboot.profile.types import LayoutAsk

_LEFT_OUT = re.compile(rb"\.experts\.(\d+)\..*\.(?:weight|weight_packed)$")
"""The tensors that vLLM's weight filter leaves out where they are another rank's; it reads every expert's scales."""

_READS_ALL = ("--model-loader-extra-config", "--config", "--no-enable-ep-weight-filter")


def is_divided(header: bytes) -> bool:
    """Return whether a safetensors file has tensors that some ranks need not read. header: its JSON part."""
    return any(_LEFT_OUT.search(name) for name, _, _ in entries_of(header))


def needed_pieces(header: bytes, data_bytes: int, experts: frozenset[int]) -> Pieces:
    """Return the pieces of a safetensors file that ranks with these experts read, its header among them.

    Raises:
        HeaderNotValid: it is no such header.
    """
    first = 8 + len(header)
    ranges = [(0, first)]
    for name, _, offsets in entries_of(header):
        other = _LEFT_OUT.search(name)
        if other is None or int(other[1]) in experts:
            start, _, end = offsets.partition(b",")
            ranges.append((first + int(start), min(first + int(end), first + data_bytes)))
    return pieces_in(ranges)


def holders(files: Mapping[str, int], nodes: Sequence[str]) -> dict[str, str]:
    """Return which node fetches each file whole: about as many bytes for each, the same answer on every node.

    files: size in bytes by blob id.
    """
    load = dict.fromkeys(sorted(nodes), 0)
    found = {}
    for blob_id, size_bytes in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        found[blob_id] = least = min(load, key=lambda name: (load[name], name))
        load[least] += size_bytes
    return found


def local_experts(layout: LayoutAsk, node_rank: int, nodes: int, experts: int, layers: int) -> frozenset[int] | str:
    """Return the experts that the ranks of a node load; a sentence where its engine may read others as well.

    nodes: that were found to serve together.
    """
    if why := why_whole(layout, nodes):
        return why
    if not experts:
        return "the model has no experts"
    loaded = loaded_by(layout, node_rank, experts, layers)
    if loaded is None or loaded.experts is None:
        return f"which experts a node's ranks load is not known for layout {layout.name}"
    return loaded.experts


def why_whole(layout: LayoutAsk, nodes: int) -> str:
    """Return why an engine may read every expert, whatever the model; empty where it may not."""
    if layout.engine != "vllm":
        return f"only vLLM is known to leave the experts of other nodes unread, and the engine is {layout.engine}"
    if layout.nodes < 2 or nodes != layout.nodes:
        return "the experts are those of one node: nobody else would have the rest of them"
    if not layout.parallel.expert:
        return f"layout {layout.name} does not spread experts over its ranks"
    if flag := _reads_all(layout):
        return f"with {flag} the engine may read every expert"
    return ""


def _reads_all(layout: LayoutAsk) -> str:
    """Return the flag by which the engine does not read file by file, mapped and filtered; empty without one."""
    names = {arg.partition("=")[0].replace("_", "-") for arg in layout.args}
    if found := next((name for name in _READS_ALL if name in names), ""):
        return found
    chosen = {"--load-format": ("auto", "hf", "safetensors"), "--safetensors-load-strategy": ("lazy",)}
    for name, harmless in chosen.items():
        value = flag_value(layout.args, name, f"--{name[2:].replace('-', '_')}")
        if value is not None and value not in harmless:
            return f"{name} {value}"
    return ""
