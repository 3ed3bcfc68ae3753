"""Does every GPU on the PCI bus answer, and are they the number the profile needs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gpus_for, layout_for, needs_gpus, sees_all_gpus
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.basic_types import Gap
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Compare NVML's list, the PCI bus and the profile's layout."""
    gpu = facts.gpu
    on_bus = len(gpu.pci_bus_ids)
    if gpu.nvml in ("no-library", "no-driver"):
        return _without_driver(facts, profile)
    if gpu.nvml != "ok":
        return Finding("unknown", f"NVML did not list GPUs ({gpu.nvml}); the PCI bus has {on_bus}", hint=_SEE_NVML)
    unknown = _unknown_devices(facts)
    if not gpu.gpus and (on_bus or unknown):
        return _probe_failed(facts, gpu.pci_bus_ids or unknown)
    lost = _lost(facts)
    if lost:
        return _lost_gpus(facts, lost)
    return _as_asked(facts, profile)


_SEE_NVML = "see gpu.nvml_responsive and gpu.driver_lib_match"


def _without_driver(facts: NodeFacts, profile: Profile | None) -> Finding:
    on_bus = facts.gpu.pci_bus_ids
    if on_bus and facts.gpu.nvml == "no-library" and facts.gpu.driver_version:
        return Finding(
            "fail",
            f"the PCI bus has {count(len(on_bus), 'NVIDIA GPU')} ({some(on_bus)}) and module "
            f"{facts.gpu.driver_version} is loaded, but libnvidia-ml.so.1 is not here",
            wanted="the libraries of the module's version",
            why="nothing tells what GPUs these are, and no engine can start on them",
            hint="container: the NVIDIA runtime, with NVIDIA_DRIVER_CAPABILITIES=compute,utility; "
            "host: install the driver's libraries",
        )
    if on_bus:
        return Finding(
            "fail",
            f"the PCI bus has {count(len(on_bus), 'NVIDIA GPU')} ({some(on_bus)}), but no driver is loaded",
            wanted="the NVIDIA driver for these GPUs",
            why="no engine can start on them",
            hint="`modprobe nvidia` says why: not installed, not built for this kernel (`uname -r`, `dkms status`), or "
            "another driver has them (`lspci -nnk -d 10de:`); then `kboot doctor --check gpu.count`",
        )
    if profile is not None and all(needs_gpus(layout) for layout in profile.layout):
        return Finding(
            "fail",
            f"this machine has no NVIDIA GPU; every layout of profile {profile.name} needs some",
            wanted=some(sorted({f"{layout.gpus_per_node}x {layout.gpu}" for layout in profile.layout})),
            why="the engine cannot start",
            hint='`kboot profile list` names profiles; one with a layout for gpu = "none" runs here',
        )
    return Finding("skip", "this machine has no NVIDIA GPU, and none is asked for")


def _unknown_devices(facts: NodeFacts) -> tuple[str, ...]:
    """Return bus ids of NVIDIA devices whose kind sysfs did not tell: they may be GPUs, so they are not "no GPU"."""
    return tuple(gap.fact.removeprefix("gpu.pci.") for gap in facts.gaps if gap.fact.startswith("gpu.pci."))


def _probe_failed(facts: NodeFacts, devices: tuple[str, ...]) -> Finding:
    gpu = facts.gpu
    driver = gpu.driver_version or "of unknown version"
    said = _said(facts, devices)
    return Finding(
        "fail",
        f"NVML lists 0 GPUs, the PCI bus has {len(devices)} ({some(devices)}): driver {driver} did not take them over, "
        + (some(said) if said else "it is too old for them or its probe failed"),
        wanted=f"{count(len(devices), 'GPU')} in NVML",
        why="no engine can start on them",
        hint="read `dmesg | grep -i -e nvrm -e nvidia` and install a driver that knows these devices",
    )


def _said(facts: NodeFacts, devices: tuple[str, ...]) -> tuple[str, ...]:
    """Return why the driver did not take devices over, in its own words."""
    events = facts.health.kernel_events or ()
    said = {e.text.replace("NVRM: ", "") for e in events if e.kind == "gpu-refused" and e.bus_id in devices}
    return tuple(sorted(said))


def _lost(facts: NodeFacts) -> tuple[str, ...]:
    """Return bus ids on the bus that NVML did not list, or else indices that NVML counted but could not open."""
    listed = {g.bus_id for g in facts.gpu.gpus}
    unlisted = tuple(b for b in facts.gpu.pci_bus_ids if b not in listed)
    if unlisted and sees_all_gpus(facts):
        return unlisted
    return tuple(sorted({_gap_index(g) for g in facts.gaps} - _indices(facts) - {""}))


def _indices(facts: NodeFacts) -> set[str]:
    return {str(g.index) for g in facts.gpu.gpus}


def _gap_index(gap: Gap) -> str:
    """Return the NVML index a gap is about ("gpus.1", "gpu.gpus.1.memory_used_bytes" → "1"), or ""."""
    parts = gap.fact.removeprefix("gpu.").split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "gpus" and parts[1].isdigit() else ""


def _lost_gpus(facts: NodeFacts, lost: tuple[str, ...]) -> Finding:
    usable = len(facts.gpu.gpus)
    unopened = {g.reason for g in facts.gaps if _gap_index(g) and _gap_index(g) not in _indices(facts)}
    reasons = sorted(unopened | set(_said(facts, lost)))
    names = some(f"GPU {each}" if each.isdigit() else each for each in lost)
    return Finding(
        "fail",
        f"{usable} of {count(usable + len(lost), 'GPU')} answer; lost: {names}"
        + (f" ({some(reasons)})" if reasons else ""),
        wanted=f"{usable + len(lost)} answering",
        why="a layout for the whole node cannot start, and other GPUs' jobs on this node may fail with it",
        hint="read `dmesg | grep -i xid`; reset the GPU or reboot; drain the node if it comes back",
    )


def _as_asked(facts: NodeFacts, profile: Profile | None) -> Finding:
    gpus = facts.gpu.gpus
    names = sorted({g.name or "of unknown name" for g in gpus})
    seen = f"{count(len(gpus), 'GPU')} answer ({some(names)})" if gpus else "no GPU, as on the PCI bus"
    if profile is None:
        return Finding("ok", seen)
    layout = layout_for(facts.gpu, profile)
    if layout is None:
        return Finding(
            "fail",
            f"{seen}; profile {profile.name} has no layout for them",
            wanted=some(sorted({f"{each.gpus_per_node}x {each.gpu}" for each in profile.layout})),
            why="boot has no layout to plan with",
            hint=f"`kboot profile show {profile.name}`; add a [[layout]] for this GPU",
        )
    if len(gpus_for(facts.gpu, layout)) < layout.gpus_per_node:
        return Finding(
            "fail",
            f"{seen}; layout {layout.name} needs {layout.gpus_per_node}x {layout.gpu} on each node",
            wanted=f"{layout.gpus_per_node}x {layout.gpu}",
            why="the layout cannot start",
            hint=f"`kboot fit {profile.name}` shows layouts that fit; a missing GPU shows in `lspci -d 10de:`",
        )
    return Finding("ok", f"{seen}; layout {layout.name} uses {layout.gpus_per_node}")


CHECK = Check(
    id="gpu.count",
    asks="Does every GPU on the PCI bus answer, and are they the number the profile needs?",
    source="NVML; /sys/bus/pci/devices/*/{class,vendor}",
    modes=ON_A_NODE,
    run=run,
)
