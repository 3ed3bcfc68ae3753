"""Does the GPU driver answer inside its deadline?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge how NVML's initialisation went; versions that differ are gpu.driver_lib_match's finding."""
    gpu = facts.gpu
    detail = f" ({gpu.detail})" if gpu.detail else ""
    match gpu.nvml:
        case "ok":
            return Finding("ok", f"NVML answers, driver {gpu.driver_version or 'of unknown version'}")
        case "hung":
            return Finding(
                "fail",
                f"NVML did not answer inside its deadline{detail}",
                wanted="an answer within seconds",
                why="every CUDA program on this node will hang the same way",
                hint="`kboot doctor --mode full` waits longer (without nvidia-persistenced a GPU wakes in 3-4 s); "
                "if it hangs there too, keep evidence (`dmesg`, `ps axl | grep ' D'`) and reboot",
            )
        case "error":
            return Finding(
                "fail",
                f"NVML could not be initialised{detail}",
                wanted="NVML_SUCCESS",
                why="no engine can start on this node's GPUs",
                hint=_hint(facts),
            )
        case "mismatch":
            return Finding("skip", "NVML refuses because module and library differ: see gpu.driver_lib_match")
        case _:
            return _not_installed(facts)


def _hint(facts: NodeFacts) -> str:
    """Return the step for what NVML said; a container that worked loses its devices when the host's systemd reloads."""
    if facts.gpu.detail.startswith("NVML says NO_PERMISSION"):
        return (
            "this user may not open /dev/nvidiactl: `ls -l /dev/nvidia*`; DeviceAllow= of the unit; groups of the user"
        )
    if facts.os.container and facts.gpu.detail.startswith("NVML says UNKNOWN"):
        return (
            "start the container anew; if it worked before, `systemctl daemon-reload` on the host took its devices: "
            "give GPUs by CDI, or `nvidia-ctk system create-dev-char-symlinks --create-all` there"
        )
    return "read `dmesg | grep -i nvrm` and `systemctl status nvidia-persistenced`"


def _not_installed(facts: NodeFacts) -> Finding:
    on_bus = len(facts.gpu.pci_bus_ids)
    what = "no NVIDIA kernel module is loaded"
    if facts.gpu.nvml == "no-library":
        loaded = f", though module {facts.gpu.driver_version} is loaded" if facts.gpu.driver_version else ""
        what = f"NVML is not installed{loaded}"
    if not on_bus:
        return Finding("skip", f"{what}, and no NVIDIA GPU is on the PCI bus")
    return Finding(
        "fail",
        f"{what}, and the PCI bus has {count(on_bus, 'NVIDIA GPU')}",
        wanted="libnvidia-ml.so.1 and a loaded nvidia module",
        why="no engine can start on this node's GPUs",
        hint="install the NVIDIA driver, after a kernel update anew (`dkms status`); in a container start it with the "
        "NVIDIA runtime",
    )


CHECK = Check(
    id="gpu.nvml_responsive",
    asks="Does the GPU driver answer inside its deadline?",
    source="nvmlInit in a child process",
    modes=ON_A_NODE,
    run=run,
)
