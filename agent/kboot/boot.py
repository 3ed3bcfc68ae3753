"""One boot, from what is asked to what was done: facts → plan → apply → report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.first_boot import adopt
from kboot.apply.joining import Peering
from kboot.apply.mend import damage_of
from kboot.apply.phase import ended_by
from kboot.apply.run import MAY_FAIL, Ran, Tools, run
from kboot.apply.standby import hold
from kboot.apply.turn import turn
from kboot.errors import KbootError
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.facts.os import collect_os
from kboot.host.clock import begin_run, run_unix_s, unix_s
from kboot.host.files import make_dirs, sweep_temps
from kboot.job import Job, Prepared, bytes_job, job_of, tools_of
from kboot.options import BootOptions
from kboot.report.claim import verify_claim
from kboot.report.saved import change_report, keep_report, load_reports, save_refusal
from kboot.report.types import BootReport, BootStatus, Outcome, Span
from kboot.store.store import Store
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.apply.fleet_caches import CacheKeeper
    from kboot.apply.peering import Member
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.plan.types import Phase
    from kboot.profile.types import Profile
    from kboot.serving import OnReady

_TEMP_AGE_S = 600.0
_EARLIER_BOOTS = 20


def _nothing(_: BootReport) -> None:
    """Do nothing when the engine answers."""


def boot(
    profile: Profile,
    host: Host,
    paths: Paths,
    options: BootOptions,
    emit: Emit,
    stop: threading.Event,
    on_ready: OnReady = _nothing,
    peering: Peering | None = None,
    on_prepared: Callable[[], None] | None = None,
) -> BootReport:
    """Prepare this node, serve if asked, and keep the report. on_ready: given the report when the engine answers.

    on_prepared: lets an engine start that somebody else starts; told before what nothing of its start waits for.

    peering: of a process that outlives the boot, and goes on giving bytes to the other nodes of its fleet; without it,
    they are given until those who are there have them.

    What fails on the way is in the report (status failed, its first cause as `error`). When serving, the call returns
    after the engine was stopped, or when it died.

    Raises:
        KbootError: nothing could be started: a source, a fact, the fit or the licence stands in the way. That is on
            record then.
    """
    with Peering(paths) if peering is None else nullcontext(peering) as joined:
        it = _joined(_Run(profile, host, paths, options, emit, stop, on_ready, on_prepared), joined)
        try:
            report = _boot(it, joined)
        except KbootError as exc:
            joined.failed(exc)
            raise
        if report.error is not None:
            joined.failed(report.error)
        if peering is None and not options.serve:
            joined.linger(stop)
    return report


@dataclass(frozen=True, slots=True)
class _Run:
    """One boot: what is asked, of which machine, who is told, and this node as a member of its fleet."""

    profile: Profile
    host: Host
    paths: Paths
    options: BootOptions
    emit: Emit
    stop: threading.Event
    on_ready: OnReady
    on_prepared: Callable[[], None] | None = None
    member: Member | None = None


def _joined(it: _Run, peering: Peering) -> _Run:
    """Return the boot with this node's place in its fleet as it is now, and its fleet told what happens."""
    member = peering.join(it.profile, it.host, it.emit)
    emit = it.emit if member is None or member is it.member else member.begin(it.emit)
    return replace(it, member=member, emit=emit)


def _boot(it: _Run, peering: Peering) -> BootReport:
    """Boot this node, alone or as a member of its fleet, which may have become whole only while the plan was made."""
    started_unix_s = begin_run()
    host, paths, options, stop = it.host, it.paths, it.options, it.stop
    make_dirs(paths.runtime)
    with turn(paths, it.emit, stop) if not options.bytes_only else nullcontext(it.emit) as emit:
        it = replace(it, emit=emit)
        _sweep(it.profile, paths, emit)
        adopt(paths, host, emit)
        job, planned = _planned(it, started_unix_s)
        if job.prepared is not None and job.prepared.group.members:
            it = _joined(it, peering)
        emit = it.emit
        tools = tools_of(job, host, paths, emit, stop)
        if it.member is not None:
            tools = _with_fleet(tools, it.member, job, emit)
        keeper = _keeper(it, job.prepared)
        if keeper is not None:
            keeper.restore(stop)
        starts = (options.serve and not options.standby) or it.on_prepared is not None
        later = _beside_the_start(job.phases) if starts else ()
        ran = run([p for p in job.phases if p not in later], tools)
        report = _report(job, replace(ran, spans=(planned, *ran.spans)), started_unix_s, stop)
    if job.prepared is not None and report.status in ("done", "degraded"):
        _record_caches(job.prepared, report, host, paths, emit)
    good = report.status in ("done", "degraded") and not stop.is_set()
    if options.serve and stop.is_set() and report.status in ("done", "degraded"):
        report = replace(report, status="interrupted")  # the engine that was asked for is left
    if good and options.serve and options.standby:
        keep_report(report, paths, emit)
        good = hold(paths, host, emit, stop, lambda: warm_again(it.profile, host, paths, emit, stop))
        report = _going_live(report) if good else report
    if good and it.member is not None:
        report = _start_together(it, it.member, job.prepared, report)
        good = report.status in ("done", "degraded")
        if good and keeper is not None:
            keeper.begin()
    if job.prepared is not None and options.serve and good:
        report = _serve(it, job.prepared, later, tools, report)
    keep_report(report, paths, emit)
    if it.on_prepared is not None and good:
        it.on_prepared()
        report = _beside_another(it, later, tools, report)
    return report


