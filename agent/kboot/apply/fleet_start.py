"""Waits, when this node is prepared, until the nodes that serve with it are too, and goes on together with them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kboot.apply.fleet_ask import asker
from kboot.apply.fleet_meeting import Meeting
from kboot.apply.fleet_state import Decision, FleetState
from kboot.checkpoint import Listing
from kboot.engines.types import CacheKey
from kboot.errors import KbootError
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.facts.fleet_record import record_from_text, record_to_bytes
from kboot.facts.fleet_types import FleetRecord, NodeStatement
from kboot.facts.types import NodeFacts
from kboot.handoff import manifest_digest
from kboot.host.clock import monotonic_s, run_unix_s, unix_s
from kboot.host.files import atomic_write, read_small
from kboot.host.paths import Paths
from kboot.plan.group import Group
from kboot.plan.statement import statement_of
from kboot.plan.types import Plan
from kboot.profile.types import FleetAsk
from kboot.report.types import BootReport, BootStatus, Span
from kboot.sources.fleet_auth import FleetKey
from kboot.store.cache_files import COMPLETE
from kboot.values import dataclass

PHASE = "meet"
_LIMIT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Gathering:
    """Whom this node starts with, and what it will state. state: what it tells the others meanwhile."""

    group: Group
    ask: FleetAsk
    key: FleetKey
    state: FleetState
    statement: NodeStatement


def gathering_of(
    facts: NodeFacts, plan: Plan, group: Group, ask: FleetAsk, key: FleetKey, state: FleetState
) -> Gathering:
    """Return what a prepared node states to its group."""
    statement = statement_of(
        facts,
        plan.layout,
        plan.cache_key,
        group,
        commit=plan.listing.commit,
        manifest=manifest_digest(plan.listing),
        caches_complete=_is_complete(plan.cache_dir, plan.cache_key),
    )
    return Gathering(group, ask, key, state, statement)


def start_together(
    gathering: Gathering, listing: Listing, report: BootReport, paths: Paths, emit: Emit, stop: threading.Event
) -> BootReport:
    """Return the report when all nodes of the group may start; failed where they may not.

    A node that was prepared again in the same boot of its kernel, and for which nothing changed, has started already:
    the others serve with it, and do not wait a second time.
    """
    group, state = gathering.group, gathering.state
    state.change(commit=listing.commit, statement=gathering.statement)
    if _has_started(report, paths):
        emit(Notice("fleet.already_started", "the nodes have started together since this machine was, nothing changed"))
        state.change(stage="started")
        return report
    emit(PhaseStarted(PHASE, len(group.members), 0))
    started_unix_s, started_s = run_unix_s(), monotonic_s()
    meeting = Meeting(
        members=group.members,
        rank=group.rank,
        state=state,
        ask=asker(gathering.key),
        timeout_s=gathering.ask.start_timeout_s,
        emit=emit,
        stop=stop,
        refuse=gathering.ask.differences == "refuse",
    )
    error: KbootError | None = None
    try:
        meeting.meet()
    except KbootError as exc:
        error = exc
    seconds = monotonic_s() - started_s
    ending: BootStatus = "interrupted" if stop.is_set() else "failed"
    status = ending if error else "done"
    emit(PhaseFinished(PHASE, status, seconds, 0))
    _keep(report, meeting.heard, error is None, paths, emit)
    span = Span(PHASE, "kboot", started_unix_s, started_unix_s + seconds, status=status, detail="the other nodes")
    report = replace(report, spans=(*report.spans, span), finished_unix_s=run_unix_s())
    if error is None:
        return report
    return replace(report, status=ending, error=error)


def _is_complete(cache_dir: str, key: CacheKey) -> bool:
    return bool(key.name) and (Path(cache_dir) / COMPLETE).exists()


def _has_started(report: BootReport, paths: Paths) -> bool:
    if any(outcome.phase == "handoff" for outcome in report.outcomes):
        return False
    record = read_record(paths)
    return record is not None and record.started and (record.boot_id, record.commit) == (report.boot_id, report.commit)


def read_record(paths: Paths) -> FleetRecord | None:
    """Return what was kept of the last meeting; None where nothing readable was."""
    try:
        return record_from_text(read_small(paths.fleet, _LIMIT_BYTES))
    except (OSError, ValueError):
        return None


def _keep(report: BootReport, heard: Decision | None, started: bool, paths: Paths, emit: Emit) -> None:
    """Write down who stated what; a node that cannot starts all the same."""
    statements: Sequence[NodeStatement] = heard.statements if heard is not None else ()
    record = FleetRecord(report.boot_id, unix_s(), started, report.commit, tuple(statements))
    try:
        atomic_write(paths.fleet, record_to_bytes(record))
    except KbootError as exc:
        emit(Notice("fleet.not_recorded", f"{exc.code}: {exc.message}"))
