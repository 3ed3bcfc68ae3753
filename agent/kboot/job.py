"""What is there to do: facts, listing and plan of one run, and what its executors work with?"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kboot import __version__
from kboot.apply.first_boot import as_image_says, differences_from_image, image_of, pinned
from kboot.apply.origin import image_copy, plain_copies
from kboot.apply.reach import sources_of
from kboot.apply.run import MAY_FAIL, Tools
from kboot.checkpoint import WEIGHT_SUFFIXES
from kboot.errors import ExitStatus, KbootError, SourceError
from kboot.facts.checkpoint import listing_with_residency, read_checkpoint
from kboot.facts.memory import collect_memory
from kboot.facts.os import collect_os
from kboot.facts.storage import collect_storage
from kboot.host.clock import unix_s
from kboot.options import BootOptions
from kboot.plan.choice import choose
from kboot.plan.fetch import plan_bytes, warm_budget_bytes, without_fetch
from kboot.sources.stopping import interrupted_by
from kboot.store.store import Store
from kboot.values import dataclass

# What only a whole boot needs is loaded by the functions that only a whole boot calls.
if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts, LocalFile
    from kboot.engines.types import Launch
    from kboot.events import Emit
    from kboot.facts.basic_types import MemoryFacts, Mount
    from kboot.facts.types import NodeFacts
    from kboot.handoff import HandoffRecord
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.plan.group import Group
    from kboot.plan.types import Phase, Plan, WriteHandoff
    from kboot.profile.types import FleetAsk, LayoutAsk, Profile
    from kboot.report.types import Outcome
    from kboot.sources.types import Source


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything a boot knows before it changes anything."""

    facts: NodeFacts
    checkpoint: CheckpointFacts
    plan: Plan
    store: Store
    sources: tuple[Source, ...]
    group: Group


def prepare(
    profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event | None = None
) -> Prepared:
    """Collect facts, side by side with the listing, and make the plan; changes nothing but kboot's own records.

    stop: set = wait for no source any more.

    Raises:
        KbootError: a source, a fact or the fit stands in the way.
    """
    from concurrent.futures import ThreadPoolExecutor

    from kboot.apply.weights import model_for
    from kboot.engines import engine as engine_named
    from kboot.facts.caches import with_scan
    from kboot.plan.fit_node import first_that_fits
    from kboot.plan.group import group_of
    from kboot.plan.layout import matching_layouts, of_nodes
    from kboot.plan.make import PlanAsk, choose_phases, make_plan, with_handoff
    from kboot.profile.load import load_node_classes

    with ThreadPoolExecutor(1, thread_name_prefix="facts") as pool:
        reading = pool.submit(_read_facts, profile, host, paths, emit)
        store, sources, checkpoint = _read_bytes(profile, host, paths, options, emit, stop)
        facts = reading.result()
    classes = load_node_classes(paths)
    layouts = of_nodes(matching_layouts(profile, facts, classes, options.gpu), options.nodes, options.node_rank or 0)
    with interrupted_by(stop, sources):
        model, unread = model_for(layouts, checkpoint.listing, store, sources, stop)
    in_part = profile.fleet.fetch == "local-experts"
    # What is fetched in part is known only with the layout: the disk is looked at after that.
    to_fit = replace(checkpoint, files=()) if in_part else checkpoint
    layout, passed_over = first_that_fits(facts, layouts, to_fit, classes, model)
    facts = _with_engine(facts, layout, host)
    facts = _with_whole_fleet(facts, profile.fleet, layout, options, host, emit, stop)
    group = group_of(facts.fleet, layout.nodes, options.node_rank, options.head_address)
    if in_part:
        from kboot.apply.share_need import divide

        with interrupted_by(stop, sources):
            divided = divide(checkpoint, store, sources, layout, group, model, stop)
        checkpoint, unread = divided.checkpoint, (*unread, divided.said)
        _require_disk(facts.mounts, checkpoint)
    if layout.nodes > 1 and profile.warm.enabled:
        from kboot.apply.warm_local import with_loaded_ranges

        checkpoint = with_loaded_ranges(checkpoint, store, layout, group.rank, model, emit)
    engine = engine_named(layout.engine)
    facts = with_scan(facts, host, paths, engine.cache_key(facts, profile, layout, checkpoint.listing.commit).name)
    ask = PlanAsk(
        model_path=str(paths.models / profile.name),
        cache_root=str(paths.cache),
        bytecode_root=str(paths.bytecode),
        warmed_root=str(paths.warmed),
        may_tune=host.live and host.uid() == 0,
        serve=options.serve,
        node_rank=group.rank,
        head_address=group.head,
        inherited=host.environ(),
        classes=classes,
    )
    plan = make_plan(facts, checkpoint, profile, layout, engine, ask)
    plan = with_handoff(plan, _why_new_record(plan, facts, profile, checkpoint, host, paths))
    plan = choose_phases(plan, options.only, options.skip)
    image = image_of(paths, lambda _: None)  # a damaged one was told already
    others = differences_from_image(image, layout.name, plan.cache_key.factors) if image else ()
    said = (*plan.warnings, *unread, *passed_over, *others, *_refusals(plan.launch, profile, host, paths))
    return Prepared(facts, checkpoint, replace(plan, warnings=said), store, sources, group)


