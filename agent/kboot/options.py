"""What is one run asked beyond its profile, and how patient is a daemon with it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.plan.types import PhaseName
    from kboot.report.types import RunKind

_BYTES: frozenset[PhaseName] = frozenset({"fetch", "verify", "publish", "warm"})


@dataclass(frozen=True, slots=True)
class BootOptions:
    """A run of everything that the profile asks for, where nothing is said.

    serve: start the engine and wait until it answers. exit_when_ready: stop it again then (a smoke test).
    standby: with serve: start it only when `kboot live` is said.
    offline: ask no source. only, skip: phases. gpu: only a layout for this class.
    nodes: only a layout of so many. node_rank, head_address: this node's place in it, and where node 0 is;
    None = as the fleet has it, else the first of one.
    token_file: Hub token of the node's configuration; empty = the environment's. weights: without them, only the small
    files of the checkpoint are fetched. pinned: the commit that the image of this node was made with is taken for the
    branch that the profile names.
    """

    serve: bool = False
    exit_when_ready: bool = False
    standby: bool = False
    offline: bool = False
    skip: frozenset[PhaseName] = frozenset()
    only: frozenset[PhaseName] = frozenset()
    gpu: str | None = None
    nodes: int | None = None
    node_rank: int | None = None
    head_address: str | None = None
    token_file: str = ""
    weights: bool = True
    pinned: bool = True

    @property
    def bytes_only(self) -> bool:
        """Return whether the run is about the checkpoint alone, so that it needs no layout, engine or GPU."""
        return bool(self.only) and self.only <= _BYTES

    def takes(self, phase: PhaseName) -> bool:
        """Return whether neither `only` nor `skip` leaves the phase out."""
        return phase not in self.skip and (not self.only or phase in self.only)

    @property
    def what(self) -> RunKind:
        """Return which of the two the run is on record as."""
        return "bytes" if self.bytes_only else "boot"


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient a daemon is.

    stall_s: a boot without any progress for so long is given up (by systemd, which gets no more signs of life).
    retry_s, retry_max_s: first and longest pause before another try at something transient; the pause doubles.
    give_up_s: a boot that failed for transient reasons for so long ends the process with its status.
    tick_s: how often progress is reported while a boot runs. stop_s: how long a boot may take to stop.
    leave_s: how long the engine gets, and the boot as well, on a machine that is taken away; some clouds give 30 s.
    """

    stall_s: float = 300.0
    retry_s: float = 5.0
    retry_max_s: float = 120.0
    give_up_s: float = 3600.0
    tick_s: float = 5.0
    stop_s: float = 30.0
    leave_s: float = 25.0
