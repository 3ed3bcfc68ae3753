"""How are physical cores divided: which are kept aside, which go to whom, and which are faster than others?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import CpuFacts

Core = tuple[int, ...]
"""The logical CPUs (SMT siblings) of one physical core, in number order."""

_CORES_PER_HOUSEKEEPER = 32
"""One core in 32 is kept for front ends and the agent, on machines of at least 64 usable cores."""

# Priority Core Turbo of Xeon 6 for GPU servers: 2 CPUs of every 16 run faster, in every socket (vllm#43270).
_PRIORITY_MODELS = re.compile(r"\b(?:6776P|6774P|6962P)\b")
_PRIORITY_EVERY, _PRIORITY_FIRST = 16, 2


def cores_of(cpu: CpuFacts, usable: Iterable[int]) -> tuple[Core, ...]:
    """Group logical CPUs into physical cores, ordered by their first CPU; a CPU with no known core is its own."""
    members: dict[tuple[int, int], list[int]] = {}
    for number in sorted(usable):
        members.setdefault(cpu.core_of.get(number, (-1, number)), []).append(number)
    return tuple(sorted(tuple(cpus) for cpus in members.values()))


def priority_cpus(cpu: CpuFacts) -> frozenset[int]:
    """Return the CPUs that run faster than the others of this model; empty where all are alike."""
    if not _PRIORITY_MODELS.search(cpu.model):
        return frozenset()
    return frozenset(number for number in cpu.online if number % _PRIORITY_EVERY < _PRIORITY_FIRST)


def split_housekeeping(
    cores: Sequence[Core],
    node_of: Mapping[int, int],
    homes: Sequence[int | None],
    wanted: int,
    priority: frozenset[int],
) -> tuple[tuple[Core, ...], tuple[Core, ...]]:
    """Return the cores to keep aside, and those to divide among workers whose nodes are `homes`.

    wanted: CPUs to keep; -1 = chosen. Nodes without a worker give first, then those with most cores for each of theirs;
    priority cores are kept last. Every worker keeps a core at least.
    """
    count = min(_housekeepers(cores, wanted), max(0, len(cores) - len(homes)))
    workers = Counter(homes)
    left: dict[int, list[Core]] = {}
    for core in sorted(cores, key=lambda c: (c[0] in priority, c)):
        left.setdefault(node_of.get(core[0], 0), []).append(core)
    keep: list[Core] = []
    for _ in range(count):
        richest = max(left, key=lambda n: (bool(left[n]) and not workers[n], len(left[n]) / (workers[n] or 1), -n))
        keep.append(left[richest].pop(0))
    kept = set(keep)
    return tuple(keep), tuple(core for core in cores if core not in kept)


def _housekeepers(cores: Sequence[Core], wanted: int) -> int:
    if wanted < 0:
        return len(cores) // _CORES_PER_HOUSEKEEPER if len(cores) >= 2 * _CORES_PER_HOUSEKEEPER else 0
    per_core = max(1, len(cores[0])) if cores else 1
    return -(-wanted // per_core)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Cores and the places in `homes` that divide them."""

    cores: tuple[Core, ...]
    places: tuple[int, ...]


def divide(
    cores: Sequence[Core], node_of: Mapping[int, int], homes: Sequence[int | None], priority: frozenset[int]
) -> list[Core] | None:
    """Return one CPU set for each home, disjoint; None when there are fewer cores than homes.

    Where one node has fewer cores than workers, all cores of the machine are divided among all.
    """
    known = sorted({home for home in homes if home is not None})
    pools = [
        _Pool(
            tuple(core for core in cores if node_of.get(core[0], 0) == node),
            tuple(place for place, home in enumerate(homes) if home == node),
        )
        for node in known
    ]
    homeless = tuple(place for place, home in enumerate(homes) if home is None)
    if homeless:
        rest = tuple(core for core in cores if node_of.get(core[0], 0) not in known)
        pools.append(_Pool(rest, homeless))
    if any(len(pool.cores) < len(pool.places) for pool in pools):
        pools = [_Pool(tuple(cores), tuple(range(len(homes))))]
        if len(cores) < len(homes):
            return None
    sets: list[Core] = [()] * len(homes)
    for pool in pools:
        for place, part in zip(pool.places, _parts(pool.cores, len(pool.places), priority), strict=True):
            sets[place] = part
    return sets


def _parts(cores: Sequence[Core], count: int, priority: frozenset[int]) -> list[Core]:
    """Return equal parts, neighbours together; priority cores are divided by themselves where all can have one."""
    fast = [core for core in cores if core[0] in priority]
    groups = [fast, [core for core in cores if core[0] not in priority]] if len(fast) >= count else [list(cores)]
    sizes = [len(group) // count for group in groups]
    return [
        flatten(core for group, size in zip(groups, sizes, strict=True) for core in group[n * size : (n + 1) * size])
        for n in range(count)
    ]


def flatten(cores: Iterable[Core]) -> Core:
    """Return the CPUs of cores, in number order."""
    return tuple(sorted(cpu for core in cores for cpu in core))
