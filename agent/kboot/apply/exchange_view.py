"""What do the other nodes of the fleet have, and which of them can be counted on? Each is asked every moment."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kboot.apply.exchange_seen import Seen
from kboot.apply.fleet_list import LOOK_UP_S, LookUp, follow_list
from kboot.apply.peer_board import Board, pieces_of
from kboot.errors import SourceError
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s
from kboot.plan.claims import Claims
from kboot.plan.exchange import Fleet, Other, left_bytes
from kboot.plan.ownership import Pieces
from kboot.sources.peers import Peer, have_target
from kboot.values import dataclass

_POLL_S = 0.2
_POLL_FOR_EACH_S = 0.05  # more nodes are asked less often: each answers all the others
_POLL_MOST_S = 2.0
_SLOW_S = 5.0  # what would take a node longer than this is helped with
_KNOWN_S = 2.0
_FAILURES = 5
_FAILURE_S = 1.0
_AVOID_S = 10.0
_AVOIDED = 1000  # streams that a node is taken to have more while it is avoided
_JITTER_S = 2.0
_LONGER = 4  # than here may a piece take another node
_FOREIGN = frozenset({"peer-refuses", "peer-not-ours", "peer-answer-not-valid"})

Limits = Callable[[], Mapping[str, float]]
Limit = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a node is waited for before this one does without it.

    first_s: for so long at most nothing is asked of the origin before every node was asked once. late_s: one that does
    not answer yet. preparing_s: one that answers, and knows nothing of the commit yet. never_s: from then on one that
    did not come is not expected. lost_s: one that answers no more. alone_s: the same where none of several answers, so
    that it is this node that is cut off. stalled_s: one that answers and receives nothing. claimed_s: for so long at
    least, and for four times what a piece takes this node, it is believed that a piece is on its way to another one.
    """

    first_s: float = 10.0
    late_s: float = 5.0
    preparing_s: float = 20.0
    never_s: float = 40.0
    lost_s: float = 3.0
    alone_s: float = 20.0
    stalled_s: float = 15.0
    claimed_s: float = 60.0


PATIENCE = Patience()


