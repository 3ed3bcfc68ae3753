"""What did doctor learn by asking sources, trying calls and running the vendor's programs? Frozen values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class DiagTest:
    """One test of a vendor's diagnostic. status: its own word, "Pass", "Fail", "Warn", "Skip". about: what it says."""

    name: str
    status: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class AllReduce:
    """NCCL's all-reduce over all GPUs of a node at the largest size. bus_gb_s: 10^9 bytes a second ("busbw")."""

    gpus: int
    size_bytes: int
    bus_gb_s: float
    wrong: int


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker of the engine that serves now. pid: None where no process of it could be told.

    threads: planned. tasks: kernel threads it has; stray: those that may run elsewhere. variables: of its environment,
    those that set numbers of threads, with what was planned → found, where the two differ. off_plan: sentences.
    """

    worker: int
    pid: int | None
    threads: int
    tasks: int
    stray: int
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    off_plan: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerState:
    """The fabric manager: its program's version, systemd's word for its unit, and how often systemd started it again
    since boot; None where the program or systemd did not say.
    """

    version: str | None = None
    active: str | None = None
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class WeightShare:
    """The layout of this node as its checkpoint's headers have it, on the GPU with the least free memory.

    division: "DP8+EP". largest_bytes, smallest_bytes: weights of the rank that holds most and least. reserve_bytes:
    what neither weights nor KV cache get. serves: there is room for one sequence of the length asked for.
    """

    layout: str
    division: str
    largest_bytes: int
    smallest_bytes: int
    reserve_bytes: int
    room_bytes: int
    serves: bool
