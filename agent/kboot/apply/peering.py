"""What does a node do as one of its fleet? It answers the others, gives what it has, and asks them for the rest."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from kboot.apply.exchange import Exchange
from kboot.apply.exchange_view import View
from kboot.apply.fleet_caches import CACHES_TARGET, CacheKeeper, Place
from kboot.apply.fleet_state import STATE_TARGET, FleetState
from kboot.apply.pace import Throttle
from kboot.apply.peer_board import Board
from kboot.apply.peer_server import PeerServer
from kboot.apply.share_fetch import Sharing
from kboot.apply.share_publish import Publisher
from kboot.checkpoint import Listing
from kboot.errors import KbootError, ProfileError, SourceError
from kboot.events import Emit, Notice
from kboot.facts.fleet_types import FleetFacts, FleetNode
from kboot.host.clock import monotonic_s
from kboot.host.names import is_address, own_addresses
from kboot.host.range_server import address_to
from kboot.profile.types import FleetAsk
from kboot.sources import open_peers
from kboot.sources.fleet_auth import FleetKey
from kboot.sources.peers import Peer
from kboot.store.store import Store

_LINGER_S = 1800.0
_QUIET_S = 30.0
_RETURN_S = 10.0  # a node that was lost on the way is waited for once more
_LOOK_S = 0.2
_STALL_S = 10.0  # another node may have the same bytes: it is not waited for as long as an origin
_SERVING_KNOWN_S = 5.0


class Member:
    """This node in its fleet: it answers the others, and knows how to ask them."""

    def __init__(
        self,
        ask: FleetAsk,
        facts: FleetFacts,
        me: FleetNode,
        key: FleetKey,
        serves: Callable[[], bool],
        emit: Emit,
        look: Callable[[], FleetFacts] | None = None,
    ) -> None:
        """Begin to answer; a port that cannot be had is said, and keeps no node from its work.

        serves: whether an engine does on this node, whose network it is then. look: sees the fleet as
        it is now, where nodes may come and go while bytes are fetched.
        """
        self._look_up = None if look is None else partial(self._as_seen_now, look)
        self.ask, self.facts, self.me, self.key = ask, facts, me, key
        self.state = FleetState(me.name)
        self._emit = emit
        self._board: Board | None = None
        self._seen: View | None = None  # of the last fetch
        self._ended = threading.Event()
        self._pass = _Manners(ask, serves, self._ended)
        self.files: dict[str, Callable[[], Path | None]] = {}
        self.pages: dict[str, Callable[[], bytes]] = {STATE_TARGET: self.state.page}
        self._keeper: CacheKeeper | None = None
        self._sharing: Sharing | None = None
        self._server: PeerServer | None = None
        try:
            address = bind_address(ask, facts, me)
            self._server = PeerServer(address, me.port, key, self.pages, emit, self._pass.pass_by, self.files)
        except KbootError as exc:
            if isinstance(exc, ProfileError):
                raise
            emit(Notice("peers.not_served", f"{exc.code}: {exc.message} ({', '.join(exc.where)})"))

    @property
    def answers(self) -> bool:
        """Return whether the others can ask this node."""
        return self._server is not None

    def begin(self, emit: Emit) -> Emit:
        """Begin a boot as another run of this node; return what its events go to, so that the others see it get on."""
        self.state.begin_again()
        return self.state.follow(emit)

    def failed(self, error: KbootError) -> None:
        """Tell the others that the boot has failed, and why."""
        self.state.change(stage="failed", why=error.message[:500])

    def keep_caches(self, place: Place, members: Sequence[FleetNode], emit: Emit) -> CacheKeeper:
        """Return what looks after the kernel caches of the nodes that serve together; it has not begun."""
        if self._keeper is not None:
            self._keeper.end()
        peers = self._peers()
        by_rank = {rank: peers[node.name] for rank, node in enumerate(members) if node.name in peers}
        self._keeper = CacheKeeper(place, by_rank, self.files, emit, self.state.caches_complete)
        self.pages[CACHES_TARGET] = self._keeper.page
        return self._keeper

    def offer(self, listing: Listing, store: Store, in_part: Collection[str] = ()) -> None:
        """Give out from now on what is here of this commit. in_part: blob ids of files that are not wanted whole."""
        self._board = Board(listing, store, in_part)
        if self._server is not None:
            self._server.offer(self._board)

    def share(self, listing: Listing, store: Store, members: Sequence[FleetNode], emit: Emit) -> Sharing:
        """Return what a fetch needs to take parts of files from the nodes that serve with this one."""
        assert self._board is not None, "what is here is offered first"
        if self._sharing is not None:
            self._sharing.publisher.end()
        peers = self._peers()
        near = {node.name: peers[node.name] for node in members if node.name in peers}
        publisher = Publisher(listing, store, self._board, self.me.name, self.pages, emit)
        self._sharing = Sharing(near, publisher, self.ask.start_timeout_s)
        return self._sharing

    def exchange(self, emit: Emit) -> Exchange | None:
        """Return the dealings of one fetch with the others; None where there are no others."""
        if self._board is None or not (self.facts.others or self._look_up):
            return None
        exchange = Exchange(self.me.name, self._peers(), self._board, emit, look_up=self._look_up)
        self._seen = exchange.view
        return exchange

    def linger(self, stop: threading.Event) -> None:
        """Go on giving until every node that answers has everything, or nobody gets anything new; bounded."""
        if self._server is None or self._board is None or not self._board.complete:
            return
        if not (self.facts.others or self._look_up):
            return
        peers = (self._look_up() if self._look_up else {}) or self._peers()
        view = View(self.me.name, peers, self._board, lambda _event: None)
        view.follow(lambda: None, dict, lambda _name, _for_s: None, self._look_up)
        until_s, said = monotonic_s() + _LINGER_S, False
        missed = self._seen is not None and self._seen.missed()
        back_s = monotonic_s() + (_RETURN_S if missed else 0.0)
        try:
            while monotonic_s() < until_s and not stop.is_set():
                waiting = view.waits_for()
                # Who is not told would take the closed port for a node that was lost, and wait until it may come back.
                idle = not waiting and monotonic_s() >= back_s and not self._server.has_untold
                quiet_s = min(view.quiet_s(), self._server.quiet_s)
                if view.is_known and (idle or quiet_s >= _QUIET_S):
                    return
                if waiting and not said:
                    said = True
                    self._emit(Notice("fleet.lingers", f"{', '.join(waiting)} may still need what this node has"))
                stop.wait(_LOOK_S)
        finally:
            view.end()

    def end(self) -> None:
        """Answer no more."""
        self._ended.set()
        if self._keeper is not None:
            self._keeper.end()
        if self._sharing is not None:
            self._sharing.publisher.end()
        if self._server is not None:
            self._server.close()

    def _as_seen_now(self, look: Callable[[], FleetFacts]) -> dict[str, Peer]:
        """Return the other nodes; none where this one is not seen among them."""
        found = look()
        return {} if found.me is None else self._open(found.others)

    def _peers(self) -> dict[str, Peer]:
        return self._open(self.facts.others)

    def _open(self, others: Sequence[FleetNode]) -> dict[str, Peer]:
        nodes = [(node.name, node.host, node.port) for node in others]
        names = [node.name for node in others]
        return dict(zip(names, open_peers(nodes, self.key, _STALL_S), strict=True))


class _Manners:
    """How fast bytes are given: slower while an engine serves here, whose network it is."""

    def __init__(self, ask: FleetAsk, serves: Callable[[], bool], ended: threading.Event) -> None:
        self._throttle = Throttle(int(ask.serve_mib_s_while_serving * (1 << 20)), ended)
        self._limited = ask.serve_mib_s_while_serving > 0
        self._ask_engine = serves
        self._known_until_s, self._serves = 0.0, False

    def pass_by(self, size_bytes: int) -> None:
        """Wait until so many bytes may be sent."""
        if not self._limited:
            return
        now = monotonic_s()
        if now >= self._known_until_s:
            self._known_until_s = now + _SERVING_KNOWN_S
            self._serves = self._ask_engine()
        if self._serves:
            self._throttle.pass_by(size_bytes)


def bind_address(ask: FleetAsk, facts: FleetFacts, me: FleetNode) -> str:
    """Return the one address of this node that others of its fleet can reach.

    Raises:
        ProfileError: fleet.bind is no address or interface of this node, or all of them.
        SourceError: there is no address yet, or no way to the others: at boot, networks come up when they do.
    """
    address = ask.bind
    if address and not is_address(address):
        try:
            address = min(own_addresses(address), key=lambda text: (":" in text, text), default="")
        except OSError as exc:
            raise ProfileError("fleet-bind-not-valid", f"fleet.bind: {exc}") from exc
    elif not address:
        others = facts.others or (me,)
        address = me.host if is_address(me.host) else address_to(others[0].host, others[0].port)
    if not address:
        raise SourceError(
            "no-way-to-fleet",
            f"this node has no address on the way to the others yet (fleet.bind is {ask.bind!r})",
            hint="see `ip address` and `ip route`; order kboot.service after network-online.target",
            retry=True,
        )
    if _is_every_address(address):
        raise ProfileError(
            "fleet-bind-not-valid",
            f"fleet.bind is {ask.bind!r}, every address of this node at once",
            hint="name the address or interface of the cluster's network: fleet.bind",
        )
    return address


def _is_every_address(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_unspecified
