"""Can the driver run what the engine's packages were built for?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.drivers import OLDEST_DRIVER
from kboot.checks.engine_needs import needs_of
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import EngineFacts, NodeFacts
from kboot.profile.types import Profile

_TAG = re.compile(r"\+cu(\d{2})\d$")
_RUNTIME = re.compile(r"^nvidia-cuda-runtime(?:-cu(\d{2}))?$")


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the major CUDA version of the packages with the driver's; within one major version newer minors run."""
    gpu = facts.gpu
    if gpu.nvml in ("no-library", "no-driver"):
        return Finding("skip", f"no GPU driver is loaded ({gpu.nvml})")
    built = _built_for(facts.engine.packages) or _needed(facts.engine)
    if built is None:
        if gpu.nvml != "ok":
            return Finding("unknown", f"NVML did not answer ({gpu.nvml})")
        return Finding("skip", "no package tells a CUDA version")
    major, name = built
    driver = re.match(r"(\d+)\.", gpu.cuda_version or "")
    if driver is None:
        return Finding("unknown", f"the driver's CUDA version could not be read ({gap_reason(facts, 'gpu')})")
    seen = f"{name} is built for CUDA {major}, driver {gpu.driver_version or 'of unknown version'} runs "
    if int(driver.group(1)) >= major:
        return Finding("ok", f"{seen}{gpu.cuda_version}")
    return Finding(
        "fail",
        f"{seen}{gpu.cuda_version} at most",
        wanted=f"driver {OLDEST_DRIVER.get(major, 'of that CUDA version')} or newer",
        why="the engine ends with 'CUDA driver version is insufficient' when it starts",
        hint=f"upgrade the driver, install cuda-compat-{major}, or install packages built for CUDA {driver.group(1)}",
    )


def _built_for(packages: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the CUDA major version of torch's tag ("2.9.0+cu130") or of the runtime package, and who says it."""
    tag = _TAG.search(packages.get("torch", ""))
    if tag:
        return int(tag.group(1)), f"torch {packages['torch']}"
    for name, version in sorted(packages.items()):
        match = _RUNTIME.match(name)
        major = match and (match.group(1) or version.partition(".")[0])
        if major and major.isdigit():
            return int(major), f"{name} {version}"
    return None


def _needed(engine: EngineFacts) -> tuple[int, str] | None:
    """Return what the engine's own release needs, where no package says what it was built for."""
    needs = needs_of(engine.name, engine.version)
    if needs is None or needs.cuda is None:
        return None
    return needs.cuda, f"{engine.name} {engine.version}"


CHECK = Check(
    id="gpu.driver_cuda_compat",
    asks="Can the driver run what the engine's packages were built for?",
    source="NVML CUDA version; the installed torch and CUDA runtime packages",
    modes=ON_A_NODE,
    run=run,
)
