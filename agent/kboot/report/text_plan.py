"""How does a plan read: what would change, how much of it, and why? Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from kboot.checks.words import count
from kboot.cpulist import format_cpu_list
from kboot.plan.choice import is_left_out
from kboot.plan.types import Action, FetchFile, FetchShare, Phase, Plan, VerifyFile, WarmFile, WriteSetting, describe
from kboot.quantities import show_bytes
from kboot.report.render_text import Paint, join, no_paint, table, wrap
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.types import CpuPlacement, Launch, WorkerShare

_VERBS = {FetchFile: "fetch", FetchShare: "fetch this node's part of", VerifyFile: "verify", WarmFile: "warm"}
_FileAction = FetchFile | FetchShare | VerifyFile | WarmFile
_ManyAction = _FileAction | WriteSetting


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring actions of one kind and one reason. size_bytes: what is left to move or read."""

    title: str
    reason: str
    actions: tuple[Action, ...]
    size_bytes: int


def group_actions(actions: Iterable[Action]) -> tuple[Group, ...]:
    """Return actions in order, those of many files of one kind and reason as one group."""
    groups = []
    for _, members in groupby(actions, key=_alike):
        found = tuple(members)
        groups.append(Group(_title(found), found[0].reason, found, sum(left_bytes(a) for a in found)))
    return tuple(groups)


def left_bytes(action: Action) -> int:
    """Return the bytes this action still has to move or read."""
    match action:
        case FetchFile():
            return max(0, action.file.size_bytes - action.have_bytes)
        case FetchShare():
            return action.left_bytes
        case WarmFile():
            return max(0, action.size_bytes - action.resident_bytes)
        case VerifyFile():
            return action.file.size_bytes if action.mode == "full" else 0
        case _:
            return 0


def plan_text(plan: Plan, *, verbose: bool = False, paint: Paint = no_paint) -> str:
    """Return the plan for a person; verbose: every file, every variable."""
    lines = [*(paint(line, "strong") for line in wrap(_headline(plan))), ""]
    lines += table(_summary(plan))
    for before, phase in zip((None, *plan.phases), plan.phases, strict=False):
        close = before is not None and not before.actions and not phase.actions
        lines += [*([] if close else [""]), *_phase_lines(phase, verbose, paint)]
    if verbose or _starts(plan):
        lines += ["", *_launch_lines(plan.launch, verbose, paint)]
    lines += _notes("warnings", plan.warnings, paint)
    lines += _notes("not readable here", [f"{g.fact}: {g.reason} ({g.source})" for g in plan.gaps], paint)
    return join(lines)


def placement_rows(placement: CpuPlacement) -> list[tuple[str, str]]:
    """Return the CPU plan as rows of a table; workers alike in all but their CPUs share a row."""
    rows = []
    for (size, threads, _), members in groupby(placement.workers, key=_share_kind):
        shares = tuple(members)
        what = f"{count(size, 'CPU')}, {count(threads, 'thread')} each"
        rows.append((_worker_names(shares), f"{what}: {_cpu_sets(shares)}"))
    if placement.housekeeping:
        rows.append(("front ends", f"CPUs {format_cpu_list(placement.housekeeping)}"))
    return rows


def _headline(plan: Plan) -> str:
    if not plan.actions and any(is_left_out(p) for p in plan.phases):
        return f"plan for {plan.profile}: nothing to do in the phases that are not left out"
    if not plan.actions:
        return f"plan for {plan.profile}: nothing to do, this node is ready"
    moved = sum(left_bytes(a) for a in plan.actions if isinstance(a, FetchFile | FetchShare))
    fetch = f", {show_bytes(moved)} to fetch" if moved else ""
    return f"plan for {plan.profile}: {count(len(plan.actions), 'action')}{fetch}"


def _summary(plan: Plan) -> list[tuple[str, str]]:
    layout, listing, parallel = plan.layout, plan.listing, plan.layout.parallel
    degrees = [f"{n} {d}" for n, d in _degrees(parallel.data, parallel.tensor, parallel.pipeline)]
    degrees += ["expert parallel"] if parallel.expert else []
    gpus = "no GPU" if layout.gpus_per_node == 0 else f"{layout.gpus_per_node}x {layout.gpu}"
    nodes = f" on each of {layout.nodes} nodes" if layout.nodes > 1 else ""
    origin = listing.origin if listing.revision == listing.commit else f"{listing.revision}, {listing.origin}"
    return [
        ("layout", f"{layout.name}: {gpus}{nodes}, {', '.join([layout.engine, *degrees])}"),
        ("checkpoint", f"{listing.repo} at {listing.commit[:12]} ({origin})"),
        ("files", f"{count(len(listing.files), 'file')}, {show_bytes(listing.size_bytes)}{_skipped(plan)}"),
        ("verify", plan.verify_mode),
        ("kernel cache", plan.cache_key.name),
        ("serve from", plan.model_path),
        *placement_rows(plan.placement),
    ]


