"""Can network cards read and write GPU memory?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Either nvidia_peermem is loaded, or the open module gives memory away as dma-buf."""
    gpu = facts.gpu
    if gpu.nvml not in ("ok", "no-library", "no-driver"):
        return Finding("unknown", f"NVML did not answer ({gpu.nvml})")
    if not gpu.gpus or not any(p.state == "ACTIVE" for p in facts.rdma):
        return Finding("skip", "there is no GPU, or no RDMA port that is up")
    if "nvidia_peermem" in facts.system.modules:
        return Finding("ok", "nvidia_peermem is loaded")
    if facts.health.open_module:
        return Finding("ok", "the open NVIDIA module offers dma-buf")
    return Finding(
        "warn",
        "nvidia_peermem is not loaded, and the NVIDIA module is not the open one",
        wanted="nvidia_peermem, or the open module with dma-buf",
        why="NCCL copies every message through host memory",
        hint="`modprobe nvidia_peermem`, and its name in /etc/modules-load.d/nvidia-peermem.conf",
    )


CHECK = Check(
    id="net.rdma_gpu",
    asks="Can network cards read and write GPU memory?",
    source="/sys/module/nvidia_peermem; the kind of the NVIDIA module",
    modes=ON_A_NODE,
    run=run,
)
