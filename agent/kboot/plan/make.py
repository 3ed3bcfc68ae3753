"""The whole plan of a boot, from what was found and what is asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from kboot.engines.types import CacheKey, Engine, Launch, LaunchAsk
from kboot.plan.bytecode import bytecode_dir, plan_bytecode, plan_engine_files, with_engine_files
from kboot.plan.cache import plan_cache
from kboot.plan.cache_damage import plan_quarantine, scan_warnings
from kboot.plan.cache_place import place_warnings
from kboot.plan.cache_stable import key_troubles, refuse_unstable
from kboot.plan.choice import choose
from kboot.plan.fetch import plan_bytes, warm_budget_bytes
from kboot.plan.flags import flag_warnings
from kboot.plan.layout import chosen_gpus
from kboot.plan.loading import loading_warnings
from kboot.plan.placement import binding_notes, place, workers_on_node
from kboot.plan.tune import plan_tune
from kboot.plan.types import Phase, PhaseName, Plan, StartEngine, WriteHandoff, WriteSetting
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import LayoutAsk, NodeClass, Profile

_NUMBERED = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.safetensors")


@dataclass(frozen=True, slots=True)
class PlanAsk:
    """What the operator asks of this run, and where things lie on this node.

    model_path, cache_root: as Paths names them. may_tune: kernel settings can be written (root, on the live machine).
    bytecode_root: where compiled Python is kept; empty = nothing is compiled. warmed_root: where it is noted that an
    engine's own files were read; empty = they are not.
    inherited: the environment that an engine would inherit. classes: the node classes that say which GPUs are whose.
    """

    model_path: str
    cache_root: str
    may_tune: bool
    serve: bool = False
    node_rank: int = 0
    head_address: str = "127.0.0.1"
    inherited: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[NodeClass, ...] = ()
    bytecode_root: str = ""
    warmed_root: str = ""


def make_plan(
    facts: NodeFacts, checkpoint: CheckpointFacts, profile: Profile, layout: LayoutAsk, engine: Engine, ask: PlanAsk
) -> Plan:
    """Return what boot would do on this node, each action with its reason.

    The hand-off phase is left empty: whether the record must be written anew is known only by comparing it with this
    plan (see `with_handoff`).

    Raises:
        FactMissing: a fact that the launch needs is a Gap.
        ProfileError: a setting would make the engine's caches miss at every boot, or the engine would refuse it.
    """
    placement = place(facts, workers_on_node(layout), profile.cpu, chosen_gpus(facts, layout, ask.classes) or None)
    key = engine.cache_key(facts, profile, layout, checkpoint.listing.commit)
    cache_dir = f"{ask.cache_root}/{key.name}"
    bytecode = bytecode_dir(facts, layout, ask.bytecode_root if profile.cache.enabled else "")
    launch = engine.launch(
        facts,
        profile,
        LaunchAsk(layout, ask.model_path, cache_dir, placement, ask.node_rank, ask.head_address, bytecode),
    )
    refused = flag_warnings(facts.engine, layout, launch)
    unstable = (
        *_stability(facts, profile, launch, layout, ask, cache_dir),
        *scan_warnings(facts.caches, key),
        *place_warnings(facts.mounts),
        *loading_warnings(facts.mounts, profile.warm, layout),
    )
    notes = (*placement.notes, *binding_notes(facts, layout, placement))
    tune, tune_note, tune_warnings = _tune(facts, profile, ask)
    start = (StartEngine(launch, "asked by --serve"),) if ask.serve else ()
    phases = (
        Phase("tune", (), tune, tune_note),
        _cache(facts, profile, layout, key, cache_dir, bytecode),
        *plan_bytes(checkpoint, profile.verify.mode, profile.warm, facts.memory, ask.model_path),
        Phase("handoff", ("tune", "cache", "publish"), ()),
        Phase("serve", ("handoff",), start, "" if start else "kboot-engine.service or `kboot exec` starts the engine"),
    )
    if profile.warm.enabled:
        budget_bytes = warm_budget_bytes(profile.warm, facts.memory)
        phases = with_engine_files(phases, plan_engine_files(facts, bytecode, ask.warmed_root, budget_bytes))
    return Plan(
        profile=profile.name,
        layout=layout,
        listing=checkpoint.listing,
        verify_mode=profile.verify.mode,
        placement=placement,
        cache_key=key,
        cache_dir=cache_dir,
        model_path=ask.model_path,
        launch=launch,
        phases=phases,
        warnings=(*tune_warnings, *refused, *unstable, *notes, *differs_from_published(checkpoint, profile)),
        gaps=facts.gaps,
    )


def with_handoff(plan: Plan, stale: tuple[str, ...]) -> Plan:
    """Return the plan with its hand-off phase: stale says why the record must be written; () when it holds."""
    if stale:
        phase = Phase("handoff", ("tune", "cache", "publish"), (WriteHandoff("; ".join(stale)),))
    else:
        phase = Phase("handoff", (), (), "the signed record holds: same boot, plan and files")
    return replace(plan, phases=tuple(phase if p.name == "handoff" else p for p in plan.phases))


def choose_phases(plan: Plan, only: Collection[PhaseName], skip: Collection[PhaseName]) -> Plan:
    """Return the plan with the phases that were not asked for emptied, each saying so."""
    return replace(plan, phases=choose(plan.phases, only, skip))


def _tune(facts: NodeFacts, profile: Profile, ask: PlanAsk) -> tuple[tuple[WriteSetting, ...], str, tuple[str, ...]]:
    wanted = plan_tune(facts, profile)
    if not wanted:
        return (), "every kernel setting is as the profile asks", ()
    if not ask.may_tune:
        text = f"{len(wanted)} kernel settings differ from the profile's and need root to be set, e.g. {wanted[0].path}"
        return (), text, (text,)
    return wanted, "", ()


def _cache(
    facts: NodeFacts, profile: Profile, layout: LayoutAsk, key: CacheKey, cache_dir: str, bytecode: str
) -> Phase:
    prepare, note = plan_cache(facts.caches, key, cache_dir, profile.cache.seed)
    aside, compile_ = plan_quarantine(facts, layout, cache_dir), plan_bytecode(facts, bytecode)
    return Phase("cache", (), (*prepare, *aside, *compile_), "" if aside or compile_ else note)


def _stability(
    facts: NodeFacts, profile: Profile, launch: Launch, layout: LayoutAsk, ask: PlanAsk, cache_dir: str
) -> tuple[str, ...]:
    if not profile.cache.enabled:
        return ()
    version = facts.engine.version if facts.engine.name == layout.engine else None
    troubles = key_troubles(layout, launch, version, ask.inherited, ask.model_path, cache_dir)
    if profile.cache.unstable == "warn":
        troubles = tuple(replace(t, refuse=False) for t in troubles)
    return refuse_unstable(troubles, layout)


def differs_from_published(checkpoint: CheckpointFacts, profile: Profile) -> tuple[str, ...]:
    """Return what the listing says otherwise than the profile's `[model]`; a finding, never an error."""
    weights = [f for f in checkpoint.listing.files if f.path.endswith(".safetensors")]
    published = profile.model
    found = []
    if published.files is not None and published.files != len(weights):
        found.append(f"the listing has {len(weights)} weight files, the profile says {published.files}")
    size_bytes = sum(f.size_bytes for f in weights)
    if published.size_bytes is not None and abs(size_bytes - published.size_bytes) > published.size_bytes // 100:
        found.append(f"the listing has {size_bytes} bytes of weights, the profile says {published.size_bytes}")
    indexed = any(f.path.endswith(".safetensors.index.json") for f in checkpoint.listing.files)
    lost, first = _not_there(f.path for f in weights)
    if lost and not indexed:
        more = f" and {lost - 1} more" if lost > 1 else ""
        found.append(f"the commit has no weight index, and by their numbers no {first}{more}: was all of it uploaded?")
    return tuple(found)


def _not_there(paths: Iterable[str]) -> tuple[int, str]:
    """Return how many shards the numbers of others promise in vain, and the first; they count from 1, or from 0."""
    numbers: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        if found := _NUMBERED.fullmatch(path):
            numbers.setdefault((found[1], found[3]), set()).add(int(found[2]))
    lost, first = 0, ""
    for (start, total), there in sorted(numbers.items()):
        wanted = range(int(total)) if 0 in there else range(1, int(total) + 1)
        if missing := len(wanted) - sum(n in wanted for n in there):
            lost += missing
            first = first or f"{start}-{next(n for n in wanted if n not in there):05d}-of-{total}.safetensors"
    return lost, first
