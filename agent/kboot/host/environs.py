"""Which processes were started with a text in their environment?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

_LIMIT_BYTES = 4 << 20


def environ_has(pid: int, settings: Sequence[str]) -> bool | None:
    """Return whether a process was started with all of these "NAME=value"; None where it is not this user's to see."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return set(map(os.fsencode, settings)) <= set(file.read(_LIMIT_BYTES).split(b"\0"))
    except OSError:
        return None


def pids_with(text: str) -> tuple[int, ...]:
    """Return the processes whose environment holds the text, this one left out.

    Those of other users are seen by root only.
    """
    wanted = text.encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) == os.getpid():
            continue
        with suppress(OSError), open(f"/proc/{name}/environ", "rb", buffering=0) as file:
            if wanted in file.read(_LIMIT_BYTES):
                found.append(int(name))
    return tuple(sorted(found))