def _beside_the_start(phases: Sequence[Phase]) -> tuple[Phase, ...]:
    """Return what need not be done before the engine starts."""
    from kboot.apply.beside import BESIDE

    return tuple(p for p in phases if p.name in BESIDE)


def _serve(it: _Run, prepared: Prepared, later: Sequence[Phase], tools: Tools, report: BootReport) -> BootReport:
    """Start the engine, with the later phases beside it; return the report when it has been stopped, or died."""
    from kboot.apply.beside import begin
    from kboot.serving import Serving, serve

    earlier = _earlier(it.paths)
    beside = begin(later, tools, earlier)
    try:
        ask, until = it.profile.serve, it.options.exit_when_ready
        serving = Serving(prepared.plan, ask, it.paths, until, it.on_ready, it.host, beside, earlier)
        return serve(serving, report, it.emit, it.stop)
    finally:
        beside.end("the engine did not start")


def _beside_another(it: _Run, later: Sequence[Phase], tools: Tools, report: BootReport) -> BootReport:
    """Carry out the later phases beside an engine that somebody else starts; return the report with them."""
    if not any(phase.actions for phase in later):
        return report
    from kboot.apply.answering import engine_is_seen_to_answer
    from kboot.apply.beside import begin, follow, with_beside

    beside = begin(later, tools, _earlier(it.paths))
    ran = follow(beside, partial(engine_is_seen_to_answer, it.host, it.paths), it.stop)
    try:
        return change_report(report, it.paths, lambda now: with_beside(now, ran))
    except KbootError as exc:
        it.emit(Notice("report.not_saved", f"{exc.code}: {exc.message}"))
        return with_beside(report, ran)


def _earlier(paths: Paths) -> tuple[BootReport, ...]:
    """Return the boots before this one, newest first; none where they may not be read: they only make it faster."""
    try:
        return load_reports(paths, _EARLIER_BOOTS)
    except KbootError:
        return ()


def _with_fleet(tools: Tools, member: Member, job: Job, emit: Emit) -> Tools:
    """Return the tools with the other nodes among them; from now on this one gives them what it has."""
    files, listing = job.checkpoint.files, job.checkpoint.listing
    in_part = [f.file.blob_id for f in files if f.share is not None]
    member.offer(listing, job.store, in_part)
    tools = replace(tools, exchange=partial(member.exchange, emit))
    if job.prepared is None or not any(f.alone or f.share is not None for f in files):
        return tools
    sharing = member.share(listing, job.store, job.prepared.group.members, emit)
    sharing.publisher.publish(f.file for f in files if f.alone)
    return replace(tools, sharing=sharing)


def _planned(it: _Run, started_unix_s: float) -> tuple[Job, Span]:
    """Return what is to be done, and how long it took to see that; a refusal is put on record."""
    it.emit(PhaseStarted("plan", 0, 0))
    try:
        job = job_of(it.profile, it.host, it.paths, it.options, it.emit, it.stop)
    except KbootError as exc:
        it.emit(PhaseFinished("plan", ended_by(exc), run_unix_s() - started_unix_s, 0))
        _record_refusal(exc, it, started_unix_s)
        raise
    planned = Span("plan", "kboot", started_unix_s, run_unix_s(), detail="facts, listing and plan")
    it.emit(PhaseFinished("plan", "done", planned.seconds, 0))
    return job, planned


def _keeper(it: _Run, prepared: Prepared | None) -> CacheKeeper | None:
    """Return what looks after the kernel caches of the nodes that serve together; None on a node that serves alone."""
    if it.member is None or prepared is None or not prepared.group.members or not it.profile.cache.enabled:
        return None
    from kboot.apply.fleet_caches import Place

    group, plan = prepared.group, prepared.plan
    place = Place(plan.cache_key, group.rank, len(group.members), Path(plan.cache_dir), it.paths.fleet_caches)
    return it.member.keep_caches(place, group.members, it.emit)


def _start_together(it: _Run, member: Member, prepared: Prepared | None, report: BootReport) -> BootReport:
    """Return the report when the nodes that serve with this one are ready too; failed when they cannot start so."""
    if prepared is None or not prepared.group.members:
        member.state.change(stage="started", commit=report.commit)  # it serves alone: nobody is waited for
        return report
    from kboot.apply.fleet_start import gathering_of, start_together

    gathering = gathering_of(prepared.facts, prepared.plan, prepared.group, member.ask, member.key, member.state)
    return start_together(gathering, prepared.checkpoint.listing, report, it.paths, it.emit, it.stop)


