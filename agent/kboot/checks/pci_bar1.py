"""Can peers reach all of each GPU's memory over PCI?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.told import told
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_memory


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """It matters where GPUs or network cards read each other's memory without NVLink."""
    sizes = told(facts, "bar1_bytes", lambda g: g.bar1_bytes)
    if sizes.values and len(facts.gpu.gpus) < 2 and not facts.rdma:
        return Finding("skip", "one GPU and no RDMA device: nobody reads its memory over PCI")
    memory_of = {g.index: g.memory_total_bytes for g in facts.gpu.gpus if not g.unified}
    small = {i: size for i, size in sizes.values.items() if size < (memory_of.get(i) or 0)}
    if not small:
        return sizes.rest(f"BAR1 {some(sorted({show_memory(size) for size in sizes.values.values()}))}")
    return Finding(
        "warn",
        some(
            f"GPU {i}: {show_memory(size)} of {show_memory(memory_of.get(i) or 0)}" for i, size in sorted(small.items())
        ),
        wanted="BAR1 as large as the memory",
        why="peer copies and RDMA are windowed or refused",
        hint="firmware: 'Above 4G decoding' and 'Resizable BAR'; virtual machine: its large BAR setting",
    )


CHECK = Check(
    id="pci.bar1",
    asks="Can peers reach all of each GPU's memory over PCI?",
    source="NVML BAR1 size",
    modes=ON_A_NODE,
    run=run,
)