def _degrees(data: int, tensor: int, pipeline: int) -> list[tuple[str, int]]:
    return [(n, d) for n, d in (("data", data), ("tensor", tensor), ("pipeline", pipeline)) if d > 1]


def _skipped(plan: Plan) -> str:
    return f"; {len(plan.listing.skipped)} of the repository not wanted" if plan.listing.skipped else ""


def _phase_lines(phase: Phase, verbose: bool, paint: Paint) -> list[str]:
    if not phase.actions:
        return wrap(phase.note or "nothing to do", f"{phase.name:<9}")
    groups = group_actions(phase.actions)
    lines = [f"{paint(f'{phase.name:<9}', 'strong')}{_phase_size(phase, groups)}"]
    for group in groups:
        lines += wrap(_group_title(group), "  ")
        if len(group.actions) > 1:
            names = sorted(_file_path(a) for a in group.actions)
            lines += wrap(f"{names[0]} … {names[-1]}", "    ")
        lines += wrap(group.reason, "    why: ")
        if verbose and len(group.actions) > 1:
            lines += table([(_file_path(a), _left(a)) for a in group.actions], 6)
    return lines


def _phase_size(phase: Phase, groups: Sequence[Group]) -> str:
    total = sum(g.size_bytes for g in groups)
    size = f", {show_bytes(total)}" if total else ""
    after = f" (after {', '.join(phase.after)})" if phase.after else ""
    return f"{count(len(phase.actions), 'action')}{size}{after}"


def _group_title(group: Group) -> str:
    size = f", {show_bytes(group.size_bytes)}" if group.size_bytes else ""
    return f"{group.title}{size}"


def _left(action: Action) -> str:
    return show_bytes(left_bytes(action)) if isinstance(action, _FileAction) else ""


def _alike(action: Action) -> tuple[str, ...]:
    """Return what neighbours must share to be one group; what there is one of stays apart."""
    match action:
        case WriteSetting():
            return type(action).__name__, action.reason, action.value, action.before
        case FetchFile() | FetchShare() | VerifyFile() | WarmFile():
            return type(action).__name__, action.reason
        case _:
            return type(action).__name__, action.reason, describe(action)


def _title(actions: tuple[Action, ...]) -> str:
    first = actions[0]
    if len(actions) == 1 or not isinstance(first, _ManyAction):
        return describe(first)
    if isinstance(first, WriteSetting):
        return f"set {count(len(actions), 'setting')} = {first.value} (now {first.before})"
    return f"{_VERBS[type(first)]} {count(len(actions), 'file')}"


def _file_path(action: Action) -> str:
    match action:
        case WriteSetting():
            return action.path
        case FetchFile() | FetchShare() | VerifyFile() | WarmFile():
            return action.file.path
        case _:
            return describe(action)


def _starts(plan: Plan) -> bool:
    return any(p.name == "serve" and p.actions for p in plan.phases)


def _launch_lines(launch: Launch, verbose: bool, paint: Paint) -> list[str]:
    lines = [paint("engine", "strong"), *wrap(shlex.join(launch.argv), "  ", whole=True)]
    if not verbose:
        said = f"{count(len(launch.env), 'variable')} set, {len(launch.unset)} removed"
        return [*lines, *wrap(f"{said}; `-v` shows each with its reason", "  ")]
    for setting in (*launch.env, *launch.flags):
        is_switch = setting.name.startswith("-") and not setting.value
        shown = setting.name if is_switch else f"{setting.name}={setting.value}"
        lines += [f"  {shown}", *wrap(setting.reason, "    why: ")]
    lines += [f"  {name} is removed" for name in launch.unset]
    return lines


def _notes(title: str, notes: Sequence[str], paint: Paint) -> list[str]:
    if not notes:
        return []
    return ["", paint(title, "warn"), *(line for n in notes for line in wrap(n, "  - "))]


def _share_kind(share: WorkerShare) -> tuple[int, int, bool]:
    return len(share.cpus), share.threads, share.gpu is None


def _worker_names(shares: Sequence[WorkerShare]) -> str:
    numbers = format_cpu_list(s.worker for s in shares)
    return f"worker {numbers}" if len(shares) == 1 else f"workers {numbers}"


def _cpu_sets(shares: Sequence[WorkerShare]) -> str:
    """Return the CPU sets of workers alike; all the same: once."""
    sets = [format_cpu_list(s.cpus) for s in shares]
    return sets[0] if len(set(sets)) == 1 else " | ".join(sets)