def warm_again(profile: Profile, host: Host, paths: Paths, emit: Emit, stop: threading.Event) -> None:
    """Read into the page cache what the kernel took back of the checkpoint; nothing is asked, nothing put on record.

    Raises:
        KbootError: the checkpoint is not known on this disk.
    """
    options = BootOptions(only=frozenset({"warm"}), offline=True)
    job = bytes_job(profile, host, paths, options, emit, stop)
    run(job.phases, tools_of(job, host, paths, emit, stop))


def _going_live(report: BootReport) -> BootReport:
    """Return the report of what begins now: what was prepared before the wait has one of its own."""
    return replace(report, started_unix_s=begin_run(), kernel_start_unix_s=None, spans=(), outcomes=(), error=None)


def _record_caches(prepared: Prepared, report: BootReport, host: Host, paths: Paths, emit: Emit) -> None:
    """Say what decides the engine's caches in this boot; it starts all the same where that cannot be written."""
    from kboot.apply.cache_record import record_prepared

    changed = any(outcome.phase == "cache" for outcome in report.outcomes)
    scan = None if changed else prepared.facts.caches.scan
    try:
        record_prepared(prepared.plan, report.boot_id, report.started_unix_s, host, paths, scan)
    except KbootError as exc:
        emit(Notice("cache.not_recorded", f"{exc.code}: {exc.message}"))


def _sweep(profile: Profile, paths: Paths, emit: Emit) -> None:
    """Take away what killed downloads and writes left behind, so that its space counts as free."""
    Store(paths, emit).sweep(profile.checkpoint.repo)
    for folder in (paths.state, paths.runtime):
        with suppress(KbootError):  # not there yet, or not ours
            sweep_temps(folder, _TEMP_AGE_S)


def _report(job: Job, ran: Ran, started_unix_s: float, stop: threading.Event) -> BootReport:
    files = job.store.local(job.checkpoint.listing)
    status: BootStatus = "failed" if ran.status == "skipped" else ran.status
    undone = status == "failed" or any(o.status == "skipped" for o in ran.outcomes)
    return BootReport(
        boot_id=job.boot_id,
        profile=job.profile.name,
        commit=job.checkpoint.listing.commit,
        status="interrupted" if stop.is_set() and undone else status,
        started_unix_s=started_unix_s,
        finished_unix_s=run_unix_s(),
        kernel_start_unix_s=job.kernel_start_unix_s,
        ready_unix_s=None,
        verify_mode=job.profile.verify.mode,
        verify_claim=verify_claim(files, started_unix_s, unix_s(), structures_of(ran.outcomes)),
        cache_key=job.prepared.plan.cache_key.name if job.prepared else "",
        spans=ran.spans,
        outcomes=ran.outcomes,
        warnings=(*job.warnings, *damage_of(ran.outcomes)),
        error=_first_cause(ran.outcomes),
        gpu_class=job.prepared.plan.layout.gpu if job.prepared else "",
        gpus=len(job.prepared.facts.gpu.gpus) if job.prepared else 0,
        what="boot" if job.prepared else "bytes",
    )


def _record_refusal(error: KbootError, it: _Run, started_unix_s: float) -> None:
    """Put a run on record that was refused before it did anything; the same refusal again takes the other's place."""
    os, _ = collect_os(it.host)
    now = run_unix_s()
    report = BootReport(
        boot_id=os.boot_id,
        profile=it.profile.name,
        commit="",
        status=ended_by(error),
        started_unix_s=started_unix_s,
        finished_unix_s=now,
        kernel_start_unix_s=os.boot_unix_s,
        ready_unix_s=None,
        verify_mode=it.profile.verify.mode,
        verify_claim="",
        cache_key="",
        spans=(Span("plan", "kboot", started_unix_s, now, status=ended_by(error), detail=error.code),),
        outcomes=(),
        warnings=(),
        error=error,
        what=it.options.what,
    )
    with suppress(KbootError):  # the refusal itself is what has to be said
        save_refusal(report, it.paths)


def structures_of(outcomes: Sequence[Outcome]) -> int:
    """Return how many files had their structure looked at, and no more than that."""
    return sum(o.phase == "verify" and o.status != "failed" and o.title.endswith(" (quick)") for o in outcomes)


def _first_cause(outcomes: Sequence[Outcome]) -> KbootError | None:
    """Return the error that stopped the boot; one that only made it slower where nothing stopped it."""
    failed = [o for o in outcomes if o.error is not None]
    stopped = [o for o in failed if o.phase not in MAY_FAIL]
    return (stopped or failed)[0].error if failed else None
