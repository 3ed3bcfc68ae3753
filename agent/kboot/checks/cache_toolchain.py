"""Are the compilers there that the engine calls for kernels it has not got?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import layout_for
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

CALLS = {
    "gcc": "Triton compiles its launchers with it",
    "nvcc": "DeepGEMM and FlashInfer compile with it",
}


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """vLLM and SGLang need a C compiler at every start (Triton), and nvcc for what is compiled on first use."""
    layout = layout_for(facts.gpu, profile) if profile else None
    engine = facts.engine.name
    if engine not in ("vllm", "sglang") or facts.engine.version is None or not facts.gpu.gpus:
        return Finding("skip", "no engine that compiles kernels is installed for GPUs here")
    if layout is not None and layout.engine != engine:
        return Finding("skip", f"layout {layout.name} uses {layout.engine}")
    missing = [name for name in CALLS if name not in facts.programs]
    if not missing:
        return Finding("ok", f"{', '.join(CALLS)} are in PATH")
    return Finding(
        "warn",
        f"{some(missing)} not in PATH; " + "; ".join(CALLS[name] for name in missing),
        wanted=", ".join(CALLS),
        why="the engine ends while it starts, unless every kernel is in the cache",
        hint="install gcc and the CUDA toolkit of the engine's version, or `kboot cache import` a whole cache",
    )


CHECK = Check(
    id="cache.toolchain",
    asks="Are the compilers there that the engine calls for kernels it has not got?",
    source="PATH; the installed engine",
    modes=ON_A_NODE,
    run=run,
)
