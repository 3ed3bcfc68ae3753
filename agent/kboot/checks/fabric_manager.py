"""Does the fabric manager run, in the driver's version?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count
from kboot.facts.asked_types import ManagerState
from kboot.facts.health_types import GpuHealth
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

FLAPPING = 3


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """It is needed where NVSwitches are on this machine's bus; GPUs that are registered prove that one did its work."""
    manager = facts.health.fabric_manager
    states = facts.health.fabrics
    registered = bool(states) and all(f.state == "completed" and f.status == "SUCCESS" for f in states)
    if manager is None or not (manager.switches or manager.versions or states):
        if facts.gpu.nvml not in ("ok", "no-library", "no-driver"):
            return Finding("unknown", f"NVML did not answer ({facts.gpu.nvml})")
        return Finding("skip", "there is no NVSwitch on this machine's PCI bus")
    if manager.versions and not registered:
        interface, driver = manager.versions
        return Finding(
            "fail",
            f"the fabric manager refuses: driver interface {interface}, driver {driver}",
            wanted="fabric manager and driver of exactly the same version",
            why="the fabric stays down: CUDA ends with error 802, NCCL hangs",
            hint=f"install nvidia-fabricmanager {facts.gpu.driver_version or driver} and restart it before the engine",
        )
    asked = facts.asked.manager or ManagerState()
    if asked.version and facts.gpu.driver_version and asked.version != facts.gpu.driver_version:
        return _other_version(asked.version, facts.gpu.driver_version, registered=registered)
    if asked.restarts is not None and asked.restarts >= FLAPPING:
        return _flapping(asked.restarts)
    if registered:
        return Finding("ok", f"{count(len(states), 'GPU')} registered with the fabric")
    if asked.active == "activating":
        return _starting()
    if states and not manager.switches and manager.running is not None:
        return _switches_elsewhere(len(states), runs=manager.running)
    if manager.running:
        return Finding("ok", f"nvidia-fabricmanager runs for {count(manager.switches, 'NVSwitch', 'NVSwitches')}")
    if facts.health.gpus and all(each == GpuHealth(each.index) for each in facts.health.gpus):
        return Finding("skip", "this recording does not tell of a fabric")
    if manager.running is None:
        return Finding("unknown", "the host's units cannot be seen from here (container): run kboot on the host")
    return Finding(
        "fail",
        f"{count(manager.switches, 'NVSwitch', 'NVSwitches')} on the PCI bus, nvidia-fabricmanager does not run "
        f"(driver {facts.gpu.driver_version or 'unknown'})",
        wanted="nvidia-fabricmanager.service active",
        why="CUDA ends with error 802 'system not yet initialized' until it has set the switches up",
        hint="`systemctl enable --now nvidia-fabricmanager`; `journalctl -u nvidia-fabricmanager` says why it failed",
    )


def _other_version(version: str, driver: str, *, registered: bool) -> Finding:
    return Finding(
        "warn" if registered else "fail",
        f"the installed fabric manager is {version}, the driver {driver}",
        wanted="fabric manager and driver of exactly the same version",
        why="it refuses this driver when it is next started" if registered else "it refuses this driver: error 802",
        hint=f"install nvidia-fabricmanager {driver} and restart it before the engine",
    )


def _flapping(restarts: int) -> Finding:
    return Finding(
        "warn",
        f"systemd has started nvidia-fabricmanager {restarts} times again since boot",
        wanted=f"fewer than {FLAPPING} restarts",
        why="each time GPUs leave the fabric: collectives that run then hang or end",
        hint="`journalctl -u nvidia-fabricmanager` says why it ended; see gpu.sxid",
    )


def _starting() -> Finding:
    return Finding(
        "warn",
        "nvidia-fabricmanager is starting",
        wanted="nvidia-fabricmanager.service active",
        why="CUDA ends with error 802 until it has set the switches up: a minute on a node that has just started",
        hint="wait until `systemctl is-active nvidia-fabricmanager` says active, then run doctor again",
    )


def _switches_elsewhere(waiting: int, *, runs: bool) -> Finding:
    return Finding(
        "fail",
        f"{count(waiting, 'GPU')} of a fabric whose switches are not on this machine's PCI bus, not all registered; "
        f"nvidia-fabricmanager {'runs' if runs else 'does not run'}",
        wanted="every GPU registered with the fabric",
        why="CUDA ends with error 802 'system not yet initialized' until then",
        hint="B200 and B300 boards: it reaches their switches by InfiniBand: `modprobe -a mlx5_ib ib_umad` (in "
        "linux-modules-extra), nvlsm installed, then restart it; in NVLink racks and virtual machines it is elsewhere",
    )


CHECK = Check(
    id="fabric.manager",
    asks="Does the fabric manager run, in the driver's version?",
    source="NVSwitches on the PCI bus; the unit's cgroup and restarts; nv-fabricmanager --version; its log",
    modes=ON_A_NODE,
    run=run,
)
