"""Runs the phases of a plan: side by side where `Phase.after` allows, each by the executor of its action type."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeVar, assert_never

from kboot.apply.origin import lazy_streams
from kboot.apply.outcome import skipped
from kboot.apply.pace import FULL_PACE, Pace, Throttle
from kboot.events import Emit, PhaseFinished, PhaseStarted
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.plan.types import (
    CompileBytecode,
    FetchFile,
    FetchShare,
    Phase,
    PhaseName,
    PrepareCache,
    PublishCheckpoint,
    QuarantineCache,
    StartEngine,
    VerifyFile,
    WarmEngine,
    WarmFile,
    WriteHandoff,
    WriteSetting,
)
from kboot.report.types import Outcome, Span
from kboot.values import dataclass

if TYPE_CHECKING:
    from concurrent.futures import Future

    from kboot.apply.exchange import Exchange
    from kboot.apply.share_fetch import Sharing
    from kboot.checkpoint import Listing
    from kboot.profile.types import Profile
    from kboot.sources.types import Source
    from kboot.store.store import Store

_WORTH_ASKING_BYTES = 1 << 30
PhaseStatus = Literal["done", "degraded", "failed", "interrupted", "skipped"]

MAY_FAIL: frozenset[PhaseName] = frozenset({"tune", "warm"})
"""Phases without which the engine still serves, only slower."""
_UNDONE: frozenset[PhaseStatus] = frozenset({"failed", "interrupted", "skipped"})


@dataclass(frozen=True, slots=True)
class Tools:
    """What the executors work with.

    sources: none where nothing may be asked of anybody; files found wrong are mended from them.
    cpus: how many CPUs this process may use. warm_budget_bytes: page cache that warming may take.
    write_handoff: writes the signed record; it is given by the boot, which knows the whole plan. environ: kboot's own.
    exchange: for each fetch, with the other nodes of a fleet; None without one. sharing: the same for shares of files.
    """

    profile: Profile
    listing: Listing
    store: Store
    sources: Sequence[Source]
    cpus: int
    warm_budget_bytes: int
    write_handoff: Callable[[WriteHandoff], Outcome]
    emit: Emit
    stop: threading.Event
    environ: Mapping[str, str] = field(default_factory=dict)
    pace: Pace = FULL_PACE
    exchange: Callable[[], Exchange | None] = lambda: None
    sharing: Sharing | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the phases: a span for each that had work, and every outcome. status: failed if any is undone."""

    spans: tuple[Span, ...]
    outcomes: tuple[Outcome, ...]
    status: PhaseStatus


_Done = tuple[tuple[Span, ...], tuple[Outcome, ...]]


def run(phases: Sequence[Phase], tools: Tools) -> Ran:
    """Run the phases in the order that `after` gives; a failed phase leaves those that need it undone.

    Phases that only make serving faster (tune, warm) may fail: the boot is then degraded, not stopped.
    """
    from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

    status: dict[PhaseName, PhaseStatus] = {}
    spans: list[Span] = []
    outcomes: list[Outcome] = []
    waiting = list(phases)
    known = {phase.name for phase in phases}
    running: dict[Future[_Done], Phase] = {}
    left: set[PhaseName] = set()
    with ThreadPoolExecutor(max(1, len(phases)), thread_name_prefix="phase") as pool:
        while waiting or running:
            for phase in [p for p in waiting if all(name in status for name in p.after if name in known)]:
                waiting.remove(phase)
                if blocked := _blocked(phase, status):
                    left.add(phase.name)
                if blocked or tools.stop.is_set():
                    running[pool.submit(_leave, phase, "an earlier phase failed or kboot was stopped")] = phase
                else:
                    running[pool.submit(run_phase, phase, tools)] = phase
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                phase = running.pop(future)
                new_spans, results = future.result()
                # One without actions is no less left: what comes after it needs what it would have waited for.
                status[phase.name] = "skipped" if phase.name in left else _status_of(phase.name, results, tools.stop)
                outcomes.extend(results)
                spans.extend(new_spans)
    return Ran(tuple(sorted(spans, key=lambda s: s.start_unix_s)), tuple(outcomes), _overall(status))


def _blocked(phase: Phase, status: dict[PhaseName, PhaseStatus]) -> bool:
    return any(status.get(name) in _UNDONE and name not in MAY_FAIL for name in phase.after)


def _status_of(name: PhaseName, results: Sequence[Outcome], stop: threading.Event) -> PhaseStatus:
    found = {o.status for o in results}
    if found == {"skipped"}:
        return "skipped"
    if name in MAY_FAIL:
        return "degraded" if "failed" in found else "done"
    if stop.is_set() and found & {"failed", "skipped"}:
        return "interrupted"
    return "failed" if "failed" in found else "done"


def _overall(status: dict[PhaseName, PhaseStatus]) -> PhaseStatus:
    found = set(status.values())
    return "failed" if found & _UNDONE else "degraded" if "degraded" in found else "done"


def _leave(phase: Phase, why: str) -> _Done:
    return (), tuple(skipped(phase.name, action, why) for action in phase.actions)


def run_phase(phase: Phase, tools: Tools) -> _Done:
    """Run one phase; its outcomes stand in the order of its actions, and it has a span if it had work."""
    if not phase.actions:
        return (), ()
    started_unix_s, clock_s = run_unix_s(), monotonic_s()
    tools.emit(PhaseStarted(phase.name, len(phase.actions), bytes_of(phase)))
    results = _execute(phase, tools)
    seconds = monotonic_s() - clock_s
    done_bytes = sum(o.size_bytes for o in results)
    status = _status_of(phase.name, results, tools.stop)
    tools.emit(PhaseFinished(phase.name, status, seconds, done_bytes))
    span = Span(phase.name, "kboot", started_unix_s, started_unix_s + seconds, done_bytes, status)
    return (span,), results


