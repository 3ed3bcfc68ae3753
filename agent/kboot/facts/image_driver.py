"""Which NVIDIA driver is installed in this file system, also where no GPU is and none is loaded?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kboot.facts.reader import Reader

if TYPE_CHECKING:
    from kboot.host.types import Host

_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d+\.\d+(?:\.\d+)?)")


def installed_driver(host: Host) -> str:
    """Return the version in the name of its NVML library; empty where there is none, or more than one."""
    reader = Reader(host)
    names = (name for folder in _FOLDERS for name in reader.names(folder))
    found = {match[1] for name in names if (match := _LIBRARY.fullmatch(name))}
    return found.pop() if len(found) == 1 else ""