class View:
    """The fleet as this node sees it. For any thread."""

    def __init__(
        self, me: str, peers: Mapping[str, Peer], board: Board, emit: Emit, patience: Patience = PATIENCE
    ) -> None:
        """Note who is there; follow() begins to ask them. me, peers: by the names that all nodes use."""
        self.names = tuple(sorted({me, *peers}))
        self._me = me
        self._board = board
        self._emit = emit
        self._patience = patience
        self._lock = threading.Lock()
        self._gone: dict[str, Seen] = {}  # the list has them no more; what is received from them is received
        self._seen = {name: Seen(peer) for name, peer in peers.items()}
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._began_s = self._moved_s = monotonic_s()
        self._slow_until_s, self._slow = 0.0, frozenset[str]()
        self._mine, self._claimed_s = Claims(), patience.claimed_s

    def follow(
        self,
        wake: Callable[[], None],
        limits: Limits,
        limit: Limit,
        look_up: LookUp | None = None,
        look_up_s: float = LOOK_UP_S,
    ) -> None:
        """Begin to ask the others what they have.

        wake: called when there is something new. limits: sources that must not be asked now, and for how long; the
        others are told. limit: called with what the others tell of theirs. look_up: looks up who the others are.
        """
        ask = partial(self._ask, wake, limits, limit)
        for seen in self._seen.values():
            ask(seen)
        if look_up is not None:
            enlist = partial(self._enlist, ask)
            args = (look_up, self._seen, enlist, self._ended, look_up_s)
            threading.Thread(target=follow_list, args=args, name="fleet-list", daemon=True).start()  # a resolver hangs

    def end(self) -> None:
        """Ask no more."""
        with self._lock:
            self._ended.set()
            every = (*self._seen.values(), *self._gone.values())
        for seen in every:
            seen.peer.interrupt()
        for thread in self._threads:
            thread.join()
        for seen in every:
            seen.peer.close()

    # -- what is known

    def fleet(self, from_origin: int) -> Fleet:
        """Return the fleet as it is now. from_origin: streams that receive from the origin."""
        now = monotonic_s()
        with self._lock:
            others = tuple(self._other(name, seen, now) for name, seen in self._seen.items() if self._gives(seen, now))
            fleet = Fleet(
                self._me,
                self.names,
                others,
                self._out(now),
                frozenset(name for name, seen in self._seen.items() if self._is_late(seen, now)),
                from_origin=from_origin,
                from_others=sum(seen.busy for seen in self._seen.values()),
            )
            return self._with_slow(fleet, now)

    @property
    def is_known(self) -> bool:
        """Whether every node was asked once, so that it is known what must not be asked of the origin."""
        return (
            all(seen.asked for seen in self._seen.values()) or monotonic_s() - self._began_s >= self._patience.first_s
        )

    def peer(self, name: str) -> Peer:
        """Return a node as a source."""
        return self._of(name).peer

    def waits_for(self) -> tuple[str, ...]:
        """Return the nodes that answer and have not got everything yet."""
        now = monotonic_s()
        with self._lock:
            return tuple(name for name, seen in self._seen.items() if self._gives(seen, now) and not seen.complete)

    def missed(self) -> bool:
        """Return whether a node was here, has not got everything, and does not answer now: it may come back."""
        now = monotonic_s()
        with self._lock:
            known = [seen for seen in self._seen.values() if seen.answered_s is not None and not seen.dropped]
            return any(not seen.complete and self._is_lost(seen, now) for seen in known)

    def quiet_s(self) -> float:
        """Return for how long nobody has received anything, or was heard of; long where nobody ever was."""
        now = monotonic_s()
        with self._lock:
            heard = [seen.answered_s for seen in self._seen.values() if seen.answered_s is not None]
            if not heard:
                return math.inf if now - self._began_s > 2 * self._patience.late_s else 0.0
            answering = any(self._gives(seen, now) for seen in self._seen.values())
            return now - (self._moved_s if answering else max(self._moved_s, *heard))

    # -- what this node finds out

    def busy(self, name: str, more: int) -> None:
        """Count the streams that receive from a node."""
        with self._lock:
            seen = self._of(name)
            seen.busy = max(0, seen.busy + more)  # one that left and came back begins with none

    def moved(self) -> None:
        """Take in that something came."""
        self._moved_s = monotonic_s()

    def gave(self, name: str) -> None:
        """Take in that a node gave what it was asked for."""
        self._of(name).failures = 0

    def failed(self, name: str, blob_id: str, error: SourceError) -> None:
        """Take in that a node did not give what it has: it is asked last for a while, and not at all after a few."""
        with self._lock:
            seen = self._of(name)
            now = monotonic_s()
            if now - seen.failed_s >= _FAILURE_S:  # streams that fail together count once
                seen.failures, seen.failed_s = seen.failures + 1, now
            seen.avoid_until_s = now + _AVOID_S
            seen.have.pop(blob_id, None)  # until it says again that it has it
            give_up = seen.failures >= _FAILURES
        if give_up:
            self.drop(name, f"{seen.peer.name} failed {_FAILURES} times in a row, the last time: {error.message}")

    def avoid(self, name: str) -> None:
        """Ask a node last for a while."""
        with self._lock:
            self._of(name).avoid_until_s = monotonic_s() + _AVOID_S

    def drop(self, name: str, why: str) -> None:
        """Ask a node no more, and count on it no more."""
        with self._lock:
            seen = self._of(name)
            first, seen.dropped = not seen.dropped, True
            seen.have, seen.fetching = {}, {}
        if first:
            self._emit(Notice("peer.dropped", why))

    def dropped(self) -> frozenset[str]:
        """Return the nodes that are asked no more."""
        return frozenset(name for name, seen in {**self._seen, **self._gone}.items() if seen.dropped)

    # -- asking

    def _of(self, name: str) -> Seen:
        return self._seen.get(name) or self._gone[name]

    def _enlist(self, ask: Callable[[Seen], None], peers: Mapping[str, Peer], names: frozenset[str]) -> None:
        """Count on these nodes from now on, and on no others; their parts are divided anew."""
        with self._lock:
            new = sorted(names - self._seen.keys())
            if self._ended.is_set() or names == self._seen.keys():
                return
            left = {name: seen for name, seen in self._seen.items() if name not in names}
            came = {name: Seen(peers[name], asked=True, dropped=name in self.dropped()) for name in new}
            for seen in left.values():
                seen.left.set()
            # Replaced, never changed: others look through it without the lock.
            self._gone = {**self._gone, **left}
            self._seen = {name: seen for name, seen in self._seen.items() if name in names} | came
            self.names = tuple(sorted({self._me, *names}))
            for seen in came.values():
                ask(seen)
        for name in sorted(left):
            self._emit(Notice("fleet.left", f"the list of nodes has {name} no more: it is not counted on"))
        for name in new:
            self._emit(Notice("fleet.came", f"the list of nodes has {name} now: it is asked as well"))

    def _ask(self, wake: Callable[[], None], limits: Limits, limit: Limit, seen: Seen) -> None:
        thread = threading.Thread(target=self._follow, args=(seen, wake, limits, limit), name="peer", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _follow(self, seen: Seen, wake: Callable[[], None], limits: Limits, limit: Limit) -> None:
        target = have_target(self._board.repo, self._board.commit)
        pause_s = min(_POLL_MOST_S, _POLL_S + _POLL_FOR_EACH_S * len(self._seen))
        while not self._ended.is_set() and not seen.dropped and not seen.left.is_set():
            self._board.limited(limits())
            try:
                news = self._heard(seen, seen.peer.ask(target), limit)
            except SourceError as exc:
                news = self._missed(seen, exc)
            news, seen.asked = news or not seen.asked, True
            if news:
                wake()
            self._ended.wait(pause_s * (0.75 + random.random() / 2))

    def _heard(self, seen: Seen, document: Mapping[str, Any], limit: Limit) -> bool:
        """Take in what a node has; return whether that is news."""
        try:
            have, fetching = self._pieces(document["have"]), self._pieces(document["fetching"])
            complete, limited = document["complete"] is True, dict(document["limited_s"])
            gave_up, moved_bytes = document["gave_up"] is True, int(document["moved_bytes"])
            for name, for_s in limited.items():
                limit(name, float(for_s) + _JITTER_S * random.random())
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as exc:
            raise SourceError("peer-answer-not-valid", f"{seen.peer.name} says what cannot be read: {exc}") from exc
        now = monotonic_s()
        with self._lock:
            back = seen.told and not seen.dropped
            gained = have != seen.have or seen.answered_s is None
            news = gained or fetching != seen.fetching or back
            if gained:
                seen.had_s = now
            if gained or moved_bytes != seen.moved_bytes:
                seen.gained_s = self._moved_s = now
            seen.moved_bytes = moved_bytes
            if not seen.dropped:
                seen.have, seen.fetching, seen.complete = have, fetching, complete
                seen.claims.told(fetching, have, now)
            seen.gave_up = gave_up
            seen.answered_s, seen.missed_since_s, seen.told = now, None, False
        if back:
            self._emit(Notice("peer.back", f"{seen.peer.name} answers again"))
        return news

    def _missed(self, seen: Seen, error: SourceError) -> bool:
        """Take in that a node gave no answer; return whether it counts as lost from now on."""
        if error.code == "interrupted" or self._ended.is_set():
            return False
        now = monotonic_s()
        with self._lock:
            seen.prepares = error.code == "peer-knows-not"
            if seen.prepares:  # it runs, and is not there yet: late, not lost
                seen.have, seen.fetching = {}, {}
                seen.answered_s = seen.missed_since_s = None
                return False
            if seen.answered_s is not None:
                seen.missed_since_s = seen.missed_since_s or now
            lost = self._is_lost(seen, now) and not seen.told
            tell = lost or (error.code in _FOREIGN and not seen.told)
            seen.told = seen.told or tell
            if lost:
                seen.have, seen.fetching = {}, {}
        if tell:
            hint = f"; {error.hint}" if error.code in _FOREIGN and error.hint else ""
            self._emit(Notice("peer.lost", f"{seen.peer.name} is not counted on: {error.message}{hint}"))
        return lost

    def _pieces(self, listed: Mapping[str, str]) -> dict[str, Pieces]:
        sizes = self._board.sizes
        return {blob: pieces_of(text, sizes[blob]) for blob, text in listed.items() if blob in sizes}

    # -- judging; the lock is held

    def _is_lost(self, seen: Seen, now_s: float) -> bool:
        return seen.is_lost(now_s, self._patience.lost_s)

    def _gives(self, seen: Seen, now_s: float) -> bool:
        return seen.answered_s is not None and not self._is_lost(seen, now_s)

    def _out(self, now_s: float) -> frozenset[str]:
        """Return the nodes that are not counted on."""
        out = frozenset(name for name, seen in self._seen.items() if self._is_out(seen, now_s))
        missed = [seen.missed_since_s for seen in self._seen.values() if seen.answered_s is not None]
        since_s = max((s for s in missed if s is not None), default=0.0)
        if len(missed) > 1 and None not in missed and now_s - since_s < self._patience.alone_s:
            return self.dropped()
        return out

    def _is_out(self, seen: Seen, now_s: float) -> bool:
        if seen.answered_s is None:
            return seen.dropped or now_s - self._began_s >= self._patience.never_s
        stalled = now_s - seen.gained_s >= self._patience.stalled_s or now_s - seen.had_s >= self._claimed_s
        return self._is_lost(seen, now_s) or seen.gave_up or (stalled and not seen.complete)

    def _is_late(self, seen: Seen, now_s: float) -> bool:
        for_s = self._patience.preparing_s if seen.prepares else self._patience.late_s
        return seen.answered_s is None and not seen.dropped and now_s - self._began_s >= for_s

    def _other(self, name: str, seen: Seen, now_s: float) -> Other:
        busy = seen.busy + (_AVOIDED if now_s < seen.avoid_until_s else 0)
        return Other(name, seen.have, seen.claims.younger(self._claimed_s, now_s), busy)

    def _with_slow(self, fleet: Fleet, now_s: float) -> Fleet:
        """Add the nodes that would take long for what is left to them; looked at once in a second."""
        if now_s >= self._slow_until_s:
            self._slow_until_s = now_s + 1.0
            self._measure(now_s)
            files = tuple(self._board.sizes.items())
            lefts = {other.name: left_bytes(files, fleet, other.name) for other in fleet.others}
            self._slow = frozenset(
                name for name, left in lefts.items() if self._seconds_left(self._seen[name], left, now_s) > _SLOW_S
            )
        return Fleet(
            fleet.me,
            fleet.names,
            fleet.others,
            fleet.lost,
            fleet.late,
            self._slow - fleet.lost,
            fleet.from_origin,
            fleet.from_others,
        )

    def _measure(self, now_s: float) -> None:
        """Find out how long a piece takes here: who says for far longer that it receives one is not believed."""
        mine = self._board.document()
        self._mine.told(self._pieces(mine["fetching"]), self._pieces(mine["have"]), now_s)
        self._claimed_s = max(self._patience.claimed_s, _LONGER * self._mine.slowest_s(now_s))

    def _seconds_left(self, seen: Seen, left: int, now_s: float) -> float:
        if seen.rate_from is None or left > seen.rate_from[1]:
            seen.rate_from = (now_s, left)
        since_s, had_left = seen.rate_from
        if not left or now_s - since_s < _KNOWN_S:
            return 0.0
        return left * (now_s - since_s) / max(1, had_left - left)
