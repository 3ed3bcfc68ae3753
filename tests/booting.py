"""Boots in-process against the demo Hub, in folders of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kboot.boot import boot
from kboot.events import Event, Notice, PhaseFinished
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.job import prepare
from kboot.options import BootOptions
from kboot.plan.types import Plan
from kboot.profile.load import load_profile
from kboot.profile.types import CheckpointAsk, CpuAsk, LayoutAsk, ParallelAsk, Profile, ServeAsk
from kboot.report.types import BootReport


class AskedHost(RealHost):
    """This machine with another environment: the one a user would have exported."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__()
        self._env = dict(env)

    def environ(self) -> Mapping[str, str]:
        """Return the given environment."""
        return self._env


def profile(engine: str = "demo", **changes: Any) -> Profile:
    """Two simulated workers of the demo model, on a port that the caller chooses."""
    layout = LayoutAsk(
        name="two", gpu="none", gpus_per_node=0, engine=engine, parallel=ParallelAsk(data=2, expert=True)
    )
    asked = Profile(
        name="demo",
        schema=1,
        checkpoint=CheckpointAsk(repo="kboot/demo-moe"),
        layout=(layout,),
        cpu=CpuAsk(governor=""),
        serve=ServeAsk(host="127.0.0.1", ready_timeout_s=60, probe="completion"),
        digest="digest",
    )
    return replace(asked, **changes)


@dataclass
class Node:
    """A node of its own below `folder`, whose Hub is `endpoint`."""

    folder: Path
    endpoint: str
    seen: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def host(self) -> AskedHost:
        """The machine, with the Hub's endpoint in the environment."""
        return AskedHost({"HF_ENDPOINT": self.endpoint, "PATH": "/usr/bin:/bin"})

    @property
    def paths(self) -> Paths:
        """Folders below this node's own."""
        return Paths(self.folder / "state", self.folder / "run", self.folder / "etc")

    def boot(self, asked: Profile | None = None, **options: Any) -> BootReport:
        """Boot and return the report."""
        return boot(asked or profile(), self.host, self.paths, BootOptions(**options), self.seen.append, self.stop)

    def plan(self, asked: Profile | None = None, **options: Any) -> Plan:
        """Return what boot would do."""
        return prepare(asked or profile(), self.host, self.paths, BootOptions(**options), self.seen.append).plan

    def notices(self) -> dict[str, str]:
        """Return the notices so far, by event."""
        return {event.event: event.text for event in self.seen if isinstance(event, Notice)}

    def endings(self) -> dict[str, str]:
        """Return how each phase ended so far."""
        return {event.phase: event.status for event in self.seen if isinstance(event, PhaseFinished)}

    def blob(self, path: str) -> Path:
        """Return the blob behind a file of the serving path."""
        return (self.paths.models / "demo" / path).resolve()


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def shipped(paths: Paths, *overrides: str) -> Profile:
    """Return the demo profile as it is shipped, with overrides."""
    return load_profile("demo", paths, overrides)
