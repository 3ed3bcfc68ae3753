"""Which GPU workers of others share this node's CPUs with the workers that are planned?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kboot.cpulist import format_cpu_list
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import Gpu, NodeFacts


@dataclass(frozen=True, slots=True)
class Neighbours:
    """gpus: one worker each, whose part of the CPUs stays free. notes: who they are."""

    gpus: tuple[Gpu, ...]
    notes: tuple[str, ...]


def neighbours(facts: NodeFacts, own: Sequence[Gpu], usable: Sequence[int]) -> Neighbours:
    """Return the GPUs of this node that others work on, or may be about to.

    A process on a GPU that is not ours counts, unless it is kept to other CPUs than ours. GPUs that are hidden from us
    by CUDA_VISIBLE_DEVICES are somebody's (the siblings of an external load balancer see one GPU each), unless the
    CPUs were divided as well: a mask that leaves some out is such a division.
    """
    mine = {gpu.index for gpu in own}
    foreign = tuple(gpu for gpu in facts.gpu.gpus if gpu.index not in mine)
    busy = tuple(gpu for gpu in foreign if _pids(gpu, facts, usable))
    cpus_divided = len(usable) < len(set(facts.cpu.online) - set(facts.cpu.isolated))
    hidden = () if facts.gpu.visible is None or cpus_divided or not own else tuple(g for g in foreign if g not in busy)
    notes = []
    if busy:
        pids = ", ".join(str(pid) for pid in sorted({pid for gpu in busy for pid in _pids(gpu, facts, usable)}))
        notes.append(f"others work on {_gpus(busy)} (pid {pids}): their part of the CPUs stays free")
    if hidden:
        notes.append(f"CUDA_VISIBLE_DEVICES leaves {_gpus(hidden)} to others: their part of the CPUs stays free")
    return Neighbours((*busy, *hidden), tuple(notes))


def _pids(gpu: Gpu, facts: NodeFacts, usable: Sequence[int]) -> tuple[int, ...]:
    """Return the processes on a GPU that may run on our CPUs; one whose CPUs are not known may."""
    cpus_of = facts.gpu.cpus_of_pid
    return tuple(pid for pid in gpu.processes if pid not in cpus_of or set(cpus_of[pid]) & set(usable))


def _gpus(gpus: Sequence[Gpu]) -> str:
    return f"GPU {format_cpu_list(gpu.index for gpu in gpus)}"
