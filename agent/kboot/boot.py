"""One boot, from what is asked to what was done: facts → plan → apply → report."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kboot import __version__
from kboot.apply.beside import BESIDE, begin
from kboot.apply.cache_record import record_prepared
from kboot.apply.handoff import mark_files, observe, read_handoff, write_handoff
from kboot.apply.license import read_terms, require
from kboot.apply.license import status as license_status
from kboot.apply.mend import damage_of
from kboot.apply.outcome import skipped
from kboot.apply.run import MAY_FAIL, Ran, Tools, run
from kboot.apply.serve import require_program
from kboot.apply.turn import turn
from kboot.apply.weights import model_for
from kboot.checkpoint import CheckpointFacts
from kboot.engines import engine as engine_named
from kboot.errors import ExitStatus, KbootError, SourceError
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.facts.caches import with_scan
from kboot.facts.checkpoint import checkpoint_facts, listing_with_residency, read_checkpoint
from kboot.facts.collect import collect
from kboot.facts.engine import collect_engine
from kboot.facts.memory import collect_memory
from kboot.facts.os import collect_os
from kboot.facts.storage import collect_storage
from kboot.facts.types import MemoryFacts, NodeFacts
from kboot.handoff import HandoffRecord, differences, outdated, record_of
from kboot.host.clock import unix_s
from kboot.host.files import make_dirs, sweep_temps
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.plan.fetch import plan_bytes, warm_budget_bytes
from kboot.plan.fit_node import disk_does_not_fit, first_that_fits, fit_disk
from kboot.plan.layout import matching_layouts, of_nodes
from kboot.plan.make import PlanAsk, choose, choose_phases, make_plan, with_handoff
from kboot.plan.types import Phase, PhaseName, Plan, WriteHandoff
from kboot.profile.load import load_node_classes
from kboot.profile.types import LayoutAsk, Profile
from kboot.report.claim import verify_claim
from kboot.report.saved import save_refusal, save_report
from kboot.report.types import BootReport, BootStatus, Outcome, RunKind, Span
from kboot.serving import OnReady, Serving, serve
from kboot.sources import open_sources
from kboot.sources.stopping import interrupted_by
from kboot.sources.types import Source
from kboot.store.store import Store

_BYTES: frozenset[PhaseName] = frozenset({"fetch", "verify", "publish", "warm"})
_TEMP_AGE_S = 600.0


@dataclass(frozen=True, slots=True)
class BootOptions:
    """What one run is asked beyond the profile.

    serve: start the engine and wait until it answers. exit_when_ready: stop it again then (a smoke test).
    offline: ask no source. only, skip: phases. gpu: plan for this class in place of the node's.
    nodes: only a layout of so many. node_rank, head_address: this node's place in it, and where node 0 is.
    token_file: Hub token of the node's configuration; empty = the environment's.
    """

    serve: bool = False
    exit_when_ready: bool = False
    offline: bool = False
    skip: frozenset[PhaseName] = frozenset()
    only: frozenset[PhaseName] = frozenset()
    gpu: str | None = None
    nodes: int | None = None
    node_rank: int = 0
    head_address: str = "127.0.0.1"
    token_file: str = ""

    @property
    def bytes_only(self) -> bool:
        """Return whether the run is about the checkpoint alone, so that it needs no layout, engine or GPU."""
        return bool(self.only) and self.only <= _BYTES

    @property
    def what(self) -> RunKind:
        """Return which of the two the run is on record as."""
        return "bytes" if self.bytes_only else "boot"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything a boot knows before it changes anything."""

    facts: NodeFacts
    checkpoint: CheckpointFacts
    plan: Plan
    store: Store
    sources: tuple[Source, ...]


