"""Is the engine the layout asks for installed?"""

from __future__ import annotations

from collections.abc import Mapping

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, layout_for
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

NOT_PACKAGES = ("demo", "command")
_FLASHINFER = "flashinfer-python"
_KERNELS = ("flashinfer-cubin", "flashinfer-jit-cache")
_UNCHECKED = "FLASHINFER_DISABLE_VERSION_CHECK"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge the package's version as found without importing it."""
    if profile is None:
        return Finding("skip", "no profile says which engine")
    layout = layout_for(facts.gpu, profile) or profile.layout[0]
    if layout.engine in NOT_PACKAGES:
        return Finding("skip", f"layout {layout.name} starts {layout.engine}, which is no package")
    engine = facts.engine
    if engine.name != layout.engine:
        return Finding("unknown", f"layout {layout.name} starts {layout.engine}; it was not looked for")
    if engine.version is None:
        if any(gap.fact.startswith("engine") for gap in facts.gaps):
            return Finding("unknown", f"{engine.name} could not be looked for ({gap_reason(facts, 'engine')})")
        return Finding(
            "fail",
            f"{engine.name} is not installed, layout {layout.name} starts it",
            wanted=engine.name,
            why="the hand-off has nothing to start",
            hint=f"install {engine.name} in the environment the engine unit uses",
        )
    inherited = {setting.name for setting in facts.upkeep.environ or ()}
    if _UNCHECKED not in inherited | set(layout.env) and (odd := _other_flashinfer(engine.packages)):
        return _of_two_versions(odd, engine.packages[_FLASHINFER])
    return Finding("ok", f"{engine.name} {engine.version} in {engine.interpreter or 'this environment'}")


def _other_flashinfer(packages: Mapping[str, str]) -> tuple[str, ...]:
    """Return FlashInfer's packages of ready-made kernels that are not of its version; a CUDA suffix does not count."""
    if _FLASHINFER not in packages:
        return ()
    wanted = packages[_FLASHINFER].partition("+")[0]
    return tuple(
        f"{name} {packages[name]}" for name in _KERNELS if packages.get(name, wanted).partition("+")[0] != wanted
    )


def _of_two_versions(odd: tuple[str, ...], version: str) -> Finding:
    return Finding(
        "fail",
        f"{some(odd)} beside {_FLASHINFER} {version}",
        wanted=f"all of version {version}",
        why="FlashInfer refuses to be imported, and the engine ends with it",
        hint="install them in that version in the engine's environment, or take them away",
    )


CHECK = Check(
    id="engine.version",
    asks="Is the engine the layout asks for installed?",
    source="metadata of the installed packages",
    modes=EVERYWHERE,
    run=run,
)
