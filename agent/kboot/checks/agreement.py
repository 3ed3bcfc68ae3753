"""Do all nodes of a fleet say the same of what must be the same, and if not, which of them is the odd one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from kboot.checks.words import some
from kboot.facts.fleet_types import NodeStatement
from kboot.quantities import show_memory
from kboot.values import dataclass

TOLERATED = frozenset({"kboot"})
"""What may differ while an engine starts: only the agents' own version."""

NOT_STATED = "not stated"
_WORDS = {
    "manifest": "list of files",
    "gpu_arch": "GPU architecture",
    "gpu_name": "GPUs",
    "cuda": "CUDA version",
    "engine_version": "engine's version",
    "kboot": "version of kboot",
    "caches": "kernel caches",
    "network": "network",
}
_MEMORY_PART = 0.05
_MEMORY_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not the same on all nodes.

    usual: what most nodes say; empty where no value has a majority, as with two nodes. values: of the odd nodes, by
    name; of all nodes without a majority. stops: no engine should be started so.
    """

    what: str
    usual: str
    values: Mapping[str, str]
    stops: bool = True


def differences(statements: Sequence[NodeStatement]) -> tuple[Difference, ...]:
    """Return every value on which the nodes differ, in the order in which they are stated; memory last."""
    keys = dict.fromkeys(key for statement in statements for key in statement.values)
    found = [_difference(key, statements) for key in keys]
    return tuple(each for each in (*found, _memory(statements)) if each is not None)


def sentence(difference: Difference) -> str:
    """Return a difference in words, the odd node first: "driver: node3 has 570.86.15, the others have 580.95.05"."""
    what = _WORDS.get(difference.what, difference.what.replace("_", " "))
    if not difference.usual:
        return f"{what}: {some((f'{name} has {value}' for name, value in difference.values.items()), 6)}"
    odd = some((f"{name} has {value}" for name, value in difference.values.items()), 4)
    return f"{what}: {odd}, the others have {difference.usual}"


def odd_nodes(found: Sequence[Difference]) -> frozenset[str]:
    """Return the nodes that differ from a majority."""
    return frozenset(name for each in found if each.usual for name in each.values)


def _difference(key: str, statements: Sequence[NodeStatement]) -> Difference | None:
    values = {s.name: s.values.get(key, NOT_STATED) for s in statements}
    counted = Counter(values.values()).most_common(1)
    usual, number = counted[0] if counted else ("", 0)
    if number == len(values):
        return None
    if 2 * number <= len(values):
        return Difference(key, "", values, key not in TOLERATED)
    return Difference(key, usual, {n: v for n, v in values.items() if v != usual}, key not in TOLERATED)


def _memory(statements: Sequence[NodeStatement]) -> Difference | None:
    """Engines divide what is free by the worst GPU: one node with less makes every node's share less, or fails."""
    free = {s.name: s.gpu_free_bytes for s in statements if s.gpu_free_bytes is not None}
    if len(free) < 2:
        return None
    middle = int(median(free.values())) if len(free) > 2 else max(free.values())
    least = middle - max(_MEMORY_BYTES, int(middle * _MEMORY_PART))
    odd = {name: show_memory(size) for name, size in free.items() if size < least}
    if not odd:
        return None
    if len(free) == 2:
        return Difference("free GPU memory", "", {name: show_memory(size) for name, size in free.items()})
    return Difference("free GPU memory", show_memory(middle), odd)
