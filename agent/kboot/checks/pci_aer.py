"""Is the PCI link to each GPU free of errors?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.pci_link import no_device
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

MANY_CORRECTED = 1000


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Errors that were not corrected are findings; corrected ones only in numbers that cost time."""
    devices = facts.health.pci
    if not devices:
        return no_device(facts)
    known = [d for d in devices if d.aer]
    if not known:
        return Finding("skip", "this machine keeps no PCI error counters (virtual machine)")
    bad = {
        d.bus_id: {name: n for name, n in sorted(d.aer.items()) if n > (MANY_CORRECTED if name == "correctable" else 0)}
        for d in known
    }
    bad = {bus: each for bus, each in bad.items() if each}
    if not bad:
        return Finding("ok", f"no uncorrected PCI error on {count(len(known), 'GPU')}")
    return Finding(
        "warn",
        some(f"{bus}: {some(f'{n} {name}' for name, n in each.items())}" for bus, each in sorted(bad.items())),
        wanted=f"none, and fewer than {MANY_CORRECTED} corrected",
        why="transfers are repeated, and an error that is not corrected takes the GPU off the bus",
        hint="reseat the GPU or its riser; compare `lspci -vv` with another node",
    )


CHECK = Check(
    id="pci.aer",
    asks="Is the PCI link to each GPU free of errors?",
    source="/sys/bus/pci/devices/*/aer_dev_{fatal,nonfatal,correctable}",
    modes=ON_A_NODE,
    run=run,
)
