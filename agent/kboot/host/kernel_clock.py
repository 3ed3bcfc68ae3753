"""Does anything keep the kernel's clock right? adjtimex, asked and not changed."""

from __future__ import annotations

import ctypes
import os
import struct

from kboot.values import dataclass

_STA_UNSYNC = 0x0040
_SIZE_BYTES = 256  # struct timex has 208
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class KernelClock:
    """synchronised: something sets it, and said so not long ago. error_s: how far it may be off, as the kernel reckons.

    The kernel lets the error grow by half a millisecond a second while nobody sets the clock, up to 16 s.
    """

    synchronised: bool
    error_s: float


def kernel_clock() -> KernelClock:
    """Return what the kernel says of its clock.

    Raises:
        OSError: it does not let this process ask.
    """
    buffer = ctypes.create_string_buffer(_SIZE_BYTES)  # modes is 0: nothing is set
    if _libc.adjtimex(buffer) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    # unsigned modes; long offset, freq, maxerror, esterror; int status
    _, _, _, error_us, _, status = struct.unpack_from("@Illlli", buffer)
    return KernelClock(not status & _STA_UNSYNC, error_us / 1e6)
