"""May the kernel load the driver of these GPUs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """With secure boot the kernel takes signed modules only; one that it refuses looks like no GPU at all."""
    upkeep = facts.upkeep
    if not facts.gpu.pci_bus_ids:
        return Finding("skip", "there is no NVIDIA GPU on the PCI bus")
    refused = [e for e in facts.health.kernel_events or () if e.kind == "module-refused"]
    if upkeep.nvidia_module is None and upkeep.secure_boot is None:
        if unread(facts, "upkeep"):
            return Finding("unknown", f"this machine could not be looked at ({gap_reason(facts, 'upkeep')})")
        return Finding("skip", "this machine tells neither secure boot nor its modules")
    strict = upkeep.secure_boot is True or upkeep.lockdown in ("integrity", "confidentiality")
    said = (
        f"secure boot is {'on' if upkeep.secure_boot else 'off'}, lockdown is {upkeep.lockdown or 'not in this kernel'}"
    )
    if upkeep.nvidia_module is not False:
        return Finding("ok", f"the driver is loaded; {said}")
    if not strict and not refused:
        return Finding("ok", f"{said}: signatures are not why the driver is not loaded (see gpu.count)")
    return Finding(
        "fail",
        f"the driver is not loaded, and {said}" + (f": {refused[-1].text}" if refused else ""),
        wanted="a driver signed with a key that this machine knows",
        why="no GPU can be used",
        hint="`mokutil --import` the key that signed it (DKMS: /var/lib/shim-signed/mok/MOK.der) and reboot, "
        "or install the distribution's signed driver",
    )


CHECK = Check(
    id="sys.secureboot",
    asks="May the kernel load the driver of these GPUs?",
    source="/sys/firmware/efi/efivars/SecureBoot-*; /sys/kernel/security/lockdown; /sys/module/nvidia; /dev/kmsg",
    modes=ON_A_NODE,
    run=run,
)
