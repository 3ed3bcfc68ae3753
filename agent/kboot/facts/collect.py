"""What is found on this node? Every collector, run once, side by side with the one that may have to wait (NVML)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any

from kboot.facts.caches import collect_caches
from kboot.facts.cpu import collect_cpu
from kboot.facts.disks import collect_disks
from kboot.facts.engine import collect_engine
from kboot.facts.fleet_types import FleetFacts
from kboot.facts.gpu import collect_gpu, nvidia_bus_ids
from kboot.facts.health import collect_health
from kboot.facts.limits import collect_limits
from kboot.facts.links import collect_links
from kboot.facts.memory import collect_memory
from kboot.facts.network import collect_network
from kboot.facts.numa import collect_numa
from kboot.facts.os import collect_os
from kboot.facts.programs import collect_programs
from kboot.facts.storage import collect_storage
from kboot.facts.system import collect_system
from kboot.facts.tune import collect_tune
from kboot.facts.types import NodeFacts
from kboot.host.clock import monotonic_s, unix_s
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.types import FleetAsk

_NVML_S = 10.0
_NVML_GPU_S = 5.0
"""Without a persistence daemon a driver takes 3-4 s per GPU to wake on the first call."""


@dataclass(frozen=True, slots=True)
class NvmlAsk:
    """How long NVML is waited for: by the GPUs on the bus, and never longer than limit_s.

    say: told once, when there was no answer for say_after_s; None = nobody listens.
    """

    limit_s: float = 120.0
    say: Callable[[str], None] | None = None
    say_after_s: float = 5.0

    def timeout_s(self, gpus: int) -> float:
        """Return the deadline where so many GPUs are on the bus."""
        return min(self.limit_s, _NVML_S + gpus * _NVML_GPU_S)


_USUAL_ASK = NvmlAsk()


def collect(
    host: Host,
    paths: Paths,
    engine_name: str | None = None,
    engine_interpreter: str | None = None,
    tune_paths: tuple[str, ...] = (),
    ask: NvmlAsk = _USUAL_ASK,
    fleet: FleetAsk | None = None,
) -> NodeFacts:
    """Read everything about a node. What could not be read is a Gap; a node in any state gives facts, not an error.

    engine_name: None finds the first installed engine. engine_interpreter: the Python it is installed for.
    ask: how long the GPU driver is waited for.
    tune_paths: kernel settings the profile asks for. fleet: how the other nodes are found; None = nobody looks.
    """
    nvml = _Nvml(host, ask)
    nvml.start()
    os, os_gaps = collect_os(host)
    numa, numa_gaps = collect_numa(host)
    cpu, cpu_gaps = collect_cpu(host, numa)
    memory, memory_gaps = collect_memory(host)
    mounts, mount_gaps = collect_storage(host, paths)
    limits, limit_gaps = collect_limits(host)
    engine, engine_gaps = collect_engine(host, engine_name, engine_interpreter)
    caches, cache_gaps = collect_caches(host, paths)
    tune, tune_gaps = collect_tune(host, tune_paths)
    nics, rdma, network_gaps = collect_network(host)
    disks, disk_gaps = collect_disks(host)
    others, fleet_gaps = _fleet(host, paths, fleet)
    nvml.wait()
    gpu, gpu_gaps = collect_gpu(host, nvml.answers, cpu.node_of)
    system, system_gaps = collect_system(host, mounts)
    health, health_gaps = collect_health(host, nvml.answers, gpu.pci_bus_ids)
    return NodeFacts(
        collected_unix_s=unix_s(),
        os=os,
        cpu=cpu,
        numa=numa,
        memory=memory,
        gpu=gpu,
        mounts=mounts,
        limits=limits,
        engine=engine,
        caches=caches,
        tune=tune,
        nics=nics,
        rdma=rdma,
        disks=disks,
        programs=collect_programs(host),
        health=health,
        system=system,
        links=collect_links(host, nvml.answers, gpu.pci_bus_ids, tuple(port.bus_id for port in rdma)),
        fleet=others,
        gaps=(
            *os_gaps,
            *numa_gaps,
            *cpu_gaps,
            *memory_gaps,
            *mount_gaps,
            *limit_gaps,
            *engine_gaps,
            *cache_gaps,
            *tune_gaps,
            *network_gaps,
            *disk_gaps,
            *gpu_gaps,
            *health_gaps,
            *system_gaps,
            *fleet_gaps,
        ),
    )


def find_fleet(host: Host, ask: FleetAsk) -> FleetFacts:
    """Return the fleet as it is seen now."""
    from kboot.facts.fleet import collect_fleet

    return collect_fleet(host, ask)[0]


def _fleet(host: Host, paths: Paths, ask: FleetAsk | None) -> tuple[FleetFacts, tuple[Gap, ...]]:
    """Look for the other nodes if that is asked, and read what they stated when they met last, if they ever did."""
    met = host.exists(host.machine_path(paths.fleet))
    if not met and (ask is None or ask.discovery == "none"):
        return FleetFacts(), ()
    from kboot.facts.fleet import collect_fleet, with_last_meeting

    fleet, gaps = collect_fleet(host, ask) if ask else (FleetFacts(), ())
    return (with_last_meeting(fleet, host, paths) if met else fleet), gaps


class _Nvml(Thread):
    """Asks NVML meanwhile. answers: an OSError where it could not be asked."""

    def __init__(self, host: Host, ask: NvmlAsk) -> None:
        super().__init__(name="nvml", daemon=True)
        self._host, self._ask = host, ask
        self._timeout_s = ask.timeout_s(len(nvidia_bus_ids(host)))
        self._say_at_s = monotonic_s() + ask.say_after_s
        self.answers: Mapping[str, Any] | OSError = OSError("not asked")

    def run(self) -> None:
        try:
            self.answers = self._host.nvml(self._timeout_s)
        except OSError as exc:
            self.answers = exc

    def wait(self) -> None:
        """Wait for the end, which the deadline of the question brings; say so when that takes long."""
        self.join(max(0.0, self._say_at_s - monotonic_s()))
        if self.is_alive() and self._ask.say is not None:
            after_s, until_s = self._ask.say_after_s, self._timeout_s
            self._ask.say(f"the GPU driver has not answered for {after_s:g} s; it is given {until_s:g} s in all")
        self.join()