def prepare(
    profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event | None = None
) -> Prepared:
    """Collect facts, side by side with the listing, and make the plan; changes nothing but kboot's own records.

    stop: set = wait for no source any more.

    Raises:
        KbootError: a source, a fact or the fit stands in the way.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="facts") as pool:
        reading = pool.submit(_read_facts, profile, host, paths)
        store, sources, checkpoint = _read_bytes(profile, host, paths, options, emit, stop)
        facts = reading.result()
    classes = load_node_classes(paths)
    layouts = of_nodes(matching_layouts(profile, facts, classes, options.gpu), options.nodes, options.node_rank)
    with interrupted_by(stop, sources):
        model, unread = model_for(layouts, checkpoint.listing, store, sources)
    layout, passed_over = first_that_fits(facts, layouts, checkpoint, classes, model)
    facts = _with_engine(facts, layout, host)
    engine = engine_named(layout.engine)
    facts = with_scan(facts, host, paths, engine.cache_key(facts, profile, layout, checkpoint.listing.commit).name)
    ask = PlanAsk(
        model_path=str(paths.models / profile.name),
        cache_root=str(paths.cache),
        bytecode_root=str(paths.bytecode),
        may_tune=host.live and host.uid() == 0,
        serve=options.serve,
        node_rank=options.node_rank,
        head_address=options.head_address,
        inherited=host.environ(),
        classes=classes,
    )
    plan = make_plan(facts, checkpoint, profile, layout, engine, ask)
    plan = with_handoff(plan, _why_new_record(plan, facts, profile, checkpoint, host, paths))
    plan = choose_phases(plan, options.only, options.skip)
    plan = replace(plan, warnings=(*plan.warnings, *unread, *passed_over))
    terms = license_status(profile, paths, None)
    if not terms.passes:
        plan = replace(plan, warnings=(*plan.warnings, f"boot will refuse: {terms.why}"))
    return Prepared(facts, checkpoint, plan, store, sources)


def _read_facts(profile: Profile, host: Host, paths: Paths) -> NodeFacts:
    return collect(host, paths, profile.layout[0].engine, tune_paths=tuple(sorted(profile.tune.settings)))


def _read_bytes(
    profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event | None
) -> tuple[Store, tuple[Source, ...], CheckpointFacts]:
    store = Store(paths, emit)
    sources = (
        ()
        if options.offline
        else open_sources(profile.checkpoint, profile.fetch, host.environ(), options.token_file, _on_wait(emit))
    )
    with interrupted_by(stop, sources):
        checkpoint = read_checkpoint(profile, store, sources, offline=options.offline, emit=emit)
    return store, sources, listing_with_residency(checkpoint, store)


def _on_wait(emit: Emit) -> Callable[[str], None]:
    return lambda text: emit(Notice("source.waiting", text))


def _with_engine(facts: NodeFacts, layout: LayoutAsk, host: Host) -> NodeFacts:
    """Return facts of the engine that the layout names; they were read for the profile's first layout."""
    if facts.engine.name == layout.engine:
        return facts
    engine, gaps = collect_engine(host, layout.engine, None)
    return replace(facts, engine=engine, gaps=(*facts.gaps, *gaps))


def _require_license(
    profile: Profile, checkpoint: CheckpointFacts, store: Store, sources: Sequence[Source], paths: Paths
) -> None:
    if profile.license.accept_required:
        text = read_terms(profile, checkpoint.listing, store, sources)
        require(profile, paths, None if text is None else hashlib.sha256(text).hexdigest())


@dataclass(frozen=True, slots=True)
class Job:
    """What `run` needs, for a whole boot or for the bytes alone. prepared: None for the bytes alone."""

    profile: Profile
    checkpoint: CheckpointFacts
    phases: tuple[Phase, ...]
    store: Store
    sources: tuple[Source, ...]
    memory: MemoryFacts
    boot_id: str
    kernel_start_unix_s: float | None
    warnings: tuple[str, ...]
    prepared: Prepared | None = None


def _why_new_record(
    plan: Plan, facts: NodeFacts, profile: Profile, checkpoint: CheckpointFacts, host: Host, paths: Paths
) -> tuple[str, ...]:
    """Return why the hand-off record must be written; () when the one that is there says and finds the same."""
    if any(action for phase in plan.phases if phase.name not in MAY_FAIL | {"serve"} for action in phase.actions):
        return ("files or caches change in this boot",)
    try:
        old = read_handoff(paths)
        new = _record(plan, facts.os.boot_id, profile, checkpoint, "")
        return (*outdated(old, new), *differences(old, observe(old, host, profile.digest)))
    except KbootError as exc:
        return (exc.message,)


