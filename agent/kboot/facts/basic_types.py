"""What is found on a node by commands that need no more: its system, memory and disks, and what could not be read."""

from __future__ import annotations

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """A value that could not be read: never a guess.

    fact: dotted name ("gpus.0.memory_total_bytes"). source: file or call. reason: what it answered.
    """

    fact: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class OsFacts:
    """boot_id: /proc/sys/kernel/random/boot_id. boot_unix_s: when the kernel started. container: None outside one.

    slurm_job: the cgroup of a job is around this process, which may see only the devices that are its own.
    """

    hostname: str
    pretty_name: str
    kernel_release: str
    machine: str
    boot_id: str
    boot_unix_s: float | None
    container: str | None
    uid: int
    slurm_job: bool = False


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often a cgroup's CPU quota has stopped it since it was made: in so many of so many periods, for so long.

    folder: the cgroup on the path that was stopped longest.
    """

    folder: str
    periods: int
    throttled_periods: int
    throttled_s: float


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """limit_bytes: tightest cgroup memory limit on the path; None without one. shm: /dev/shm.

    left_bytes: what the limits leave beside what their cgroups hold; None without one. Files in memory (/dev/shm, an
    emptyDir of Kubernetes) are held, page cache of a disk is not.
    """

    total_bytes: int
    available_bytes: int
    limit_bytes: int | None
    hugepages_bytes: int
    swap_used_bytes: int
    shm_total_bytes: int | None
    shm_free_bytes: int | None
    left_bytes: int | None = None

    @property
    def usable_bytes(self) -> int:
        """What is available, within the cgroups' limits."""
        bounds = (self.available_bytes, self.limit_bytes, self.left_bytes)
        return min(bound for bound in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Mount:
    """The file system that holds `path` (role: state, cache, runtime). free_bytes: for this user (f_bavail)."""

    role: str
    path: str
    mount_point: str
    fs_type: str
    device: str
    read_only: bool
    total_bytes: int | None
    free_bytes: int | None
    free_inodes: int | None
