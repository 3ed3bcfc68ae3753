"""How would kboot start the engine here, as far as a node that is perhaps not ready yet lets one say?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gpus_for, layout_for
from kboot.engines import engine as engine_named
from kboot.engines.types import CacheKey, Launch, LaunchAsk
from kboot.errors import KbootError
from kboot.facts.types import NodeFacts
from kboot.plan.placement import place, workers_on_node
from kboot.profile.types import LayoutAsk, Profile
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Launching:
    """The layout that is meant, its command line and the key of its kernel caches. folder: of that key."""

    layout: LayoutAsk
    key: CacheKey
    launch: Launch
    model_path: str
    folder: str


def cache_key(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> CacheKey | str:
    """Return the key of the kernel caches of the layout that is meant; else why there is none yet."""
    if profile is None:
        return "no profile says which engine"
    layout = layout_for(facts.gpu, profile)
    if layout is None:
        return "no layout of the profile is for these GPUs: see gpu.count"
    if checkpoint is None:
        return "no commit is listed on this disk"
    try:
        return engine_named(layout.engine).cache_key(facts, profile, layout, checkpoint.listing.commit)
    except KbootError as exc:
        return exc.message


def launching(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Launching | str:
    """Return how the engine would be started; else why that cannot be said."""
    key = cache_key(facts, profile, checkpoint)
    if isinstance(key, str) or profile is None:
        return str(key)
    layout = layout_for(facts.gpu, profile) or profile.layout[0]
    state = next((m.path for m in facts.mounts if m.role == "state"), "")
    model_path, folder = f"{state}/models/{profile.name}", f"{state}/cache/{key.name}"
    try:
        placement = place(facts, workers_on_node(layout), profile.cpu, gpus_for(facts.gpu, layout) or None)
        ask = LaunchAsk(layout, model_path, folder, placement)
        launch = engine_named(layout.engine).launch(facts, profile, ask)
    except (KbootError, ValueError) as exc:
        return exc.message if isinstance(exc, KbootError) else str(exc)
    return Launching(layout, key, launch, model_path, folder)