def _refusals(launch: Launch, profile: Profile, host: Host, paths: Paths) -> Iterator[str]:
    """Yield why a boot of this plan will end before it changes anything."""
    from kboot.apply.license import status as license_status
    from kboot.apply.program import missing_program

    if host.live and (program := missing_program(launch)):
        yield f"boot will refuse: {program} is not there, or this user may not execute it"
    terms = license_status(profile, paths, None)
    if not terms.passes:
        yield f"boot will refuse: {terms.why}"


def _require_disk(mounts: Sequence[Mount], checkpoint: CheckpointFacts) -> None:
    if checkpoint.disk_bytes == 0:
        return
    from kboot.plan.disk import disk_does_not_fit, fit_disk

    disk = fit_disk(mounts, checkpoint.disk_bytes)
    if disk.fits is False:
        raise disk_does_not_fit(disk)


def _with_whole_fleet(
    facts: NodeFacts,
    ask: FleetAsk,
    layout: LayoutAsk,
    options: BootOptions,
    host: Host,
    emit: Emit,
    stop: threading.Event | None,
) -> NodeFacts:
    """Return the facts with all nodes that serve with this one; only a boot waits for those that are not there yet."""
    from kboot.apply.fleet_find import whole_fleet
    from kboot.facts.collect import find_fleet

    if stop is None or options.node_rank is not None:
        return facts
    return replace(facts, fleet=whole_fleet(lambda: find_fleet(host, ask), ask, facts.fleet, layout.nodes, emit, stop))


def _read_facts(profile: Profile, host: Host, paths: Paths, emit: Emit) -> NodeFacts:
    from kboot.events import Notice
    from kboot.facts.collect import NvmlAsk, collect

    settings = tuple(sorted(profile.tune.settings))
    ask = NvmlAsk(say=lambda text: emit(Notice("gpu.waited_for", text)))
    return collect(host, paths, profile.layout[0].engine, tune_paths=settings, ask=ask, fleet=profile.fleet)


def _read_bytes(
    profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event | None
) -> tuple[Store, tuple[Source, ...], CheckpointFacts]:
    store = Store(paths, emit)
    image, copy = image_of(paths, emit), image_copy(paths, host.environ(), emit)
    if options.pinned:
        profile = pinned(profile, image or (copy.image if copy else None))
        if copy is not None:
            copy.lend_listing(store)
    sources = () if options.offline else sources_of(profile, host, options.token_file, emit, store)
    with interrupted_by(stop, sources):
        near = (*copy.source, *sources) if copy else sources  # small files of the listing are looked for there first
        checkpoint = read_checkpoint(profile, store, near, offline=options.offline, emit=emit)
    checkpoint = as_image_says(checkpoint, image, profile.verify.image)
    if copy is not None:
        sources = copy.among(sources, checkpoint, emit)
    sources = (*plain_copies(store, checkpoint, emit), *sources)
    return store, sources, listing_with_residency(checkpoint, store) if options.takes("warm") else checkpoint


