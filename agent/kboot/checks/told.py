"""What did each GPU tell of one value, which did not, and which part does not have it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kboot.checks.types import Finding
from kboot.checks.words import some
from kboot.facts.health_types import GpuHealth
from kboot.facts.types import NodeFacts
from kboot.values import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Told(Generic[_T]):
    """values: by index of those that answered. unread: index → why, of those that should have."""

    values: Mapping[int, _T]
    unread: Mapping[int, str]
    nobody: Finding

    def rest(self, ok: str) -> Finding:
        """Return the answer where no value is bad: unknown with one unread, skip without any, else ok."""
        if self.unread:
            reasons = some(f"GPU {index}: {why}" for index, why in sorted(self.unread.items()))
            return Finding("unknown", f"not readable ({reasons})", wanted="an answer of every GPU")
        return Finding("ok", ok) if self.values else self.nobody


def told(facts: NodeFacts, field: str, value: Callable[[GpuHealth], _T | None]) -> Told[_T]:
    """Return what the GPUs say of a field of GpuHealth; nothing where NVML itself does not answer."""
    gpu = facts.gpu
    if gpu.nvml in ("no-library", "no-driver"):
        return Told({}, {}, Finding("skip", f"no GPU driver is loaded ({gpu.nvml})"))
    if gpu.nvml != "ok":
        return Told({}, {}, Finding("unknown", f"NVML did not answer ({gpu.nvml}): see gpu.nvml_responsive"))
    health = facts.health.gpus
    values = {each.index: found for each in health if (found := value(each)) is not None}
    unread = {each.index: each.refused[field] for each in health if field in each.refused}
    why = "this part or driver does not tell" if health else "no GPU was asked"
    return Told(values, unread, Finding("skip", why))


def virtual(facts: NodeFacts) -> bool:
    """Return whether the GPUs are lent to a virtual machine, which sees of its bus what the hypervisor shows."""
    return any(g.virtualization not in (None, "none") for g in facts.health.gpus)
