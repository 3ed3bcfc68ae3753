"""Finds the live workers of an engine, keeps each to its CPUs, and proves what each has.

CPUs and thread counts are set before exec; this is for engines that start their workers with other masks, and the proof
for all. A process is never kept to fewer CPUs than it has OpenMP threads: that made one 43 to 52 times slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from kboot.checks.words import count
from kboot.facts.cgroup import throttling
from kboot.facts.driver import ask_driver
from kboot.facts.process import Scope, pids_of, read_process, title_of
from kboot.facts.reader import Reader
from kboot.host.tasks import pin_task
from kboot.report.workers import Seen, check_worker
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.handoff import WorkerPlan
    from kboot.host.types import Host
    from kboot.report.types import WorkerCheck

_NVML_TIMEOUT_S = 5.0
_ROUNDS = 10  # a process that starts threads faster than ten passes is looked at again by the next sweep
_RANK = re.compile(r"_([A-Za-z]+)(\d+)")
_SPLITS = ("DP", "PP", "PCP", "TP")  # what sets a worker's place on a node; expert ranks follow from these


@dataclass(frozen=True, slots=True)
class Watched:
    """Workers to look after. titles: regular expressions, the first that any process has counts.

    openmp_threads: what the engine's environment gives each; None = it was left to the libraries. drops_to_one: the
    engine goes over to one thread when it has loaded, and says so in its log.
    """

    plans: tuple[WorkerPlan, ...]
    titles: tuple[str, ...]
    scope: Scope
    openmp_threads: int | None
    drops_to_one: bool = False


@dataclass(frozen=True, slots=True)
class Pinned:
    """moved: threads that were given their CPUs. refused: why others were not; empty when all have them."""

    moved: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The process of one worker."""

    pid: int
    by: Literal["nvml", "title"]


def watched(plans: Sequence[WorkerPlan], titles: Sequence[str], env: Mapping[str, str], scope: Scope) -> Watched:
    """Return what is to be looked after. env: what the engine's processes are given."""
    asked = env.get("OMP_NUM_THREADS", "").split(",")[0]
    threads = int(asked) if asked.isdecimal() else None
    marked = env.get("VLLM_OMP_NUM_THREADS_SET_BY_VLLM") == "1"
    plans = tuple(replace(plan, threads=plan.threads if threads is None else threads) for plan in plans)
    return Watched(plans, tuple(titles), scope, threads, marked)


def find_workers(what: Watched, host: Host, nvml: Mapping[str, Any]) -> Mapping[int, Found]:
    """Return the process of each worker that can be told: by the GPU it works on, else by its title.

    nvml: answers of `Host.nvml`; empty where it was not asked. In a container it may know other numbers than ours.
    """
    pids = pids_of(host, what.scope)
    titles = {pid: title_of(host, pid) for pid in pids}
    workers = _with_title(titles, what.titles)
    by_title = _by_title(workers, len(what.plans))
    on_gpu = _pids_by_gpu(nvml)
    found: dict[int, Found] = {}
    for position, plan in enumerate(what.plans):
        on = [pid for pid in on_gpu.get(plan.gpu, ()) if pid in titles]
        on = [pid for pid in on if pid in workers] or on
        if len(on) == 1:
            found[plan.worker] = Found(on[0], "nvml")
        elif position in by_title:
            found[plan.worker] = Found(by_title[position], "title")
    return found


def pin_workers(what: Watched, host: Host, found: Mapping[int, Found]) -> Mapping[int, Pinned]:
    """Keep every thread of each worker to its planned CPUs; return what was done, by worker."""
    return {
        plan.worker: _pin(found[plan.worker].pid, plan.cpus, what.openmp_threads, host)
        for plan in what.plans
        if plan.worker in found
    }


def narrow_workers(
    what: Watched, host: Host, found: Mapping[int, Found], reported: Mapping[int, int]
) -> tuple[Watched, Mapping[int, Pinned]]:
    """Keep workers that have loaded to the fast CPUs of their share; return the plan that holds from now on.

    reported: threads by worker that said in their log what they loaded with. Only an engine that says in the same line
    that it goes on with one thread is narrowed.
    """
    plans, done = [], {}
    for plan in what.plans:
        if what.drops_to_one and plan.serve_cpus and plan.worker in found and plan.worker in reported:
            pinned = done[plan.worker] = _pin(found[plan.worker].pid, plan.serve_cpus, 1, host)
            plans.append(plan if pinned.refused else replace(plan, cpus=plan.serve_cpus))
        else:
            plans.append(plan)
    return replace(what, plans=tuple(plans)), done


