"""Does the engine's build have kernels for these GPUs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.engine_needs import needs_of
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge by the oldest and newest compute capability that a packaged engine has kernels for."""
    gpus = [g for g in facts.gpu.gpus if g.compute_capability]
    if facts.gpu.nvml not in ("ok", "no-library", "no-driver"):
        return Finding("unknown", f"NVML did not answer ({facts.gpu.nvml})")
    layout = layout_for(facts.gpu, profile) if profile else None
    engine = layout.engine if layout else facts.engine.name
    needs = needs_of(engine, facts.engine.version if engine == facts.engine.name else None)
    if not gpus or needs is None:
        return Finding("skip", "no GPU is listed" if not gpus else f"kboot has no table for engine {engine or 'none'}")
    oldest = needs.capability
    old = [g.index for g in gpus if g.compute_capability and g.compute_capability < oldest]
    found = some(sorted({"{}.{}".format(*g.compute_capability) for g in gpus if g.compute_capability}))
    if not old:
        return Finding("ok", f"compute capability {found}; {engine} has kernels from {oldest[0]}.{oldest[1]} on")
    return Finding(
        "fail",
        f"compute capability {found}; {engine}'s packages have kernels from {oldest[0]}.{oldest[1]} on",
        wanted=f"{oldest[0]}.{oldest[1]} or newer",
        why="the engine ends with 'no kernel image is available for execution on the device'",
        hint="another engine, an older release of it, or a build for this GPU",
    )


CHECK = Check(
    id="gpu.arch_support",
    asks="Does the engine's build have kernels for these GPUs?",
    source="NVML compute capability; the installed engine",
    modes=ON_A_NODE,
    run=run,
)
