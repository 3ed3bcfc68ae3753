"""Is it known which CPUs are near which GPU?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, ranges
from kboot.facts.types import Gpu, NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """With more than one CPU node, every GPU needs a node or CPUs that NVML calls near."""
    gpus = facts.gpu.gpus
    if not gpus:
        return Finding("skip", f"no GPU is listed (NVML: {facts.gpu.nvml})")
    if not facts.numa:
        return Finding("unknown", f"the NUMA nodes could not be read ({gap_reason(facts, 'numa')})")
    cpu_nodes = [n.number for n in facts.numa if n.cpus]
    if len(cpu_nodes) < 2:
        return Finding("ok", "one node holds all CPUs: every CPU is as near as any other")
    lost = [g.index for g in gpus if not _located(g, facts)]
    if not lost:
        near = sorted({node for g in gpus if (node := _cpu_node(g, facts)) is not None})
        return Finding("ok", f"{count(len(gpus), 'GPU')} on node {ranges(near)}" if near else "NVML names near CPUs")
    return Finding(
        "warn",
        f"locality unknown: GPU {ranges(lost)} tells no NUMA node, and CPUs are on nodes {ranges(cpu_nodes)}",
        wanted="a node for every GPU",
        why="workers may get CPUs and memory of the far socket; kboot splits the CPUs evenly and binds no memory",
        hint="virtual machine: let the hypervisor expose the PCI topology (numa_node); bare metal: check the firmware",
    )


def _cpu_node(gpu: Gpu, facts: NodeFacts) -> int | None:
    """Return the node whose CPUs are near; a GPU's own node may hold memory only, as on Grace."""
    with_cpus = {n.number: set(n.cpus) for n in facts.numa if n.cpus}
    if gpu.numa_node in with_cpus:
        return gpu.numa_node
    near = set(gpu.cpu_affinity or ())
    return max(with_cpus, key=lambda n: (len(with_cpus[n] & near), -n)) if near else None


def _located(gpu: Gpu, facts: NodeFacts) -> bool:
    """Return whether a GPU is nearer to some CPUs; a virtual machine without topology calls all of them near."""
    near = set(gpu.cpu_affinity or ())
    return gpu.numa_node is not None or (bool(near) and not near >= set(facts.cpu.online))


CHECK = Check(
    id="numa.gpu_node",
    asks="Is it known which CPUs are near which GPU?",
    source="/sys/bus/pci/devices/*/numa_node; NVML CPU affinity",
    modes=ON_A_NODE,
    run=run,
)
