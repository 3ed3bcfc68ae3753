"""Did an NVLink switch report a fault since boot?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.gpu_xid_recent import no_log
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.health_types import KernelEvent
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

HARMLESS = frozenset({22013})
"""Said of links while a healthy node starts: "can be safely ignored" (NVIDIA's guide to the fabric manager, D.4)."""
_NONE = "no SXid in the kernel log"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """The switch's driver says itself which faults are fatal."""
    events = facts.health.kernel_events
    if events is None:
        return no_log(facts)
    told = [e for e in events if e.kind == "sxid"]
    faults = [e for e in told if not (e.code in HARMLESS and _is_mild(e))]
    if not faults:
        return Finding("ok", f"no switch fault, {count(len(told), 'SXid')} to ignore" if told else _NONE)
    fatal = [e for e in faults if not _is_mild(e)]
    named = some(sorted({f"SXid {e.code} on {e.bus_id}" for e in fatal or faults}))
    return Finding(
        "fail" if fatal else "warn",
        f"{count(len(faults), 'switch fault')} since boot, {len(fatal)} fatal: {named}",
        wanted="none",
        why="traffic between GPUs over this switch hangs" if fatal else "a link retries; watch whether it grows",
        hint="reset the switch and all GPUs with the fabric manager stopped, or reboot; then have the link looked at"
        if fatal
        else "`nvidia-smi nvlink -e` counts the links' errors; have the link looked at where they grow",
    )


def _is_mild(event: KernelEvent) -> bool:
    return ", non-fatal" in event.text.lower()


CHECK = Check(
    id="gpu.sxid",
    asks="Did an NVLink switch report a fault since boot?",
    source="/dev/kmsg",
    modes=ON_A_NODE,
    run=run,
)