def _record(plan: Plan, boot_id: str, profile: Profile, checkpoint: CheckpointFacts, claim: str) -> HandoffRecord:
    return record_of(
        plan,
        boot_id=boot_id,
        profile_digest=profile.digest,
        files=mark_files(Path(plan.model_path), (f.path for f in checkpoint.listing.files)),
        verified_unix_s=min((f.verified_unix_s or 0.0 for f in checkpoint.files), default=0.0),
        verify_claim=claim,
        kboot_version=__version__,
        created_unix_s=unix_s(),
    )


def _write_record(action: WriteHandoff, job: Job, paths: Paths, started_unix_s: float) -> Outcome:
    """Write the record from what is on disk now: the files' identities are those after fetch and verify."""
    if job.prepared is None:
        raise ValueError("a run about the bytes alone has no hand-off")
    after = checkpoint_facts(job.checkpoint.listing, job.store, job.profile.name)
    claim = verify_claim(after, started_unix_s)
    try:
        record = _record(job.prepared.plan, job.boot_id, job.profile, after, claim)
    except KbootError as exc:
        return replace(skipped("handoff", action, action.reason), status="failed", error=exc)
    return write_handoff(action, record, paths)


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
) -> BootReport:
    """Prepare this node, serve if asked, and keep the report. on_ready: given the report when the engine answers.

    What fails on the way is in the report (status failed, its first cause as `error`). When serving, the call returns
    after the engine was stopped, or when it died.

    Raises:
        KbootError: nothing could be started: a source, a fact, the fit or the licence stands in the way. That is on
            record then.
    """
    started_unix_s = unix_s()
    make_dirs(paths.runtime)
    with turn(paths, emit, stop) if not options.bytes_only else nullcontext(emit) as emit:
        _sweep(profile, paths, emit)
        emit(PhaseStarted("plan", 0, 0))
        try:
            job = _job(profile, host, paths, options, emit, stop)
        except KbootError as exc:
            _record_refusal(exc, profile, host, paths, options, started_unix_s)
            raise
        planned = Span("plan", "kboot", started_unix_s, unix_s(), detail="facts, listing and plan")
        emit(PhaseFinished("plan", "done", planned.seconds, 0))
        tools = tools_of(job, host, paths, emit, stop)
        later = tuple(p for p in job.phases if options.serve and p.name in BESIDE)
        ran = run([p for p in job.phases if p not in later], tools)
        report = _report(job, replace(ran, spans=(planned, *ran.spans)), started_unix_s, stop)
    if job.prepared is not None and report.status in ("done", "degraded"):
        _record_caches(job.prepared, report, host, paths, emit)
    if job.prepared is not None and options.serve and report.status in ("done", "degraded") and not stop.is_set():
        beside = begin(later, tools)
        try:
            ask, until = profile.serve, options.exit_when_ready
            report = serve(Serving(job.prepared.plan, ask, paths, until, on_ready, host, beside), report, emit, stop)
        finally:
            beside.end("the engine did not start")
    save_report(report, paths)
    return report


def _record_refusal(
    error: KbootError, profile: Profile, host: Host, paths: Paths, options: BootOptions, started_unix_s: float
) -> None:
    """Put a run on record that was refused before it did anything; the same refusal again takes the other's place."""
    os, _ = collect_os(host)
    now = unix_s()
    report = BootReport(
        boot_id=os.boot_id,
        profile=profile.name,
        commit="",
        status="interrupted" if error.status == ExitStatus.INTERRUPTED else "failed",
        started_unix_s=started_unix_s,
        finished_unix_s=now,
        kernel_start_unix_s=os.boot_unix_s,
        ready_unix_s=None,
        verify_mode=profile.verify.mode,
        verify_claim="",
        cache_key="",
        spans=(Span("plan", "kboot", started_unix_s, now, status="failed", detail=error.code),),
        outcomes=(),
        warnings=(),
        error=error,
        what=options.what,
    )
    with suppress(KbootError):  # the refusal itself is what has to be said
        save_refusal(report, paths)


def _record_caches(prepared: Prepared, report: BootReport, host: Host, paths: Paths, emit: Emit) -> None:
    """Say what decides the engine's caches in this boot; it starts all the same where that cannot be written."""
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


