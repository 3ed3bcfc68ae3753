"""What did the machine do between power-on and kboot, by systemd's own clock? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from kboot.report.types import Span

PROPERTIES = (
    "FirmwareTimestampMonotonic",
    "LoaderTimestampMonotonic",
    "InitRDTimestampMonotonic",
    "UserspaceTimestampMonotonic",
)
"""Of the manager (`systemctl show`): microseconds from the kernel's start, the first two before it; 0 = none."""

_LONGEST_S = 1800.0
_USEC = 1e6


def machine_spans(values: Mapping[str, str], kernel_start_unix_s: float, started_unix_s: float) -> tuple[Span, ...]:
    """Return the stages before `started_unix_s`, when kboot began; none where that was no start of the machine.

    values: PROPERTIES as systemd prints them. A machine that took longer than half an hour was not on its way to kboot.
    """
    if not 0 < started_unix_s - kernel_start_unix_s < _LONGEST_S:
        return ()
    firmware_s, loader_s, initrd_s, userspace_s = (_seconds(values.get(name, "")) for name in PROPERTIES)
    marks = [
        ("firmware", kernel_start_unix_s - firmware_s if firmware_s else None),
        ("boot loader", kernel_start_unix_s - loader_s if loader_s else None),
        ("kernel", kernel_start_unix_s),
        ("initrd", kernel_start_unix_s + initrd_s if initrd_s else None),
        ("userspace before kboot", kernel_start_unix_s + userspace_s if userspace_s else None),
        ("", started_unix_s),
    ]
    known = [(name, at) for name, at in marks if at is not None]
    return tuple(Span(name, "machine", at, end) for (name, at), (_, end) in pairwise(known) if end > at)


def _seconds(microseconds: str) -> float:
    return int(microseconds) / _USEC if microseconds.isdecimal() else 0.0
