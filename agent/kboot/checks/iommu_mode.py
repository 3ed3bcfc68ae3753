"""Do GPUs reach memory without translation?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.pci_link import no_device
from kboot.checks.told import virtual
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """On bare metal translated DMA costs rate and breaks peer copies; in a virtual machine there is no choice."""
    devices = facts.health.pci
    if not devices:
        return no_device(facts)
    translated = [d for d in devices if d.iommu.startswith("DMA")]
    if not translated:
        kinds = sorted({d.iommu or "no IOMMU group" for d in devices})
        return Finding("ok", f"{some(kinds)} for {count(len(devices), 'GPU')}")
    if virtual(facts):
        return Finding("skip", "the GPUs are passed through to this virtual machine, which needs translation")
    return Finding(
        "warn",
        f"DMA of {count(len(translated), 'GPU')} is translated ({some(sorted({d.iommu for d in translated}))})",
        wanted="identity, or no IOMMU",
        why="copies to the GPU cost CPU and rate, and peer copies between GPUs may go through the host",
        hint="iommu=pt on the kernel command line (bare metal), then reboot",
    )


CHECK = Check(
    id="iommu.mode",
    asks="Do GPUs reach memory without translation?",
    source="/sys/bus/pci/devices/*/iommu_group/type",
    modes=ON_A_NODE,
    run=run,
)
