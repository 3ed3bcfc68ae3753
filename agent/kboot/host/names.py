"""Which addresses do names have, and which are this machine's own?"""

from __future__ import annotations

import queue
import socket
import threading
from contextlib import suppress

_LINK_LOCAL = "fe80:"


def addresses_of(name: str, timeout_s: float) -> tuple[str, ...]:
    """Return the addresses of a host name, each once, in the resolver's order.

    Raises:
        OSError: it has none, or the resolver did not answer in time.
    """
    answers: queue.SimpleQueue[tuple[str, ...] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answers.put(tuple(dict.fromkeys(str(entry[4][0]) for entry in found)))
        except (OSError, UnicodeError) as exc:
            answers.put(exc if isinstance(exc, OSError) else OSError(f"{name!r} is no host name"))

    threading.Thread(target=ask, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"no answer in {timeout_s:g} s") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def own_addresses(interface: str = "") -> frozenset[str]:
    """Return the addresses of this machine, or of one of its interfaces; link-local ones left out.

    Raises:
        OSError: there is no such interface.
    """
    import psutil

    tables = psutil.net_if_addrs()
    if interface and interface not in tables:
        raise OSError(f"there is no interface {interface}; there are {', '.join(sorted(tables))}")
    entries = tables[interface] if interface else [entry for table in tables.values() for entry in table]
    families = (socket.AF_INET, socket.AF_INET6)
    found = {entry.address.partition("%")[0] for entry in entries if entry.family in families}
    return frozenset(address for address in found if not address.startswith(_LINK_LOCAL))


def interface_of(address: str) -> str:
    """Return the interface that has an address of this machine; empty where none has."""
    import psutil

    tables = psutil.net_if_addrs()
    return next((name for name, table in sorted(tables.items()) if address in {e.address for e in table}), "")


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, text)
            return True
    return False
