"""Which CPUs does kboot itself work on? All it may use, but not those of the workers while an engine serves."""

from __future__ import annotations

from collections.abc import Iterable, Set

from kboot.host.tasks import pin_myself
from kboot.host.types import Host
from kboot.report.types import WorkerCheck


class OwnCpus:
    """The CPUs of this process, every thread of it and what they start."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._all: frozenset[int] = frozenset()

    def leave_to(self, workers: Iterable[WorkerCheck]) -> None:
        """Keep off the workers' CPUs, where there are others."""
        self.keep_off({cpu for worker in workers for cpu in worker.planned_cpus})

    def keep_off(self, theirs: Set[int]) -> None:
        """Keep off these CPUs, where there are others."""
        mine = frozenset(self._host.affinity())
        if mine - theirs and mine & theirs:
            self._all = self._all or mine
            pin_myself(mine - theirs)

    def take_back(self) -> None:
        """Work on all of them again."""
        if self._all:
            pin_myself(self._all)
            self._all = frozenset()
