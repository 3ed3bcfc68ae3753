"""What is to be done about an Xid?

Meanings after NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors); severity and action are our reading of it
and were not compared with it row by row, so a finding always names the code for an operator to look up.

Severity: "app" = a program's fault, the GPU is sound; "warn" = works, look after it; "fail" = not to be served on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["app", "warn", "fail"]
RESET = "reset the GPU (`nvidia-smi -r -i N` with no process on it) or reboot"
REBOOT = "reboot the node; if it comes back, drain it and have the hardware looked at"
RMA = "drain the node and run the vendor's field diagnostics: the GPU may have to be replaced"
LINK = "reset all GPUs of the NVLink domain or reboot; if it comes back, have trays and cables looked at"


@dataclass(frozen=True, slots=True)
class Xid:
    """One class. means: in a few words. action: what to do. lasting: no reset makes it good."""

    means: str
    severity: Severity
    action: str = ""
    lasting: bool = False


XIDS: Mapping[int, Xid] = {
    13: Xid("graphics engine exception", "app"),
    31: Xid("GPU memory page fault", "app"),
    32: Xid("corrupted push buffer", "app"),
    43: Xid("reset channel", "app"),
    45: Xid("preemptive cleanup after another error", "app"),
    48: Xid("double-bit ECC error", "fail", RESET),
    61: Xid("internal microcontroller breakpoint", "fail", RESET),
    62: Xid("internal microcontroller halt", "fail", RESET),
    63: Xid("row remapping recorded", "warn", RESET),
    64: Xid("row remapping failed", "fail", RMA, lasting=True),
    68: Xid("video processor exception", "app"),
    69: Xid("graphics engine class error", "app"),
    74: Xid("NVLink error", "fail", LINK),
    79: Xid("GPU fell off the bus", "fail", REBOOT),
    92: Xid("high rate of corrected ECC errors", "warn", RMA),
    94: Xid("contained ECC error", "warn", "restart the program that was hit; reset the GPU when it is idle"),
    95: Xid("uncontained ECC error", "fail", RESET),
    109: Xid("context switch timeout", "fail", RESET),
    110: Xid("security fault", "fail", RESET),
    119: Xid("GSP firmware timeout", "fail", RESET),
    120: Xid("GSP firmware error", "fail", RESET),
    121: Xid("corrected C2C link error", "warn", RESET),
    137: Xid("NVLink access by a program without right", "app"),
    140: Xid("unrecovered ECC error", "fail", RESET),
    143: Xid("GPU initialisation failed", "fail", REBOOT),
    144: Xid("NVLink SAW error", "fail", LINK),
    145: Xid("NVLink RLW error", "fail", LINK),
    146: Xid("NVLink TLW error", "fail", LINK),
    147: Xid("NVLink TREX error", "fail", LINK),
    148: Xid("NVLink NVLPW error", "fail", LINK),
    149: Xid("NVLink NETIR error", "fail", LINK),
    150: Xid("NVLink MSE error", "fail", LINK),
    154: Xid("recovery action changed", "warn", "do what the line says; see gpu.recovery_action"),
    156: Xid("resource retired", "warn", RESET),
    157: Xid("resource retirement failed", "fail", RMA, lasting=True),
    158: Xid("fatal GPU timeout", "fail", RESET),
}
UNKNOWN = Xid("not in kboot's table", "warn", "look the number up in the vendor's Xid catalogue")

FABRIC_WIDE = frozenset({74, *range(144, 151)})
"""On several GPUs these leave the fabric broken until a reboot, even where every tool says that all is well."""


def xid(code: int) -> Xid:
    """Return the class of a number."""
    return XIDS.get(code, UNKNOWN)
