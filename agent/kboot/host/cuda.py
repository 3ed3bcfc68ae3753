"""What does CUDA answer, inside a deadline, whatever state the driver is in?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kboot.host.nvml import Begun, library_installed

_KEY = "cuda_init"
_LIBRARY = "libcuda.so.1"


def ask_cuda(timeout_s: float, environ: Mapping[str, str], measured: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return the answers of a child process (see kboot.host.cuda_child): cuda_init, code, devices.

    measured: bus ids of GPUs to take a context and memory of and to measure; without any nothing is allocated.
    A machine without libcuda.so.1 answers {"cuda_init": "LIBRARY_NOT_FOUND"}, a child that does not answer "TIMEOUT".

    Raises:
        OSError: no process can be started.
    """
    begun = begin_cuda(timeout_s, environ, measured)
    return begun.answers(timeout_s) if begun else {_KEY: "LIBRARY_NOT_FOUND"}


def begin_cuda(timeout_s: float, environ: Mapping[str, str], measured: Iterable[str] = ()) -> Begun | None:
    """Start asking, to be collected later; None where the loader would not find the library.

    timeout_s: after which the child ends by itself, a second later.

    Raises:
        OSError: no process can be started.
    """
    if not library_installed(environ, _LIBRARY):
        return None
    return Begun("kboot.host.cuda_child", (str(timeout_s), *measured), environ, _KEY)
