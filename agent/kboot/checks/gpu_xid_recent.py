"""Did the driver report a GPU fault since boot?"""

from __future__ import annotations

from collections.abc import Sequence

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, sees_all_gpus, unread
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.checks.words import count, some
from kboot.checks.xids import FABRIC_WIDE, OF_LINKS, REBOOT, XIDS, xid
from kboot.facts.health_types import KernelEvent
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile

_LANE = "a lane of a link is marginal; `nvidia-smi nvlink -e` counts its errors: have it looked at where they go on"


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Judge every Xid by the vendor's class; a GPU that the driver calls sound was reset since."""
    events = facts.health.kernel_events
    if events is None:
        return no_log(facts)
    if dead := _not_started(facts, events):
        return dead
    xids = [e for e in events if e.kind in ("xid", "off-bus")]
    faults = [e for e in xids if xid(e.code).severity != "app"]
    if not faults:
        sound = f", {count(len(xids), 'Xid')} of sound GPUs" if xids else ""
        return Finding("ok", f"no GPU fault in the kernel log{sound}")
    wide = {e.bus_id for e in faults if e.code in FABRIC_WIDE}
    if len(wide) > 1:
        return Finding(
            "fail",
            f"NVLink faults on {len(wide)} GPUs since boot: {_named([e for e in faults if e.code in FABRIC_WIDE])}",
            wanted="none",
            why="the fabric stays broken until a reboot, even where nvidia-smi looks fine: NCCL hangs on any pair",
            hint="reboot the node",
        )
    worst = [e for e in faults if xid(e.code).severity == "fail" and not (_healed(facts, e) or _got_over(e))]
    shown = worst or faults
    action = _LANE if _got_over(shown[0]) else xid(shown[0].code).action or REBOOT
    return Finding(
        "fail" if worst else "warn",
        f"{_named(shown)} since boot",
        wanted="no Xid but those of programs",
        why="engines on such a GPU crash, hang or answer wrongly" if worst else "the GPU works; look after it",
        hint=f"{shown[0].bus_id}: {action}",
    )


def _not_started(facts: NodeFacts, events: Sequence[KernelEvent]) -> Finding | None:
    """Judge GPUs that the driver tried to start and could not, unless it lists them by now."""
    if not sees_all_gpus(facts):
        return None
    listed = {g.bus_id for g in facts.gpu.gpus}
    dead = sorted({e.bus_id or "of unknown address" for e in events if e.kind == "gpu-not-started"} - listed)
    if not dead or (dead == ["of unknown address"] and len(listed) >= len(facts.gpu.pci_bus_ids)):
        return None
    faults = [e for e in events if e.kind in ("xid", "off-bus") and e.bus_id in dead]
    last = next(e.text for e in reversed(events) if e.kind == "gpu-not-started")
    return Finding(
        "fail",
        f"the driver could not start GPU {some(dead)}: {last}" + (f"; {_named(faults)}" if faults else ""),
        wanted="every GPU starts",
        why="it does not answer, and its driver tries again at every query of any GPU, tens of seconds each",
        hint="gpu.kmod_flavor and the lines before it in `dmesg | grep NVRM` say why; power-cycle or drain the node",
    )


def no_log(facts: NodeFacts) -> Finding:
    """Return the answer where the kernel log was not read: unknown where a GPU could be sick, else no question."""
    if facts.gpu.nvml in ("no-library", "no-driver") and not facts.gpu.pci_bus_ids:
        return Finding("skip", "this machine has no GPU")
    if unread(facts, "health.kernel_events") or facts.gpu.nvml != "ok":
        reason = gap_reason(facts, "health.kernel_events")
        return Finding("unknown", f"the kernel log could not be read ({reason})", hint="run kboot as root on the host")
    return Finding("skip", "this recording has no kernel log")


def _healed(facts: NodeFacts, event: KernelEvent) -> bool:
    """Return whether the driver says today that nothing needs doing for the GPU that had a passing fault."""
    if xid(event.code).lasting:
        return False
    index_of = {g.bus_id: g.index for g in facts.gpu.gpus}
    actions = {g.index: g.recovery_action for g in facts.health.gpus}
    return event.bus_id in index_of and actions.get(index_of[event.bus_id]) == "none"


def _got_over(event: KernelEvent) -> bool:
    """Return whether it is a fault of a link that the driver calls one without consequence (leptonai/gpud#1174)."""
    return event.code in OF_LINKS and " Nonfatal " in event.text


def _named(events: Sequence[KernelEvent]) -> str:
    by_kind: dict[tuple[int, str], int] = {}
    for event in events:
        key = (event.code, event.bus_id)
        by_kind[key] = by_kind.get(key, 0) + 1
    return some(
        f"Xid {code} ({xid(code).means}) on {bus}" + (f" {times} times" if times > 1 else "")
        for (code, bus), times in sorted(by_kind.items(), key=lambda item: (item[0][0] not in XIDS, item[0]))
    )


CHECK = Check(
    id="gpu.xid_recent",
    asks="Did the driver report a GPU fault since boot?",
    source="/dev/kmsg",
    modes=ON_A_NODE,
    run=run,
)
