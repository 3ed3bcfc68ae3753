"""How is an image made? Facts, plan for the nodes it is for, bytes and caches, units, doctor, and a manifest of it all.

It needs no GPU, installs nothing and starts nothing. Sealing, the last step, is kboot.seal's.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import field, replace

from kboot import __version__
from kboot.apply.bake_steps import baked_caches, baked_files, enable_units, import_archives
from kboot.apply.first_boot import mark_as_known
from kboot.apply.license import status as license_status
from kboot.apply.run import run
from kboot.apply.turn import turn
from kboot.apply.weights import model_for
from kboot.checkpoint import CheckpointFacts
from kboot.doctor import DoctorReport, run_doctor
from kboot.errors import DoesNotFit, ExitStatus, KbootError, SourceError
from kboot.events import Emit, Notice, PhaseFinished, PhaseStarted
from kboot.facts.boot_units import read_units
from kboot.facts.caches import collect_caches
from kboot.facts.checkpoint import checkpoint_facts
from kboot.facts.collect import NvmlAsk, collect
from kboot.facts.image_driver import installed_driver
from kboot.facts.types import NodeFacts
from kboot.handoff import manifest_digest
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.files import make_dirs
from kboot.host.image import ImageTree
from kboot.host.paths import Paths
from kboot.host.sharing import share_with_group
from kboot.host.tree import sync_file_system
from kboot.host.types import Host
from kboot.job import Job, bytes_job, tools_of
from kboot.options import BootOptions
from kboot.plan.bake import TargetAsk, deferred, target_factors, targets
from kboot.plan.bytecode import bytecode_dir, plan_bytecode
from kboot.plan.fit import FitAsk, FitRow, does_not_fit, fit, weight_bytes
from kboot.plan.types import Phase
from kboot.plan.units import plan_units
from kboot.profile.load import load_node_classes
from kboot.profile.types import LayoutAsk, NodeClass, Profile
from kboot.report.types import Outcome
from kboot.store.baked import Baked, BakedTarget, write_baked
from kboot.values import dataclass

GROUP = "kboot"
_EPOCH = "SOURCE_DATE_EPOCH"
_OF_A_SEALED_IMAGE = ("sec.machine_id_bake",)
"""Asked too early while an image is prepared: what it looks for is taken away last."""


@dataclass(frozen=True, slots=True)
class BakeAsk:
    """What one bake is asked beyond the profile.

    weights: fetch them. archives: of kernel caches. verity: let the file system prove large files, where it can.
    configured: the profile that the image's kboot.toml names; None = not looked at.
    """

    target: TargetAsk = field(default_factory=TargetAsk)
    weights: bool = True
    archives: tuple[str, ...] = ()
    verity: bool = False
    offline: bool = False
    token_file: str = ""
    configured: str | None = None


@dataclass(frozen=True, slots=True)
class BakeReport:
    """One bake. baked: None where it did not come to a manifest. fits: a sentence for each target."""

    baked: Baked | None
    outcomes: tuple[Outcome, ...]
    doctor: DoctorReport | None
    fits: tuple[str, ...]
    seconds: float

    @property
    def error(self) -> KbootError | None:
        """Return what stopped it."""
        return next((o.error for o in self.outcomes if o.error is not None), None)

    @property
    def exit_status(self) -> ExitStatus:
        """Return the status of the first step that failed, 4 where doctor found that a boot would not work, else 0."""
        if self.error is not None:
            return ExitStatus.INTERRUPTED if self.error.code == "interrupted" else self.error.status
        failed = self.doctor is not None and self.doctor.exit_status == ExitStatus.DOCTOR_FAILED
        return ExitStatus.DOCTOR_FAILED if failed else ExitStatus.DONE


@dataclass(frozen=True, slots=True)
class _Bake:
    """What the steps of one bake share."""

    profile: Profile
    host: Host
    paths: Paths
    ask: BakeAsk
    emit: Emit
    chosen: tuple[LayoutAsk, ...]
    facts: NodeFacts
    classes: tuple[NodeClass, ...]
    job: Job


def bake(
    profile: Profile, host: Host, paths: Paths, ask: BakeAsk, tree: ImageTree, emit: Emit, stop: threading.Event
) -> BakeReport:
    """Prepare the image that this process runs in; the manifest is written last. tree: where units are enabled.

    A step that fails is in the report, and there is no manifest then. Baking again does only what is missing. What was
    done is on the disk when this returns: a builder's power may be cut.

    Raises:
        KbootError: nothing could be started: no such target, it does not fit, no source, the disk.
    """
    started_s = monotonic_s()
    classes = load_node_classes(paths)
    chosen = targets(profile, classes, ask.target, host.environ())
    _make_folders(paths)
    with turn(paths, emit, stop) as emit:
        waits = NvmlAsk(say=lambda text: emit(Notice("gpu.waited_for", text)))
        facts = collect(host, paths, chosen[0].engine, ask=waits)
        job = _bytes(profile, host, paths, ask, emit, stop)
        this = _Bake(profile, host, paths, ask, emit, chosen, facts, classes, job)
        with closing(job.store.ledger):  # sealing, which may come next, wants it for itself
            return _baked(this, tree, stop, started_s)


def _baked(this: _Bake, tree: ImageTree, stop: threading.Event, started_s: float) -> BakeReport:
    profile, host, paths, emit = this.profile, this.host, this.paths, this.emit
    fits = _fits(this)
    outcomes = _steps(this, tree, stop)
    doctor = baked = None
    if not any(o.status in ("failed", "skipped") for o in outcomes):
        doctor = run_doctor(host, paths, profile, "bake", (), emit, skip=_OF_A_SEALED_IMAGE)
        baked = _manifest(this, tree)
        sync_file_system(paths.state)
        write_baked(baked, paths.state)
        mark_as_known(baked, paths, host)
    return BakeReport(baked, outcomes, doctor, fits, monotonic_s() - started_s)


def _make_folders(paths: Paths) -> None:
    """Make kboot's folders as they will be at boot, so that the engine's user can write the caches (ADR 6)."""
    for folder, mode in ((paths.state, 0o750), (paths.cache, 0o770)):
        make_dirs(folder)
        share_with_group(folder, GROUP, mode)
    make_dirs(paths.runtime)


def _bytes(profile: Profile, host: Host, paths: Paths, ask: BakeAsk, emit: Emit, stop: threading.Event) -> Job:
    options = BootOptions(
        offline=ask.offline,
        only=frozenset({"fetch", "verify", "publish"} if ask.weights else {"fetch", "verify"}),
        token_file=ask.token_file,
        weights=ask.weights,
        pinned=False,
    )
    try:
        return bytes_job(profile, host, paths, options, emit, stop)
    except SourceError as exc:
        if stop.is_set():
            exc.status = ExitStatus.INTERRUPTED
        raise


def _fits(this: _Bake) -> tuple[str, ...]:
    """Return how the weights fit each target.

    Raises:
        DoesNotFit: they fit none of those that the operator named.
    """
    with_gpus = tuple(layout for layout in this.chosen if layout.gpus_per_node)
    listing = this.job.checkpoint.listing
    weights = weight_bytes((f.path, f.size_bytes) for f in listing.files)
    if not with_gpus or weights is None:
        return ()
    model, unread = model_for(with_gpus, listing, this.job.store, this.job.sources)
    report = fit(FitAsk(weights_bytes=weights, layouts=with_gpus, node_classes=this.classes, model=model))
    names = {layout.name for layout in with_gpus}
    rows: tuple[FitRow, ...] = tuple(row for row in report.rows if row.layout in names)
    if this.ask.target.gpu is not None and rows and not any(row.fits for row in rows):
        raise _fits_none(does_not_fit(replace(report, asked=rows)), this.ask.target.gpu)
    return (*(f"{row.layout}: {row.verdict}" for row in rows), *unread)


def _fits_none(error: DoesNotFit, gpu: str) -> DoesNotFit:
    error.where = (*error.where, f"the image was asked for {gpu}")
    return error


def _steps(this: _Bake, tree: ImageTree, stop: threading.Event) -> tuple[Outcome, ...]:
    """Fetch and verify in one pass, compile beside it; then caches and units."""
    job, emit = this.job, this.emit
    compile_ = tuple(action for folder in _bytecode_folders(this) for action in plan_bytecode(this.facts, folder))
    phases = (*job.phases, Phase("cache", (), compile_))
    ran = run(phases, tools_of(job, this.host, this.paths, emit, stop))
    if ran.status == "failed":
        return ran.outcomes
    if not this.ask.weights:
        job.store.remember(job.checkpoint.listing)
        job.store.set_ref(job.checkpoint.listing)
    emit(PhaseStarted("bake", 1, 0))
    started_s = monotonic_s()
    wanted = [dict(target.factors) for target in _targets(this)]
    taken = import_archives(_archives(this), wanted, this.paths.cache, this.host.environ())
    actions, _ = plan_units(read_units(tree))
    linked = enable_units(actions, tree)
    failed = any(o.status == "failed" for o in (*taken, *linked))
    emit(PhaseFinished("bake", "failed" if failed else "done", monotonic_s() - started_s, 0))
    return (*ran.outcomes, *taken, *linked)


def _archives(this: _Bake) -> tuple[str, ...]:
    seed = this.profile.cache.seed
    return (*this.ask.archives, *((seed,) if seed and "{key}" not in seed else ()))


def _bytecode_folders(this: _Bake) -> tuple[str, ...]:
    found = (bytecode_dir(this.facts, layout, str(this.paths.bytecode)) for layout in this.chosen)
    return tuple(dict.fromkeys(folder for folder in found if folder and this.profile.cache.enabled))


def _targets(this: _Bake) -> tuple[BakedTarget, ...]:
    driver = this.ask.target.driver or installed_driver(this.host)
    ask = replace(this.ask.target, driver=driver)
    commit = this.job.checkpoint.listing.commit
    return tuple(
        BakedTarget(
            layout=layout.name,
            gpu=layout.gpu,
            gpus_per_node=layout.gpus_per_node,
            nodes=layout.nodes,
            engine=layout.engine,
            factors=target_factors(this.facts, this.profile, layout, commit, this.classes, ask),
        )
        for layout in this.chosen
    )


def _manifest(this: _Bake, tree: ImageTree) -> Baked:
    listing = this.job.checkpoint.listing
    after = checkpoint_facts(listing, this.job.store, this.profile.name)
    caches, _ = collect_caches(this.host, this.paths)
    complete = {caches.factors_of[key].get("layout", "") for key in caches.complete if key in caches.factors_of}
    _, units_left = plan_units(read_units(tree))
    enabled = tuple(u.name for u in read_units(tree) if u.links and not u.masked and all(there for _, there in u.links))
    seed = this.profile.cache.seed
    waiting = deferred(this.chosen, complete, seed if "{key}" in seed else "")
    return Baked(
        profile=this.profile.name,
        profile_digest=this.profile.digest,
        repo=listing.repo,
        commit=listing.commit,
        manifest_digest=manifest_digest(listing),
        versions=_versions(this),
        targets=_targets(this),
        files=baked_files(after, this.job.store, this.emit, verity=this.ask.verity),
        caches=baked_caches(caches, this.paths.cache),
        bytecode=tuple(sorted(collect_caches(this.host, this.paths)[0].bytecode)),
        units=enabled,
        left_out=(*_left_out(this, after), *units_left),
        deferred=waiting,
        built_unix_s=_built_unix_s(this.host.environ()),
    )


def _left_out(this: _Bake, after: CheckpointFacts) -> tuple[tuple[str, str], ...]:
    found = []
    engine = this.facts.engine
    missing = [f for f in after.files if f.state != "verified"]
    if missing:
        why = "asked by --no-weights: a node fetches them at its first boot"
        found.append((f"{len(missing)} of {len(after.files)} files of the checkpoint", why))
    if this.chosen[0].engine not in ("command", "demo") and engine.version is None:
        found.append((f"engine {this.chosen[0].engine}", "it is not installed in this image; bake again once it is"))
    named = this.ask.configured
    if named is not None and named != this.profile.name:
        why = f'kboot.toml names {named or "none"}: nodes boot this one with `profile = "{this.profile.name}"`'
        found.append(("profile to boot", why))
    terms = license_status(this.profile, this.paths, None)
    if not terms.passes:
        found.append(("acceptance of the model's terms", f"{terms.why}: every node would refuse to boot"))
    return tuple(found)


def _versions(this: _Bake) -> Mapping[str, str]:
    engine = this.facts.engine
    driver = this.ask.target.driver or installed_driver(this.host)
    found = {
        "kboot": __version__,
        "python": platform.python_version(),
        "os": this.facts.os.pretty_name,
        "machine": this.facts.os.machine,
        "driver": driver,
        "cuda": this.ask.target.cuda,
        f"engine.{engine.name}": engine.version or "",
        **{f"package.{name}": version for name, version in engine.packages.items()},
    }
    return {name: value for name, value in sorted(found.items()) if value}


def _built_unix_s(environ: Mapping[str, str]) -> float:
    """Return when the image was made: what the builder says, so that two builds give the same bytes, else now."""
    told = environ.get(_EPOCH, "")
    return float(told) if told.isdecimal() else unix_s()
