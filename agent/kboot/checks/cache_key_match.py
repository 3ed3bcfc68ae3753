"""Is there a kernel cache for exactly this GPU, driver, engine, model and layout?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for, needs_gpus, unread
from kboot.checks.launching import cache_key
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.plan.cache import differing
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name what is different about the nearest one that is there."""
    if profile is not None and not profile.cache.enabled:
        return Finding("skip", "the profile keeps no kernel caches")
    if unread(facts, "caches"):
        return Finding("unknown", f"the caches could not be looked at ({gap_reason(facts, 'caches')})")
    layout = layout_for(facts.gpu, profile) if profile else None
    if layout is not None and not needs_gpus(layout):
        return Finding("skip", f"layout {layout.name} compiles nothing for GPUs")
    key = cache_key(facts, profile, checkpoint)
    if isinstance(key, str):
        return Finding("skip", key)
    caches = facts.caches
    if key.name in caches.complete:
        return Finding("ok", f"{key.name} is there, from a boot that reached ready")
    if key.name in caches.factors_of:
        return Finding("ok", f"{key.name} is there; that no boot has reached ready with it is cache.complete's finding")
    if not caches.factors_of:
        return Finding("skip", f"there are none yet: the first boot with {key.name} compiles what it needs")
    nearest = min(caches.factors_of, key=lambda name: (len(differing(caches.factors_of[name], key.factors)), name))
    changes = differing(caches.factors_of[nearest], key.factors)
    return Finding(
        "warn",
        f"none is for {key.name}; nearest is {nearest}: "
        + some(f"{name} {old or 'absent'} → {new or 'absent'}" for name, old, new in changes),
        wanted=f"cache/{key.name}",
        why="the next boot tunes and compiles everything anew: minutes to hours",
        hint=f"`kboot cache import FILE` of a node of this kind, or cache.seed in the profile; "
        f"`kboot cache explain --profile {profile.name if profile else ''}`".replace(" --profile `", "`"),
    )


CHECK = Check(
    id="cache.key_match",
    asks="Is there a kernel cache for exactly this GPU, driver, engine, model and layout?",
    source="cache/*/factors.json in the state folder",
    modes=ON_A_NODE,
    run=run,
)
