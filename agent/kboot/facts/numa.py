"""Which NUMA nodes are there, with which CPUs and how much memory?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kboot.facts.reader import Reader, kib_lines, whole_number
from kboot.facts.types import NumaNode

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_NODE = "/sys/devices/system/node"
_STATUS = "/proc/self/status"
_FILES = ("Active(file)", "Inactive(file)")


def collect_numa(host: Host) -> tuple[tuple[NumaNode, ...], tuple[Gap, ...]]:
    """Read the online nodes; their numbers may have holes, and some may have no CPUs."""
    reader = Reader(host)
    numbers = reader.cpu_list("numa", f"{_NODE}/online") or ()
    allowed = _allowed(reader)
    return tuple(_node(reader, number, numbers, allowed) for number in numbers), reader.gaps


def _allowed(reader: Reader) -> tuple[int, ...] | None:
    """Return the nodes whose memory a cpuset leaves to this process; None where the kernel does not say."""
    found = re.search(r"^Mems_allowed_list:\s*(\S+)$", reader.optional(_STATUS) or "", re.MULTILINE)
    return reader.parsed_list("numa", _STATUS, found[1]) if found else None


def _node(reader: Reader, number: int, numbers: tuple[int, ...], allowed: tuple[int, ...] | None) -> NumaNode:
    folder, fact = f"{_NODE}/node{number}", f"numa.{number}"
    memory = kib_lines(reader.text(f"{fact}.memory", f"{folder}/meminfo") or "")
    return NumaNode(
        number=number,
        cpus=reader.cpu_list(f"{fact}.cpus", f"{folder}/cpulist") or (),
        memory_total_bytes=memory.get("MemTotal"),
        memory_free_bytes=memory.get("MemFree"),
        distances=_distances(reader, fact, f"{folder}/distance", numbers),
        memory_files_bytes=sum(files) if (files := [memory[f] for f in _FILES if f in memory]) else None,
        memory_allowed=allowed is None or number in allowed,
    )


def _distances(reader: Reader, fact: str, path: str, numbers: tuple[int, ...]) -> dict[int, int]:
    """Return the distances by node; the kernel writes one for each online node, in their order."""
    text = reader.text(f"{fact}.distances", path)
    if text is None:
        return {}
    values = [whole_number(word) for word in text.split()]
    if len(values) != len(numbers) or None in values:
        reader.gap(f"{fact}.distances", path, f"{len(values)} values for {len(numbers)} nodes: {text!r}")
        return {}
    return {node: value for node, value in zip(numbers, values, strict=True) if value is not None}
