"""What is to be done about an Xid?

Meanings after NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), compared with its table of 1 to 172;
severity is our reading of the immediate action that it names. A finding always names the code to look up.

Severity: "app" = the GPU is sound (a program was at fault, or nothing); "warn" = works, look after it; "fail" = not to
be served on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kboot.values import dataclass

Severity = Literal["app", "warn", "fail"]
RESET = "reset the GPU (`nvidia-smi -r -i N` with no process on it) or reboot"
REBOOT = "reboot the node; if it comes back, drain it and have the hardware looked at"
RMA = "drain the node and run the vendor's field diagnostics: the GPU may have to be replaced"
VENDOR = "nothing yet; if it comes back, report it to the vendor"
POWER = "have cooling looked at; until then the GPU draws power in steps"
LOOK_UP = "look the number up in the vendor's Xid catalogue"
LINK = "reset all GPUs of the NVLink domain or reboot; if it comes back, have trays and cables looked at"


@dataclass(frozen=True, slots=True)
class Xid:
    """One class. means: in a few words. action: what to do. lasting: no reset makes it good."""

    means: str
    severity: Severity
    action: str = ""
    lasting: bool = False


# What one engine of the GPU reports of the program it ran; where it comes back with another program, it is the GPU.
_ENGINES = {
    **dict.fromkeys((39, 40, 41, *range(70, 73), *range(75, 78), 85, *range(126, 136)), "copy engine exception"),
    **dict.fromkeys((68, 83, 84, 88, 89, 96, 97, 98), "video decoder exception"),
    **dict.fromkeys((82, *range(99, 106)), "JPEG decoder exception"),
    **dict.fromkeys((86, 139), "optical flow exception"),
}

XIDS: Mapping[int, Xid] = {
    **{code: Xid(means, "app") for code, means in _ENGINES.items()},
    8: Xid("stopped processing a program", "app"),
    11: Xid("corrupted push buffer", "app"),
    13: Xid("graphics engine exception", "app"),
    25: Xid("illegal push buffer", "app"),
    31: Xid("GPU memory page fault", "app"),
    32: Xid("corrupted push buffer", "app"),
    37: Xid("driver firmware error", "app"),
    38: Xid("driver firmware error", "warn", VENDOR),
    43: Xid("reset channel", "app"),
    44: Xid("fault while programs were switched", "app"),
    45: Xid("preemptive cleanup after another error", "app"),
    46: Xid("stopped processing", "fail", RESET),
    48: Xid("double-bit ECC error", "fail", RESET),
    54: Xid("auxiliary power is not connected", "fail", "have the power cables of the GPU board looked at"),
    60: Xid("video processor exception", "app"),
    61: Xid("internal microcontroller breakpoint", "fail", RESET),
    62: Xid("internal microcontroller halt", "fail", RESET),
    63: Xid("row remapping recorded", "warn", RESET),
    64: Xid("row remapping failed", "fail", RMA, lasting=True),
    66: Xid("illegal access by the driver", "app"),
    67: Xid("illegal access by the driver", "warn", VENDOR),
    69: Xid("graphics engine class error", "app"),
    74: Xid("NVLink error", "fail", LINK),
    78: Xid("vGPU did not start", "warn", "update the driver and the vGPU software of host and guest to one release"),
    79: Xid("GPU fell off the bus", "fail", REBOOT),
    80: Xid("corrupted data sent to the GPU", "app"),
    92: Xid("high rate of corrected ECC errors", "warn", RMA),
    93: Xid(
        "InfoROM not written: its wear limit is reached",
        "warn",
        "`nvflash --elsessionclear` lifts the limit; if it comes back, report it to the vendor",
    ),
    94: Xid("contained ECC error", "warn", "restart the program that was hit; reset the GPU when it is idle"),
    95: Xid("uncontained ECC error", "fail", RESET),
    106: Xid("test message", "app"),
    107: Xid("test message", "app"),
    109: Xid("context switch timeout", "fail", RESET),
    110: Xid("security fault", "fail", RESET),
    119: Xid("GSP firmware timeout", "fail", RESET),
    120: Xid("GSP firmware error", "fail", RESET),
    121: Xid("corrected C2C link error", "warn", RESET),
    136: Xid("NVLink training failed", "fail", LINK),
    137: Xid("NVLink access by a program without right", "app"),
    140: Xid("unrecovered ECC error", "fail", RESET),
    141: Xid("CUDA fast path error", "app"),
    142: Xid("video encoder exception", "warn", VENDOR),
    143: Xid("GPU initialisation failed", "fail", REBOOT),
    144: Xid("NVLink SAW error", "fail", LINK),
    145: Xid("NVLink RLW error", "fail", LINK),
    146: Xid("NVLink TLW error", "fail", LINK),
    147: Xid("NVLink TREX error", "fail", LINK),
    148: Xid("NVLink NVLPW error", "fail", LINK),
    149: Xid("NVLink NETIR error", "fail", LINK),
    150: Xid("NVLink MSE error", "fail", LINK),
    151: Xid("key rotation failed", "fail", REBOOT),
    154: Xid("recovery action changed", "warn", "do what the line says; see gpu.recovery_action"),
    155: Xid("NVLink taken down by software", "fail", RESET),
    156: Xid("resource retired", "warn", RESET),
    157: Xid("resource retirement failed", "fail", RMA, lasting=True),
    158: Xid("fatal GPU timeout", "fail", RESET),
    159: Xid("error on the C2C link to a CPU", "warn", LOOK_UP),
    160: Xid("memory channel retired", "warn", RESET),
    161: Xid("memory channel could not be retired", "warn", VENDOR),
    162: Xid("power smoothing is on again", "app"),
    163: Xid("power smoothing is off", "warn", POWER),
    164: Xid(
        "power smoothing is nearly worn out", "warn", "plan its replacement, or see that the site bears the steps"
    ),
    165: Xid("power smoothing is worn out", "warn", "replace the GPU, or see that the site bears the steps"),
    166: Xid("NVLink traffic before its encryption was set up (confidential computing)", "warn", LOOK_UP),
    167: Xid("fatal PCIe timeout", "fail", REBOOT),
    168: Xid(
        "less memory: errors in a protected region", "warn", "turn ECC on (`nvidia-smi -e 1`), then reset the GPU"
    ),
    169: Xid("internal microcontroller halt", "fail", RESET),
    170: Xid("NVLink interrupt in confidential computing", "warn", LOOK_UP),
    171: Xid("uncorrectable error in the GPU's memory", "fail", RESET),
    172: Xid("uncorrectable error in the GPU's caches", "fail", RESET),
}
UNKNOWN = Xid("not in kboot's table", "warn", LOOK_UP)

OF_LINKS = range(144, 151)
FABRIC_WIDE = frozenset({74, 136, *OF_LINKS})
"""On several GPUs these leave the fabric broken until a reboot, even where every tool says that all is well."""


def xid(code: int) -> Xid:
    """Return the class of a number."""
    return XIDS.get(code, UNKNOWN)
