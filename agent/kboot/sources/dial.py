"""How is a connection made when some of a host's addresses lead nowhere?"""

from __future__ import annotations

import errno
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any

from kboot.addresses import host_port
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s
from kboot.sources.failures import NO_ROUTE, REFUSED_HINT, explain_network, unresolved
from kboot.sources.stopping import LOOK_S, answer_or_leave, stopped
from kboot.sources.types import NotYet

AddressInfo = tuple[int, int, int, str, Any]
"""One answer of getaddrinfo."""
Resolve = Callable[[str, int], Sequence[AddressInfo]]

_HEAD_START_S = 0.25  # what an address gets before the next is tried beside it
_RESOLVE_S = 60.0  # the C library asks three name servers twice, 5 s each; other look-ups of a name have no bound
_NEVER = threading.Event()


def resolve(host: str, port: int) -> Sequence[AddressInfo]:
    """Ask the system's resolver for stream addresses."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def dial(
    host: str, port: int, timeout_s: float, ask: Resolve = resolve, stop: threading.Event = _NEVER
) -> socket.socket:
    """Return a connected socket to the first of the host's addresses that answers.

    Addresses of both families take turns, each with a short head start before the next is tried beside it, so that a
    family that leads nowhere costs a quarter of a second. timeout_s: per address. stop: set = leave it at once.

    Raises:
        NotYet: the name cannot be resolved now, or there is no route.
        SourceError: the host is unknown, refuses or does not answer; "interrupted".
    """
    return _race(host, port, _take_turns(_addresses(host, port, ask, stop)), timeout_s, stop)


def _addresses(host: str, port: int, ask: Resolve, stop: threading.Event) -> Sequence[AddressInfo]:
    try:
        found = answer_or_leave(lambda: ask(host, port), stop, _RESOLVE_S)
    except TimeoutError as exc:
        raise unresolved(host, str(exc)) from exc
    except (OSError, UnicodeError) as exc:
        unknown = SourceError("host-unknown", f"{host} cannot be looked up: {exc}")
        raise explain_network(exc, host) or unknown from exc
    if not found:
        raise SourceError("host-unknown", f"{host} has no address")
    return found


def _take_turns(addresses: Sequence[AddressInfo]) -> list[AddressInfo]:
    first = addresses[0][0]
    one = [a for a in addresses if a[0] == first]
    other = [a for a in addresses if a[0] != first]
    return [a for pair in zip_longest(one, other) for a in pair if a is not None]


def _race(host: str, port: int, addresses: list[AddressInfo], timeout_s: float, stop: threading.Event) -> socket.socket:
    waiting = list(addresses)
    trying: dict[socket.socket, float] = {}  # → its deadline
    errors: list[OSError] = []
    next_at = monotonic_s()
    try:
        while waiting or trying:
            if stop.is_set():
                raise stopped()
            now = monotonic_s()
            if waiting and (now >= next_at or not trying):
                next_at = now + _HEAD_START_S
                _begin(waiting.pop(0), now + timeout_s, trying, errors)
                continue
            limit = min([*trying.values(), *([next_at] if waiting else [])]) - now
            for sock in _ready(list(trying), min(max(0.0, limit), LOOK_S)):
                del trying[sock]
                if not (number := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                    sock.setblocking(True)
                    return sock
                sock.close()
                errors.append(OSError(number, errno.errorcode.get(number, "")))
                next_at = 0.0
            for sock in [s for s, deadline in trying.items() if deadline <= monotonic_s()]:
                del trying[sock]
                sock.close()
                errors.append(TimeoutError(errno.ETIMEDOUT, "no answer"))
    finally:
        for sock in trying:
            sock.close()
    raise _no_connection(host, port, errors, timeout_s)


def _begin(address: AddressInfo, deadline: float, trying: dict[socket.socket, float], errors: list[OSError]) -> None:
    family, kind, protocol, _name, where = address
    try:
        sock = socket.socket(family, kind, protocol)
    except OSError as exc:
        errors.append(exc)
        return
    sock.setblocking(False)
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = sock.connect_ex(where)
    if number in (0, errno.EINPROGRESS):
        trying[sock] = deadline
    else:
        sock.close()
        errors.append(OSError(number, errno.errorcode.get(number, "")))


def _ready(socks: list[socket.socket], timeout_s: float) -> list[socket.socket]:
    poll = select.poll()
    by_fd = {sock.fileno(): sock for sock in socks}
    for fd in by_fd:
        poll.register(fd, select.POLLOUT)
    return [by_fd[fd] for fd, _events in poll.poll(timeout_s * 1000 + 1)]


def _no_connection(host: str, port: int, errors: list[OSError], timeout_s: float) -> SourceError:
    address, numbers = host_port(host, port), {e.errno for e in errors}
    if numbers and numbers <= NO_ROUTE:
        return NotYet("no-route", f"there is no route to {address}", hint="see `ip route`", retry=True)
    if errno.ECONNREFUSED in numbers:
        said = f"{address} refuses connections"
        return SourceError("connection-refused", said, hint=REFUSED_HINT, retry=True)
    if errno.ETIMEDOUT in numbers:
        tried = len(errors)
        return SourceError(
            "connect-timeout",
            f"no answer from {address}: {tried} address{'es' if tried > 1 else ''} tried, {timeout_s:g} s each",
            hint="a firewall or proxy may stand between: see HTTPS_PROXY",
            retry=True,
        )
    said = ", ".join(sorted({e.strerror or str(e) for e in errors})) or "no address"
    return SourceError("not-connected", f"cannot connect to {address}: {said}", retry=True)
