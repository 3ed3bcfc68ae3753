"""What the kernel's settings and counters say of this node. Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class IdleState:
    """A state in which a CPU sleeps, and how long it takes to wake from it. disabled: the kernel may not use it."""

    name: str
    latency_us: int
    disabled: bool


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """None, or absent from a mapping: this kernel does not have it, or a recording does not.

    thp: the chosen words of transparent_hugepage/{enabled,defrag}. edac: errors by "corrected" and "uncorrected" since
    boot. pids: (in use, most) of the tightest cgroup on the path; most is None without limit. stalled_percent: share of
    the last minute in which all tasks waited, by "memory" and "io". command_line: the kernel's. noexec: mount points of
    kboot's folders that refuse to run files. modules: loaded ones of those that matter here.
    conntrack: (entries, most). tcp_receive_bytes: the most one connection may buffer. idle_states: of the first CPU.
    """

    thp: Mapping[str, str] = field(default_factory=dict)
    numa_balancing: int | None = None
    overcommit: int | None = None
    max_map_count: int | None = None
    edac: Mapping[str, int] = field(default_factory=dict)
    pids: tuple[int, int | None] | None = None
    stalled_percent: Mapping[str, float] = field(default_factory=dict)
    command_line: tuple[str, ...] | None = None
    noexec: tuple[str, ...] | None = None
    modules: frozenset[str] = frozenset()
    conntrack: tuple[int, int] | None = None
    tcp_receive_bytes: int | None = None
    idle_states: tuple[IdleState, ...] = ()
