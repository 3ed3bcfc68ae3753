"""Can a program start CUDA on every GPU?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.link_types import CudaFacts
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

_HINT_OF = {
    802: "the NVLink fabric is not set up: see fabric.manager and fabric.state; wait for it before the engine starts",
    803: "libcuda.so.1 is of another version than the loaded module: reload the module or reboot",
    804: "take the cuda-compat libraries out of LD_LIBRARY_PATH: this GPU cannot be used through them",
    999: "see gpu.devnodes: `nvidia-modprobe -c 0 -u` makes /dev/nvidia-uvm; then `dmesg | grep -i nvrm`",
    100: "CUDA_VISIBLE_DEVICES may hide all GPUs, or the container was not given them (`--gpus all`)",
    34: "a stub of libcuda.so.1 is found first: take CUDA's stubs folder out of LD_LIBRARY_PATH",
}


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge what a child process met that started CUDA, and, where a mode measures, took memory of each free GPU."""
    cuda = facts.asked.cuda
    if not facts.gpu.gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    if cuda is None:
        return _not_asked(facts)
    if cuda.state in ("hung", "crashed"):
        return Finding(
            "unknown",
            f"CUDA did not answer: {cuda.detail or cuda.state}",
            wanted="an answer of cuInit",
            why="an engine that starts now may hang the same way",
            hint="`ps axl | grep ' D'` and `dmesg | tail` show whether the driver hangs; `--mode full` waits longer",
        )
    if cuda.state == "no-library":
        return Finding(
            "fail",
            "libcuda.so.1 is not installed, though NVML is",
            wanted="libcuda.so.1 of the driver's version",
            why="no engine can use a GPU",
            hint="container: NVIDIA_DRIVER_CAPABILITIES=compute,utility; host: install the driver's CUDA library",
        )
    return _refused(cuda) if cuda.state == "refused" else _devices(facts, cuda)


def _not_asked(facts: NodeFacts) -> Finding:
    if any(gap.fact == "asked.cuda" for gap in facts.gaps):
        return Finding("unknown", f"CUDA could not be asked ({gap_reason(facts, 'asked.cuda')})")
    return Finding("skip", "this recording does not tell what CUDA answers")


def _refused(cuda: CudaFacts) -> Finding:
    return Finding(
        "fail",
        f"cuInit answers {cuda.code} ({cuda.error})",
        wanted="cuInit answers 0",
        why="every engine ends with this error when it starts",
        hint=_HINT_OF.get(cuda.code, "`dmesg | grep -i -e nvrm -e xid` says what the driver met"),
    )


def _devices(facts: NodeFacts, cuda: CudaFacts) -> Finding:
    failed = {d.bus_id: d.failed for d in cuda.devices if d.failed}
    hidden = facts.gpu.visible is not None or any(g.mig for g in facts.gpu.gpus)
    if failed:
        index_of = {g.bus_id: g.index for g in facts.gpu.gpus}
        named = some(f"GPU {index_of.get(bus, '?')} ({bus}: {why})" for bus, why in sorted(failed.items()))
        return Finding(
            "fail",
            f"no memory can be taken of {named}",
            wanted="a context and 1 MiB on every GPU",
            why="the engine's worker on it ends when it starts, and the others with it",
            hint=f"`nvidia-smi -q -i {min(failed)}` and gpu.xid_recent; reset the GPU or reboot",
        )
    if len(cuda.devices) < len(facts.gpu.gpus) and not hidden:
        return Finding(
            "fail",
            f"CUDA lists {len(cuda.devices)} of {count(len(facts.gpu.gpus), 'GPU')} that NVML lists",
            wanted=f"{count(len(facts.gpu.gpus), 'GPU')} in both",
            why="a layout for the whole node cannot start",
            hint="`dmesg | grep -i nvrm`; /dev/nvidiaN of the missing one must be there and ours to open",
        )
    tried = sum(d.failed is not None for d in cuda.devices)
    memory = f", memory taken of {tried}" if tried else ""
    return Finding("ok", f"CUDA starts and lists {count(len(cuda.devices), 'GPU')}{memory}")


CHECK = Check(
    id="gpu.cuda_init",
    asks="Can a program start CUDA on every GPU?",
    source="cuInit in a child process; modes full and deep: a context and memory on each GPU without processes",
    modes=ON_A_NODE,
    run=run,
)
