"""How are the bytes of a file worked on where they lie in the page cache, without copying them and without risk?"""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
from collections.abc import Callable
from contextlib import suppress

WINDOW_BYTES = 4 << 20
"""What is mapped at once, at a multiple of it: whole huge pages, and little address space for each thread."""


class Windows:
    """Maps an open file window by window, as long as that is safe.

    Touching a mapped file that got shorter, or that the disk cannot read, kills the process. So a window is mapped only
    where the file is on a disk of this machine, a lease says that nobody has it open for writing, and every page of the
    window is in memory at that moment. Who wants to write waits until the window is over, milliseconds; then the lease
    is given back, and none is taken again.
    """

    def __init__(self, fd: int, resident: Callable[[int, int, int], int | None]) -> None:
        """`resident` says of a descriptor how many bytes from start on are in memory."""
        self._fd = fd
        self._resident = resident
        self._asked = False
        self._leased = False

    def at(self, start: int, end: int) -> mmap.mmap | None:
        """Return the window at `start`, to be closed before the next; None where its bytes are to be copied."""
        if start % WINDOW_BYTES or end - start < WINDOW_BYTES:
            return None
        if not self._asked:  # not before the first window: who writes to a small file is never made to wait
            self._asked = True
            self._leased = os.major(os.fstat(self._fd).st_dev) != 0 and _take_lease(self._fd)
        if not self._still_leased() or self._resident(self._fd, start, WINDOW_BYTES) != WINDOW_BYTES:
            return None
        return mmap.mmap(self._fd, WINDOW_BYTES, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, offset=start)

    def _still_leased(self) -> bool:
        """Return whether nobody waits to write; where somebody does, the lease is given back."""
        if fcntl.fcntl(self._fd, fcntl.F_GETLEASE) != fcntl.F_RDLCK:
            self.close()
        return self._leased

    def close(self) -> None:
        """Give the lease back while the descriptor is open: a window that somebody still refers to would keep it."""
        if self._leased:
            self._leased = False
            with suppress(OSError):  # the kernel took it back: this process was stopped for longer than others wait
                fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take_lease(fd: int) -> bool:
    """Return whether nobody has the file open for writing, and nobody will without being seen first."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # comes to nothing by default; the usual SIGIO would kill
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:  # it is open for writing, belongs to another user, or the file system has no leases
        return False
    return True
