"""Have equal GPUs the same firmware?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import ranges, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare the VBIOS of GPUs of the same name."""
    versions = told(facts, "vbios", lambda g: g.vbios)
    by_name: dict[str, dict[str, list[int]]] = {}
    for gpu in facts.gpu.gpus:
        if gpu.index in versions.values:
            by_name.setdefault(gpu.name, {}).setdefault(versions.values[gpu.index], []).append(gpu.index)
    mixed = {name: each for name, each in by_name.items() if len(each) > 1}
    if not mixed:
        return versions.rest(f"VBIOS {some(sorted(set(versions.values.values())))}")
    return Finding(
        "warn",
        some(
            f"{name}: {some(f'{version} on GPU {ranges(where)}' for version, where in sorted(each.items()))}"
            for name, each in sorted(mixed.items())
        ),
        wanted="one VBIOS for all GPUs of a kind",
        why="a replaced GPU with other firmware may clock and throttle differently",
        hint="update the firmware with the vendor's bundle for this system",
    )


CHECK = Check(
    id="gpu.vbios_inforom",
    asks="Have equal GPUs the same firmware?",
    source="NVML VBIOS version",
    modes=ON_A_NODE,
    run=run,
)
