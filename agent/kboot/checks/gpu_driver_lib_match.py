"""Are the loaded kernel module and the user-space library of the same driver version?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Say so where NVML refused for this reason, with the versions that are known."""
    gpu = facts.gpu
    if gpu.nvml == "ok" and gpu.driver_version is None:
        return Finding("unknown", "NVML answers, but does not say of which driver version it is")
    if gpu.nvml == "ok":
        return Finding("ok", f"module and library agree on driver {gpu.driver_version}")
    if gpu.nvml == "mismatch":
        module = f"module {gpu.driver_version}" if gpu.driver_version else "the loaded module"
        detail = f" ({gpu.detail})" if gpu.detail else ""
        return Finding(
            "fail",
            f"{module} and libnvidia-ml are of different versions{detail}",
            wanted="the same version of both",
            why="no CUDA program starts until then; restarting the engine does not help",
            hint="reboot, or unload and reload the nvidia modules; keep unattended upgrades off the driver packages",
        )
    if gpu.nvml in ("no-library", "no-driver"):
        return Finding("skip", f"there is no pair to compare ({gpu.nvml})")
    return Finding("unknown", f"NVML did not say ({gpu.nvml}); loaded module {gpu.driver_version or 'unknown'}")


CHECK = Check(
    id="gpu.driver_lib_match",
    asks="Are the loaded kernel module and the user-space library of the same driver version?",
    source="nvmlInit; /proc/driver/nvidia/version",
    modes=ON_A_NODE,
    run=run,
)