def bytes_of(phase: Phase) -> int:
    """Return how many bytes a phase will move or read."""
    total = 0
    for action in phase.actions:
        match action:
            case FetchFile():
                total += action.file.size_bytes - action.have_bytes
            case FetchShare():
                total += action.left_bytes
            case VerifyFile(mode="full"):
                total += action.file.size_bytes
            case WarmFile():
                total += action.size_bytes - action.resident_bytes
            case _:
                pass
    return total


_A = TypeVar("_A")


def _of(phase: Phase, kind: type[_A]) -> tuple[_A, ...]:
    return tuple(action for action in phase.actions if isinstance(action, kind))


def _execute(phase: Phase, tools: Tools) -> tuple[Outcome, ...]:
    """Hand the actions to the executor of their type; those of one type stand together and are done together."""
    kinds = [tuple(members) for _, members in groupby(phase.actions, key=type)]
    return tuple(outcome for kind in kinds for outcome in _execute_kind(replace(phase, actions=kind), tools))


def _execute_kind(phase: Phase, tools: Tools) -> tuple[Outcome, ...]:
    """Each executor is loaded when it has something to do; most have not in a boot of a prepared node."""
    profile, store, emit, stop = tools.profile, tools.store, tools.emit, tools.stop
    match phase.actions[0]:
        case WriteSetting():
            from kboot.apply.settings import write_settings

            return write_settings(_of(phase, WriteSetting))
        case PrepareCache():
            from kboot.apply.cache_seed import Seeding
            from kboot.apply.caches import prepare_cache

            seeding = Seeding(tools.environ, emit, stop)
            return tuple(prepare_cache(action, seeding) for action in _of(phase, PrepareCache))
        case QuarantineCache():
            from kboot.apply.cache_quarantine import quarantine

            return quarantine(_of(phase, QuarantineCache))
        case CompileBytecode():
            from kboot.apply.bytecode import compile_bytecode

            compiling = _of(phase, CompileBytecode)
            return tuple(compile_bytecode(action, tools.cpus, tools.environ, emit) for action in compiling)
        case WarmEngine():
            from kboot.apply.warm_engine import warm_engine

            return tuple(warm_engine(phase.name, a, tools.environ, emit, stop) for a in _of(phase, WarmEngine))
        case FetchFile():
            return _fetch(_of(phase, FetchFile), tools)
        case FetchShare():
            return _fetch_shares(_of(phase, FetchShare), tools)
        case VerifyFile():
            from kboot.apply.verify import threads_for, verify_files

            actions, may_mend = _of(phase, VerifyFile), bool(tools.sources)
            threads = profile.verify.threads or _lazy_streams(actions, tools)
            threads = threads or threads_for(actions, tools.listing, store, tools.cpus)
            outcomes = verify_files(actions, tools.listing, store, threads, emit, stop, may_mend, tools.pace)
            if not may_mend or stop.is_set():
                return outcomes
            from kboot.apply.mend import mend

            return mend(actions, outcomes, lambda wrong: _fetch(wrong, tools), emit)
        case WarmFile():
            from kboot.apply.warm import THREADS, warm_files

            cold, budget_bytes = _of(phase, WarmFile), tools.warm_budget_bytes
            threads = _lazy_streams(cold, tools) or THREADS
            return warm_files(cold, tools.listing, store, budget_bytes, emit, stop, threads)
        case PublishCheckpoint() as action:
            from kboot.apply.publish import publish

            return (publish(action, store, emit, enforce=profile.verify.fs_verity),)
        case WriteHandoff() as action:
            return (tools.write_handoff(action),)
        case StartEngine():
            raise ValueError("the boot itself starts the engine: it outlives the plan")
        case other:
            assert_never(other)


def _lazy_streams(actions: Sequence[VerifyFile | WarmFile], tools: Tools) -> int | None:
    """Return how many files to read at once on a volume that still fetches its blocks; a scrub leaves it its time."""
    files = [a.file for a in actions if not isinstance(a, VerifyFile) or a.mode == "full"]
    if tools.pace.background or sum(file.size_bytes for file in files) < _WORTH_ASKING_BYTES:
        return None
    return lazy_streams([tools.store.content_path(tools.listing.repo, file) for file in files], tools.emit)


def _fetch(actions: Sequence[FetchFile], tools: Tools) -> tuple[Outcome, ...]:
    from kboot.apply.fetch import fetch_files

    ask, emit, stop = tools.profile.fetch, tools.emit, tools.stop
    exchange = tools.exchange() if tools.sources else None
    return fetch_files(actions, tools.listing, tools.sources, tools.store, ask, emit, stop, tools.cpus, exchange)


def _fetch_shares(actions: Sequence[FetchShare], tools: Tools) -> tuple[Outcome, ...]:
    """Fetch this node's part of files from nodes that have them; whole and from the sources what none of them gives."""
    if tools.sharing is None:  # the other nodes cannot be asked
        return _fetch([FetchFile(a.file, 0, "no other node can be asked for a part of it") for a in actions], tools)
    from kboot.apply.share_fetch import fetch_shares

    throttle = Throttle(tools.profile.fetch.max_rate_mib_s << 20, tools.stop)
    alone = replace(tools, exchange=lambda: None)

    def whole(files: Sequence[FetchFile]) -> tuple[Outcome, ...]:
        return _fetch(files, alone)

    return fetch_shares(actions, tools.listing, tools.store, tools.sharing, whole, throttle, tools.emit, tools.stop)
