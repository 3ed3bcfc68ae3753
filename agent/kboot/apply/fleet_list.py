"""Which nodes does a fleet's name stand for now? It is looked up again while a fetch is on, and believed with care."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping

from kboot.sources.peers import Peer

LookUp = Callable[[], Mapping[str, Peer]]
"""Looks the other nodes up, by name; none where nothing is known. May take seconds, and raises nothing."""

LOOK_UP_S = 10.0
_TIMES = 2  # that a node has to be missing from the list, in a row


class Membership:
    """The names of a fleet's other nodes, as one list after the other comes in."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self._missing: dict[str, int] = {}

    def told(self, listed: Iterable[str]) -> frozenset[str]:
        """Return who belongs to the fleet. A list without anybody says nothing: it is a resolver that does not know."""
        now = frozenset(listed)
        if now:
            self._missing = {name: self._missing.get(name, 0) + 1 for name in self.names - now}
            left = {name for name, times in self._missing.items() if times >= _TIMES}
            self.names = (self.names | now) - left
        return self.names


def follow_list(
    look_up: LookUp,
    names: Iterable[str],
    enlist: Callable[[Mapping[str, Peer], frozenset[str]], None],
    ended: threading.Event,
    look_up_s: float = LOOK_UP_S,
) -> None:
    """Look again and again until `ended`. enlist: told whom the list has, and who belongs to the fleet by that."""
    membership = Membership(names)
    while not ended.wait(look_up_s * (0.75 + random.random() / 2)):
        peers = look_up()
        if not ended.is_set():
            enlist(peers, membership.told(peers))