def _with_engine(facts: NodeFacts, layout: LayoutAsk, host: Host) -> NodeFacts:
    """Return facts of the engine that the layout names; they were read for the profile's first layout."""
    if facts.engine.name == layout.engine:
        return facts
    from kboot.facts.engine import collect_engine

    engine, gaps = collect_engine(host, layout.engine, None)
    return replace(facts, engine=engine, gaps=(*facts.gaps, *gaps))


def _require_license(
    profile: Profile, checkpoint: CheckpointFacts, store: Store, sources: Sequence[Source], paths: Paths
) -> None:
    import hashlib

    from kboot.apply.license import read_terms, require

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
    from kboot.apply.handoff import observe, read_handoff
    from kboot.handoff import differences, outdated

    try:
        old = read_handoff(paths)
        new = _record(plan, facts.os.boot_id, profile, checkpoint.files, "")
        return (*outdated(old, new), *differences(old, observe(old, host, profile.digest)))
    except KbootError as exc:
        return (exc.message,)


def _record(plan: Plan, boot_id: str, profile: Profile, files: Sequence[LocalFile], claim: str) -> HandoffRecord:
    from kboot.apply.handoff import mark_files
    from kboot.handoff import record_of

    return record_of(
        plan,
        boot_id=boot_id,
        profile_digest=profile.digest,
        files=mark_files(Path(plan.model_path), (f.file.path for f in files)),
        verified_unix_s=min((f.verified_unix_s or 0.0 for f in files), default=0.0),
        verify_claim=claim,
        kboot_version=__version__,
        created_unix_s=unix_s(),
    )


def _write_record(action: WriteHandoff, job: Job, paths: Paths, started_unix_s: float) -> Outcome:
    """Write the record from what is on disk now: the files' identities are those after fetch and verify."""
    from kboot.apply.handoff import write_handoff
    from kboot.apply.outcome import skipped
    from kboot.apply.share_need import require_parts
    from kboot.report.claim import verify_claim

    if job.prepared is None:
        raise ValueError("a run about the bytes alone has no hand-off")
    files = job.store.local(job.checkpoint.listing)
    claim = verify_claim(files, started_unix_s, unix_s())
    try:
        require_parts(job.checkpoint, files, job.store)
        record = _record(job.prepared.plan, job.boot_id, job.profile, files, claim)
    except KbootError as exc:
        return replace(skipped("handoff", action, action.reason), status="failed", error=exc)
    return write_handoff(action, record, paths)


def job_of(profile: Profile, host: Host, paths: Paths, options: BootOptions, emit: Emit, stop: threading.Event) -> Job:
    """Return what is to be done, for a whole boot or for the bytes alone.

    Raises:
        KbootError: a source, a fact, the fit or the licence stands in the way.
    """
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
    from kboot.apply.program import require_program

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
    if not options.weights:
        small = tuple(f for f in checkpoint.files if not f.file.path.endswith(WEIGHT_SUFFIXES))
        checkpoint = replace(checkpoint, files=small)
    mounts, _ = collect_storage(host, paths)
    _require_disk(mounts, checkpoint)
    memory, _ = collect_memory(host)
    os, _ = collect_os(host)
    phases = plan_bytes(checkpoint, profile.verify.mode, profile.warm, memory, str(paths.models / profile.name))
    phases = choose(phases, options.only, options.skip)
    said = without_fetch(checkpoint) if not options.takes("fetch") else ()
    return Job(profile, checkpoint, phases, store, sources, memory, os.boot_id, os.boot_unix_s, said)


def tools_of(job: Job, host: Host, paths: Paths, emit: Emit, stop: threading.Event) -> Tools:
    """Return what the executors of a job work with."""
    started_unix_s = unix_s()
    return Tools(
        profile=job.profile,
        listing=job.checkpoint.listing,
        store=job.store,
        sources=job.sources,
        cpus=len(host.affinity()) if host.live else 1,  # it is this machine that works, whatever one it reads
        warm_budget_bytes=warm_budget_bytes(job.profile.warm, job.memory),
        write_handoff=lambda action: _write_record(action, job, paths, started_unix_s),
        emit=emit,
        stop=stop,
        environ=host.environ(),
    )
