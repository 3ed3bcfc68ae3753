"""Do GPUs and network cards below one switch reach each other directly?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.pci_link import no_device
from kboot.checks.told import virtual
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge only bridges below a switch that several of the devices share; elsewhere nothing can be redirected."""
    if not facts.health.pci:
        return no_device(facts)
    bridges = facts.links.bridges
    if not bridges:
        return Finding("skip", "no switch has two GPUs or RDMA devices below it")
    if virtual(facts):
        return Finding("skip", "the GPUs are lent to this virtual machine; its hypervisor sets the bridges")
    linked = bool(facts.health.gpus) and all(any(g.nvlinks or ()) for g in facts.health.gpus)
    if linked and not any(port.state == "ACTIVE" for port in facts.rdma):
        return Finding("skip", "the GPUs use NVLink and no RDMA port is up: nothing of theirs crosses a switch")
    redirected = [bridge for bridge in bridges if bridge.acs]
    unread = [bridge for bridge in bridges if bridge.acs is None]
    if redirected:
        names = sorted({name for bridge in redirected for name in bridge.acs or ()})
        return Finding(
            "warn",
            f"ACS redirects peer traffic at {count(len(redirected), 'bridge')} "
            f"({some(b.bus_id for b in redirected)}: {some(names)})",
            wanted="no redirect between devices below one switch",
            why="what GPUs and network cards send each other goes up to the processor and back: a fraction of the rate",
            hint=f"bare metal: ACS off in the firmware, or `setpci -s {redirected[0].bus_id} ECAP_ACS+0x6.w=0000`"
            + (" and the same for the others" if len(redirected) > 1 else "")
            + " after each boot",
        )
    if unread:
        return Finding(
            "unknown",
            f"the configuration space of {count(len(unread), 'bridge')} could not be read ({unread[0].bus_id})",
            hint="run as root: others see the first 64 bytes only",
        )
    return Finding("ok", f"no redirect at {count(len(bridges), 'bridge')}")


CHECK = Check(
    id="pci.acs",
    asks="Do GPUs and network cards below one switch reach each other directly?",
    source="/sys/bus/pci/devices/BRIDGE/config: the ACS capability",
    modes=ON_A_NODE,
    run=run,
)
