"""How are the facts that doctor judges read, so that a machine in any state gives them or says why not?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import CheckpointFacts, Listing
from kboot.checks.asked import layout_for
from kboot.checks.types import Finding, Mode
from kboot.errors import KbootError
from kboot.events import Emit, Event, Notice
from kboot.facts.basic_types import Gap
from kboot.facts.collect import NvmlAsk, collect
from kboot.facts.doctor_types import MeasuredFacts
from kboot.facts.engine import collect_engine
from kboot.facts.measured_types import ReadSample
from kboot.facts.types import NodeFacts
from kboot.host.paths import Paths
from kboot.host.probes import ask_in_child
from kboot.host.read_rate import fault_in, read_past_cache
from kboot.host.types import Host
from kboot.profile.types import Profile
from kboot.store.store import Store
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """Longest times of one run. A healthy node takes a small part of them. cuda_s: with copying, where it measures.

    total_s: all of it together, whatever hangs.
    """

    nvml_s: float
    facts_s: float
    checkpoint_s: float
    measure_s: float = 0.0
    cuda_s: float = 10.0
    total_s: float = 25.0


BUDGETS: Mapping[Mode, Budget] = {
    "quick": Budget(10.0, 14.0, 6.0),
    "full": Budget(20.0, 22.0, 8.0, 12.0, 8.0, 58.0),
    "bake": Budget(10.0, 14.0, 6.0),
    "deep": Budget(120.0, 130.0, 30.0, 12.0, 60.0, 900.0),
}


def local_checkpoint(paths: Paths, profile: Profile, emit: Emit) -> CheckpointFacts | None:
    """Return the pinned commit as this disk knows it; None where nothing here lists it. No content is read.

    Raises:
        UsageError: the repository is on this disk in several spellings.
    """
    store = Store(paths, emit)
    listing = store.known_listing(profile.checkpoint.repo, profile.checkpoint.revision)
    if listing is None:
        return None
    return CheckpointFacts(
        listing=listing,
        files=store.local(listing),
        snapshot_path=str(store.snapshot_path(listing)),
        published=not store.unlinked(listing) and _serving_path_leads_there(paths, profile, store, listing),
    )


def _serving_path_leads_there(paths: Paths, profile: Profile, store: Store, listing: Listing) -> bool:
    try:
        return (paths.models / profile.name).resolve(strict=True) == store.snapshot_path(listing).resolve(strict=True)
    except (OSError, RuntimeError):  # absent, not allowed, or links in a circle
        return False


def probe_facts(host: Host, paths: Paths, profile: Profile | None, budget: Budget, emit: Emit) -> NodeFacts | Finding:
    """Return the facts; where they cannot be had, the finding that every check then has."""
    try:
        return ask_in_child(lambda: _read_facts(host, paths, profile, budget.nvml_s), budget.facts_s)
    except (KbootError, OSError) as exc:
        emit(Notice("probe.failed", f"the node's facts could not be read: {exc}"))
        return Finding(
            "unknown",
            f"the node's facts could not be read: {exc}",
            wanted=f"an answer within {budget.facts_s:g} s",
            why="a file system or a driver does not answer",
            hint="`ps axl | grep ' D'` and `dmesg | tail` show who is blocked",
        )


def _read_facts(host: Host, paths: Paths, profile: Profile | None, nvml_timeout_s: float) -> NodeFacts:
    """Return the facts, with the engine of the layout that is meant for the GPUs found."""
    settings = tuple(profile.tune.settings) if profile else ()
    facts = collect(host, paths, tune_paths=settings, ask=NvmlAsk(nvml_timeout_s))
    layout = layout_for(facts.gpu, profile) if profile else None
    if layout is None or layout.engine == facts.engine.name:
        return facts
    engine, gaps = collect_engine(host, layout.engine, None)
    others = tuple(gap for gap in facts.gaps if not gap.fact.startswith("engine"))
    return replace(facts, engine=engine, gaps=(*others, *gaps))


def probe_checkpoint(
    paths: Paths, profile: Profile | None, budget: Budget, emit: Emit
) -> tuple[CheckpointFacts | None, tuple[Gap, ...]]:
    """Return what this disk has of the checkpoint, and a Gap for what could not be looked at."""
    if profile is None:
        return None, ()
    try:
        found, notices = ask_in_child(lambda: _read_checkpoint(paths, profile), budget.checkpoint_s)
    except (KbootError, OSError) as exc:
        emit(Notice("probe.failed", f"the checkpoint could not be looked at: {exc}"))
        return None, (Gap("checkpoint", str(paths.hub), str(exc)),)
    for notice in notices:
        emit(notice)
    return found, tuple(Gap("ledger", str(paths.ledger), n.text) for n in notices if n.event == "ledger.unreadable")


def probe_rates(paths: Paths, facts: NodeFacts, checkpoint: CheckpointFacts, budget: Budget, emit: Emit) -> NodeFacts:
    """Return the facts with what reading real shards for a few seconds showed."""
    here = [f.file for f in checkpoint.files if f.is_whole]
    largest = sorted(here, key=lambda file: file.size_bytes, reverse=True)[:_SAMPLED_FILES]
    if not largest or not largest[0].size_bytes:
        return facts
    store = Store(paths)
    files = [store.blob_path(checkpoint.listing.repo, file.blob_id) for file in largest]
    streams = max(1, min(_STREAMS, len(facts.cpu.allowed) or 1))
    try:
        measured = ask_in_child(lambda: _measure(files, streams, budget.measure_s / 4), budget.measure_s)
    except (KbootError, OSError) as exc:
        emit(Notice("probe.failed", f"the disks' rate could not be measured: {exc}"))
        return replace(facts, gaps=(*facts.gaps, Gap("measured.disk", str(paths.hub), str(exc))))
    return replace(facts, measured=replace(facts.measured, disk=measured.disk, mapped=measured.mapped))


_SAMPLED_FILES = 32
_STREAMS = 8
_FAULTS_S = 1.0


def _measure(files: Sequence[Path], streams: int, read_s: float) -> MeasuredFacts:
    """Touch mapped pages first: what large reads leave in a disk's own cache would make them look fast."""
    mapped = fault_in(files, min(_FAULTS_S, read_s))
    size_bytes, seconds = read_past_cache(files, streams, read_s)
    return MeasuredFacts(
        disk=ReadSample(size_bytes, seconds, streams) if size_bytes else None,
        mapped=None if mapped is None else ReadSample(*mapped, 1),
    )


def _read_checkpoint(paths: Paths, profile: Profile) -> tuple[CheckpointFacts | None, tuple[Notice, ...]]:
    notices: list[Notice] = []

    def keep(event: Event) -> None:
        if isinstance(event, Notice):
            notices.append(event)

    return local_checkpoint(paths, profile, keep), tuple(notices)
