"""What an engine adapter answers: pure values that others carry out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """What one GPU worker gets.

    worker: rank on this node. gpu: index, None on machines without GPUs. cpus: its own, disjoint from the others'.
    threads: OpenMP threads ≤ len(cpus). memory_node: NUMA node its memory should come from; None = leave.
    device: what CUDA calls its GPU or MIG slice. serve_cpus: the faster ones among its CPUs, to serve on when it has
    loaded and works with one thread; empty = all of them.
    """

    worker: int
    gpu: int | None
    cpus: tuple[int, ...]
    threads: int
    memory_node: int | None
    reason: str
    device: str = ""
    serve_cpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CpuPlacement:
    """CPUs of this node, divided. housekeeping: front ends and the agent. notes: what could not be had, and why."""

    workers: tuple[WorkerShare, ...]
    housekeeping: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def threads(self) -> int:
        """Return the share every worker gets: the smallest, since engines take one number for all."""
        return min((w.threads for w in self.workers), default=1)


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable or flag with its reason; the reason is shown by `kboot plan`."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Name of a kernel-cache folder: readable, and complete in `factors` (name → value)."""

    name: str
    factors: Mapping[str, str]


_MADE_BY, _EXEC = "made_by", "kboot exec"


def of_command(key: CacheKey) -> CacheKey:
    """Return the key of a command line that `kboot exec -- CMD` starts; its name stays."""
    return CacheKey(key.name, {**key.factors, _MADE_BY: _EXEC})


def is_of_command(factors: Mapping[str, str]) -> bool:
    """Return whether a folder is a wrapped command line's: nobody knows when that is ready, so no mark says it."""
    return factors.get(_MADE_BY) == _EXEC


@dataclass(frozen=True, slots=True)
class LaunchAsk:
    """All an adapter needs besides facts and profile.

    model_path: the one stable serving path. cache_dir: root of this key's caches. node_rank: 0 on single nodes.
    bytecode_dir: of the engine's compiled Python; empty leaves it to the interpreter.
    """

    layout: LayoutAsk
    model_path: str
    cache_dir: str
    placement: CpuPlacement
    node_rank: int = 0
    head_address: str = "127.0.0.1"
    bytecode_dir: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the engine and how to know it serves.

    argv[0] is an absolute path. env: set on top of the inherited environment. unset: removed from it.
    health_url: None where the engine has no HTTP on this node (headless ranks).
    worker_titles: regular expressions of its workers' process titles.
    """

    engine: EngineName
    argv: tuple[str, ...]
    env: tuple[Setting, ...]
    unset: tuple[str, ...]
    flags: tuple[Setting, ...]
    health_url: str | None
    models_url: str | None
    completion_url: str | None
    served_name: str
    ready_timeout_s: int
    worker_titles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnginePhase:
    """A phase of the engine's own boot, recognised in its log.

    starts, ends: regular expressions, searched in log messages (without time, level and process). A phase with an
    empty `starts` begins with the engine's process.
    A group named `seconds` in `ends` carries the length as the engine measured it. together: it begins when the last
    rank says so, for what no rank can begin alone.
    """

    name: str
    starts: str
    ends: str
    together: bool = False


@dataclass(frozen=True, slots=True)
class CacheSign:
    """A log message that says whether a kernel cache held what was needed. says: regular expression."""

    cache: str
    hit: bool
    says: str


class Engine(Protocol):
    """Adapter of one serving engine. Pure: it starts nothing and reads nothing.

    failures: regular expressions of log messages that name a first cause, searched from the message's start.
    threads: regular expressions with a group `threads`: what a process says its OpenMP share was.
    """

    name: EngineName
    phases: tuple[EnginePhase, ...]
    failures: tuple[str, ...]
    cache_signs: tuple[CacheSign, ...]
    threads: tuple[str, ...]

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which this engine's kernel caches are kept."""
        ...

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the exact command line and environment.

        Raises:
            FactMissing: the engine is not installed, or the layout needs a fact that is a Gap.
        """
        ...
