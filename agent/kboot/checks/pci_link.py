"""Have the GPUs all lanes of their slots?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge the width; the speed of an idle GPU falls to save power and says nothing."""
    devices = facts.health.pci
    if not devices:
        return no_device(facts)
    narrow = [d for d in devices if d.width and d.width[0] < d.width[1]]
    if narrow:
        return Finding(
            "warn",
            some(f"{d.bus_id}: x{d.width[0]} of x{d.width[1]}" for d in narrow if d.width),
            wanted="all lanes",
            why="weights reach this GPU at a fraction of the rate, and all of a layout wait for it",
            hint="reseat the GPU or its riser; check the slot's bifurcation in the firmware",
        )
    known = [d.width[0] for d in devices if d.width]
    if not known:
        return Finding("skip", "this machine does not tell link widths (virtual machine)")
    return Finding("ok", f"{some(sorted({f'x{n}' for n in known}))} on {count(len(known), 'GPU')}")


def no_device(facts: NodeFacts) -> Finding:
    """Return the answer where no GPU is on the PCI bus, or the bus was not read."""
    if facts.gpu.nvml in ("no-library", "no-driver", "ok"):
        return Finding("skip", "there is no GPU on the PCI bus")
    return Finding("unknown", f"no GPU was found on the PCI bus ({gap_reason(facts, 'gpu')})")


CHECK = Check(
    id="pci.link",
    asks="Have the GPUs all lanes of their slots?",
    source="/sys/bus/pci/devices/*/{current,max}_link_{width,speed}",
    modes=ON_A_NODE,
    run=run,
)