def check_workers(
    what: Watched,
    host: Host,
    found: Mapping[int, Found],
    reported: Mapping[int, int] | None = None,
    pinned: Mapping[int, Pinned] | None = None,
) -> tuple[WorkerCheck, ...]:
    """Look at every worker and compare it with its plan; changes nothing."""
    checks = []
    for plan in what.plans:
        at = found.get(plan.worker)
        process = read_process(host, at.pid) if at else None
        seen = None
        if at is not None and process is not None:
            stopped = throttling(Reader(host), at.pid)
            seen = Seen(
                process,
                at.by,
                (reported or {}).get(plan.worker),
                stopped.throttled_s if stopped else None,
                (pinned or {}).get(plan.worker, Pinned(0)).refused,
            )
        checks.append(check_worker(plan, seen))
    return tuple(checks)


def live_workers(
    plans: Sequence[WorkerPlan],
    titles: Sequence[str],
    env: Mapping[str, str],
    host: Host,
    scopes: Sequence[Scope],
    known: Sequence[WorkerCheck],
    say: Callable[[str], None] | None = None,
) -> tuple[WorkerCheck, ...]:
    """Look at the workers of an engine that runs in one of these scopes; () where none does.

    known: what was found when it answered, for what only its log told. say: told where the GPU driver hangs, which then
    has to be told which worker is which; None = it is not asked.
    """
    said = {check.pid: check.reported_threads for check in known if check.pid and check.reported_threads is not None}
    for scope in scopes:
        if not pids_of(host, scope):
            continue
        what = watched(plans, titles, env, scope)
        found = find_workers(what, host, {})
        if say is not None and len(found) < len(plans) and any(plan.gpu is not None for plan in plans):
            found = find_workers(what, host, ask_driver(host, _NVML_TIMEOUT_S, say))
        reported = {worker: said[at.pid] for worker, at in found.items() if at.pid in said}
        return check_workers(what, host, found, reported)
    return ()


def reported_threads(what: Watched, host: Host, found: Mapping[int, Found], said: Mapping[str, int]) -> dict[int, int]:
    """Return by worker what the engine's log said of its threads. said: by process as the log names it."""
    told = {}
    for plan in what.plans:
        if plan.worker in found:
            title = title_of(host, found[plan.worker].pid)
            named = [threads for name, threads in said.items() if name and title.endswith(f":{name}")]
            if not named and len(what.plans) == len(said) == 1:
                named = list(said.values())
            if named:
                told[plan.worker] = named[0]
    return told


def _pin(pid: int, cpus: Sequence[int], openmp_threads: int | None, host: Host) -> Pinned:
    """Pin the threads of a process that are not; go on until none is left, for new ones may have begun meanwhile."""
    wanted, moved = frozenset(cpus), 0
    for _ in range(_ROUNDS):
        process = read_process(host, pid)
        stray = [task for task in process.tasks if not task.cpus <= wanted] if process else []
        if not process or not stray:
            return Pinned(moved)
        threads = len(process.cpus) if openmp_threads is None else openmp_threads
        if threads > len(wanted):
            return Pinned(moved, f"with {threads} OpenMP threads on {count(len(wanted), 'CPU')} they would only spin")
        refused = {pin_task(task.tid, wanted) for task in stray} - {""}
        if refused:
            return Pinned(moved, "; ".join(sorted(refused)))
        moved += len(stray)
    return Pinned(moved, "it starts threads faster than they can be pinned")


def _with_title(titles: Mapping[int, str], patterns: Sequence[str]) -> dict[int, str]:
    for pattern in patterns:
        having = {pid: title for pid, title in titles.items() if re.search(pattern, title)}
        if having:
            return having
    return {}


def _by_title(workers: Mapping[int, str], count: int) -> dict[int, int]:
    """Return the process at each place; by rank when all are there, else by the one degree that a title names."""
    ranks = {pid: _ranks(title) for pid, title in workers.items()}
    if len(workers) == count and len(set(ranks.values())) == count:
        return dict(enumerate(sorted(ranks, key=lambda pid: ranks[pid])))
    single = {pid: values[0] for pid, values in ranks.items() if len(values) == 1}
    places = {place[1] % count: pid for pid, place in single.items()}
    return places if len(places) == len(single) else {}


def _ranks(title: str) -> tuple[tuple[int, int], ...]:
    """Return (which degree, rank) of those that a title names, outermost first."""
    named = {name.upper(): int(number) for name, number in _RANK.findall(title)}
    return tuple((place, named[name]) for place, name in enumerate(_SPLITS) if name in named)


def _pids_by_gpu(nvml: Mapping[str, Any]) -> dict[int | None, tuple[int, ...]]:
    gpus = nvml.get("gpus")
    found: dict[int | None, tuple[int, ...]] = {}
    for gpu in gpus if isinstance(gpus, list) else ():
        if isinstance(gpu, dict) and isinstance(gpu.get("index"), int) and isinstance(gpu.get("procs"), list):
            found[gpu["index"]] = tuple(p["pid"] for p in gpu["procs"] if isinstance(p, dict) and "pid" in p)
    return found
