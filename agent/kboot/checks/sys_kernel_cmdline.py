"""Is the kernel started without options that take hardware away?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

BAD = {
    "numa=off": "all memory looks equally near",
    "nomodeset": "some NVIDIA drivers do not take the GPU over",
    "pci=noaer": "PCI errors are not reported",
    "pci=nommconf": "PCI features of GPUs are not reached",
    "acpi=off": "no topology at all",
    "noapic": "interrupts of devices share one CPU",
    "nosmp": "one CPU only",
}
BAD_PREFIXES = {"maxcpus=": "fewer CPUs", "nr_cpus=": "fewer CPUs", "mem=": "less memory"}


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Name options that hide CPUs, memory, NUMA or PCI from everything that runs here."""
    words = facts.system.command_line
    if words is None:
        return Finding("skip", "the kernel's command line is not readable here")
    bad = {w: BAD[w] for w in words if w in BAD}
    bad |= {w: why for w in words for prefix, why in BAD_PREFIXES.items() if w.startswith(prefix)}
    if not bad:
        return Finding("ok", f"none of {count(len(words), 'option')} takes hardware away")
    return Finding(
        "warn",
        some(f"{option} ({why})" for option, why in sorted(bad.items())),
        wanted="none of these options",
        why="workers are placed on what is left, and run slower than the hardware could",
        hint="remove it from the boot loader's configuration (GRUB_CMDLINE_LINUX in /etc/default/grub) and reboot",
    )


CHECK = Check(
    id="sys.kernel_cmdline",
    asks="Is the kernel started without options that take hardware away?",
    source="/proc/cmdline",
    modes=ON_A_NODE,
    run=run,
)
