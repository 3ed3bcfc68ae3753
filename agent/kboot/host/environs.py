"""Which processes were started with a text in their environment?"""

from __future__ import annotations

import os
from contextlib import suppress

_LIMIT_BYTES = 4 << 20


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
