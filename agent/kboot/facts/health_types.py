"""What a node says of its own health. Frozen values only; doctor's checks judge them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class RemappedRows:
    """Rows of GPU memory that were replaced. pending: one waits for a reset. failure: there was none to replace it."""

    correctable: int
    uncorrectable: int
    pending: bool
    failure: bool


@dataclass(frozen=True, slots=True)
class Fabric:
    """A GPU's registration with the NVLink switches, in the vendor's words.

    state: "not-supported", "not-started", "in-progress", "completed". status: "SUCCESS" or the error's name.
    unhealthy: names of the health mask's fields that say so.
    """

    state: str
    status: str
    clique_id: int
    cluster_uuid: str
    unhealthy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """One GPU. None: the part does not have it, or it was not asked; `refused` has the errors of what should answer.

    ecc_uncorrected: (since the driver was loaded, over its life). slowdown: reasons why clocks are held down now.
    nvlinks: of each link, whether it is up; empty where it has none. power_w: (enforced, default).
    virtualization: "none", "passthrough", "vgpu"…. refused: field → name of the error.
    """

    index: int
    persistence: bool | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    ecc_uncorrected: tuple[int, int] | None = None
    sram_threshold: bool | None = None
    remapped: RemappedRows | None = None
    fabric: Fabric | None = None
    nvlinks: tuple[bool, ...] | None = None
    slowdown: tuple[str, ...] | None = None
    power_w: tuple[float, float] | None = None
    temperature_c: int | None = None
    memory_temperature_c: int | None = None
    slowdown_c: int | None = None
    compute_mode: str | None = None
    recovery_action: str | None = None
    bar1_bytes: int | None = None
    vbios: str | None = None
    virtualization: str | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PciHealth:
    """One GPU's PCI device. width: (now, most). aer: counters by "fatal", "nonfatal", "correctable" since boot.

    iommu: how its IOMMU group maps ("identity", "DMA", "DMA-FQ"); "" where it is in none.
    """

    bus_id: str
    width: tuple[int, int] | None
    speed_gt_s: tuple[float, float] | None
    aer: Mapping[str, int]
    iommu: str


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """A line of the kernel log that tells of a fault.

    kind: "xid", "sxid", "off-bus", "gpu-not-started", "gpu-refused", "oom", "read-only", "io-error", "hung-task",
    "module-refused", "server-silent". bus_id: of a GPU or switch, "" for others. code: number of the Xid or SXid, pid
    of a hung task. at_s: since boot; None where the line has no time.
    """

    kind: str
    text: str
    bus_id: str = ""
    code: int = 0
    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class FabricManager:
    """switches: NVSwitches on the PCI bus. running: its unit's cgroup has a process; None where no units are seen.

    versions: (interface, driver) that its log calls different; None where it does not complain.
    """

    switches: int
    running: bool | None
    versions: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What the machine tells of faults. The defaults are those of a machine without GPUs that was not asked.

    kernel_events: None where the log could not be read (a Gap says why) or a recording has none.
    device_nodes: names in /dev that lead with "nvidia", and WSL's "dxg"; None where /dev could not be listed.
    open_module: the loaded NVIDIA module is the open one; None without one.
    nvml_seconds: what asking NVML for everything took.
    """

    gpus: tuple[GpuHealth, ...] = ()
    pci: tuple[PciHealth, ...] = ()
    kernel_events: tuple[KernelEvent, ...] | None = None
    device_nodes: tuple[str, ...] | None = None
    open_module: bool | None = None
    fabric_manager: FabricManager | None = None
    nvml_seconds: float | None = None

    @property
    def fabrics(self) -> tuple[Fabric, ...]:
        """The registrations of the GPUs that are made for a fabric."""
        return tuple(gpu.fabric for gpu in self.gpus if gpu.fabric and gpu.fabric.state != "not-supported")