def _job(profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event) -> Job:
    try:
        if options.bytes_only:
            return bytes_job(profile, host, paths, options, emit, stop)
        prepared = prepare(profile, host, paths, options, emit, stop)
        with interrupted_by(stop, prepared.sources):
            _require_license(profile, prepared.checkpoint, prepared.store, prepared.sources, paths)
    except SourceError as exc:
        if stop.is_set():
            exc.status = ExitStatus.INTERRUPTED
        raise
    plan, facts = prepared.plan, prepared.facts
    require_program(plan)
    return Job(
        profile,
        prepared.checkpoint,
        tuple(p for p in plan.phases if p.name != "serve"),
        prepared.store,
        prepared.sources,
        facts.memory,
        facts.os.boot_id,
        facts.os.boot_unix_s,
        plan.warnings,
        prepared,
    )


def bytes_job(
    profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event | None = None
) -> Job:
    """Return what is to be done about the checkpoint alone. stop: set = wait for no source any more.

    Raises:
        KbootError: a source or the disk stands in the way.
    """
    store, sources, checkpoint = _read_bytes(profile, host, paths, options, emit, stop)
    mounts, _ = collect_storage(host, paths)
    disk = fit_disk(mounts, checkpoint.disk_bytes)
    if disk.fits is False:
        raise disk_does_not_fit(disk)
    memory, _ = collect_memory(host)
    os, _ = collect_os(host)
    phases = plan_bytes(checkpoint, profile.verify.mode, profile.warm, memory, str(paths.models / profile.name))
    phases = choose(phases, options.only, options.skip)
    return Job(profile, checkpoint, phases, store, sources, memory, os.boot_id, os.boot_unix_s, ())


def tools_of(job: Job, host: Host, paths: Paths, emit: Emit, stop: threading.Event) -> Tools:
    """Return what the executors of a job work with."""
    started_unix_s = unix_s()
    return Tools(
        profile=job.profile,
        listing=job.checkpoint.listing,
        store=job.store,
        sources=job.sources,
        cpus=len(host.affinity()),
        warm_budget_bytes=warm_budget_bytes(job.profile.warm, job.memory),
        write_handoff=lambda action: _write_record(action, job, paths, started_unix_s),
        emit=emit,
        stop=stop,
        environ=host.environ(),
    )


def _report(job: Job, ran: Ran, started_unix_s: float, stop: threading.Event) -> BootReport:
    after = checkpoint_facts(job.checkpoint.listing, job.store, job.profile.name)
    status: BootStatus = "failed" if ran.status == "skipped" else ran.status
    return BootReport(
        boot_id=job.boot_id,
        profile=job.profile.name,
        commit=job.checkpoint.listing.commit,
        status="interrupted" if stop.is_set() and status == "failed" else status,
        started_unix_s=started_unix_s,
        finished_unix_s=unix_s(),
        kernel_start_unix_s=job.kernel_start_unix_s,
        ready_unix_s=None,
        verify_mode=job.profile.verify.mode,
        verify_claim=verify_claim(after, started_unix_s, structures_of(ran.outcomes)),
        cache_key=job.prepared.plan.cache_key.name if job.prepared else "",
        spans=ran.spans,
        outcomes=ran.outcomes,
        warnings=(*job.warnings, *damage_of(ran.outcomes)),
        error=_first_cause(ran.outcomes),
        gpu_class=job.prepared.plan.layout.gpu if job.prepared else "",
        gpus=len(job.prepared.facts.gpu.gpus) if job.prepared else 0,
        what="boot" if job.prepared else "bytes",
    )


def structures_of(outcomes: Sequence[Outcome]) -> int:
    """Return how many files had their structure looked at, and no more than that."""
    return sum(o.phase == "verify" and o.status != "failed" and o.title.endswith(" (quick)") for o in outcomes)


def _first_cause(outcomes: Sequence[Outcome]) -> KbootError | None:
    """Return the error that stopped the boot; one that only made it slower where nothing stopped it."""
    failed = [o for o in outcomes if o.error is not None]
    stopped = [o for o in failed if o.phase not in MAY_FAIL]
    return (stopped or failed)[0].error if failed else None
