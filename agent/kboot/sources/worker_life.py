"""How long does a worker process live? Never longer than who asked for it."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int) -> bool:
    """Let the kernel kill this process when its parent ends; False when the parent is gone already."""
    # Not SIGTERM: no handler of ours runs while the library works.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent
