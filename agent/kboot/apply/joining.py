"""Is this process's node one of a fleet, and since when? Nothing of a fleet is loaded before a profile asks for one."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kboot.events import Emit, Notice

if TYPE_CHECKING:
    from kboot.apply.peering import Member
    from kboot.errors import KbootError
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.types import Profile

_ENGINE_S = 2.0


class Peering:
    """This process's place in a fleet, over all its boots. A context manager."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._member: Member | None = None

    def join(self, profile: Profile, host: Host, emit: Emit) -> Member | None:
        """Return this node as a member of the profile's fleet; None without one, or where it is none of the nodes.

        Raises:
            KbootError: the key or the address to answer on is not usable.
        """
        ask = profile.fleet
        if ask.discovery == "none":
            self.end()
            return None
        from kboot.apply.answering import engine_answers
        from kboot.apply.fleet_find import GROWS
        from kboot.apply.peering import Member
        from kboot.facts.collect import find_fleet
        from kboot.sources.fleet_auth import read_key

        facts, old = find_fleet(host, ask), self._member
        if old is not None and old.answers and (old.ask, old.facts) == (ask, facts):
            return old
        self.end()
        if facts.me is None:
            found = f"{len(facts.nodes)} nodes by {facts.found_by}" if facts.nodes else "no nodes"
            emit(Notice("fleet.not_joined", f"this node is none of its fleet ({found}): it works alone"))
            return None
        key = read_key(Path(ask.key_file))
        look = partial(find_fleet, host, ask) if ask.discovery in GROWS else None
        serves = partial(engine_answers, host, self._paths, _ENGINE_S)
        self._member = Member(ask, facts, facts.nodes[facts.me], key, serves, emit, look)
        return self._member

    def failed(self, error: KbootError) -> None:
        """Tell the other nodes, if there are any, that the boot has failed, and why."""
        if self._member is not None:
            self._member.failed(error)

    def linger(self, stop: threading.Event) -> None:
        """Go on giving bytes until the other nodes that are there have them, or `stop` is set."""
        if self._member is not None:
            self._member.linger(stop)

    def end(self) -> None:
        """Leave the fleet."""
        if self._member is not None:
            self._member.end()
            self._member = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.end()
