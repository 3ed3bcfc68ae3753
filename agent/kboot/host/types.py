"""What a machine can be asked and told. `RealHost` is this machine, `RecordedHost` a recorded tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kboot.host.kernel_clock import KernelClock
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """free_bytes and free_inodes: what this user may still take."""

    total_bytes: int
    free_bytes: int
    free_inodes: int


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program printed, and the status it ended with."""

    status: int
    text: str


class Host(Protocol):
    """The read side of a machine; collectors take this and nothing else.

    Paths are absolute as on the machine itself ("/sys/devices/…"); a recorded host looks below its root.
    Every method raises OSError when the machine does not have the answer; none of them guesses.
    """

    @property
    def live(self) -> bool:
        """True for this machine, False for a recorded tree."""
        ...

    def machine_path(self, path: Path) -> str:
        """Return how this machine calls a path of ours: on a recorded host without the root it was read from."""
        ...

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """Return the file's text, stripped of trailing newlines; no more than the limit is read."""
        ...

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """Return the file's bytes as they are; no more than the limit is read."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the path exists (links followed)."""
        ...

    def link_target(self, path: str) -> str:
        """Return what a symbolic link says, not resolved."""
        ...

    def disk_space(self, path: str) -> DiskSpace:
        """Return the space of the file system that holds the path (or its nearest existing parent)."""
        ...

    def affinity(self) -> frozenset[int]:
        """Return the CPUs this process may run on."""
        ...

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Return NVML's answers in the shape of nvml.json: nvml_init, driver, gpus[]…

        Asked in a child process that is killed at the deadline; a driver that hangs gives {"nvml_init": "TIMEOUT"}.
        A recorded host without nvml.json gives {"nvml_init": "LIBRARY_NOT_FOUND"}.
        """
        ...

    def kernel_log(self) -> str:
        """Return what the kernel still holds of its messages since boot, one a line: "[ 12.345678] text"."""
        ...

    def program(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Return what a program that only looks prints, in English; a recorded host what it printed then.

        It is found in PATH or where administrators' programs are, and killed at the deadline (an OSError).
        """
        ...

    def clock(self) -> KernelClock:
        """Return whether the kernel's clock is kept right."""
        ...

    def environ(self) -> Mapping[str, str]:
        """Return this process's environment; a recorded host has an empty one."""
        ...

    def uid(self) -> int:
        """Return the effective user id."""
        ...

    def hostname(self) -> str:
        """Return the node's name."""
        ...

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """Return soft and hard limits by name ("nofile", "memlock"); None is infinity."""
        ...
