"""Are the device files there that a CUDA program opens?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

ALWAYS = ("nvidiactl", "nvidia-uvm")
WSL = "dxg"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare /dev with the number of GPUs; one device file each, and two for all."""
    gpu = facts.gpu
    nodes = facts.health.device_nodes
    if gpu.nvml not in ("ok", "no-library", "no-driver"):
        return Finding("unknown", f"NVML did not answer ({gpu.nvml}): see gpu.nvml_responsive")
    if not gpu.gpus:
        return Finding("skip", "no GPU is listed: see gpu.count")
    if nodes is None:
        return Finding("skip", "this recording has no /dev")
    if WSL in nodes:
        return Finding("ok", f"the GPUs of Windows are reached through /dev/{WSL}")
    each = [name for name in nodes if name.removeprefix("nvidia").isdigit()]
    missing = [f"/dev/{name}" for name in ALWAYS if name not in nodes]
    if len(each) < len(gpu.gpus):
        missing.append(f"{count(len(gpu.gpus) - len(each), 'file')} of /dev/nvidia0-{len(gpu.gpus) - 1}")
    if not missing:
        return Finding("ok", f"{count(len(each), 'GPU')} in /dev, with {' and '.join(ALWAYS)}")
    return Finding(
        "fail",
        f"missing: {some(missing)}",
        wanted="/dev/nvidiactl, /dev/nvidia-uvm and one /dev/nvidiaN for each GPU",
        why="NVML answers without them, CUDA programs end with 'no CUDA-capable device' or 'unknown error'",
        hint="`nvidia-modprobe -c 0 -u`; in a container start it with the NVIDIA runtime",
    )


CHECK = Check(
    id="gpu.devnodes",
    asks="Are the device files there that a CUDA program opens?",
    source="/dev/nvidia*",
    modes=ON_A_NODE,
    run=run,
)
