import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kboot.errors import SourceError
from kboot.sources.dial import AddressInfo, Resolve, dial
from kboot.sources.types import NotYet

CASES = Path(__file__).parents[1] / "cases"


def address(host: str, port: int) -> AddressInfo:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return (family, socket.SOCK_STREAM, 6, "", (host, port))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that answers no SYN: its queue of connections is full."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = server.getsockname()[1]
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        yield port


def test_a_black_holed_family_costs_little(listener: socket.socket, black_hole: int) -> None:
    """B032: the first address drops every packet, the second answers: the connection is made with the second."""
    names = json.loads((CASES / "B032" / "dns.json").read_text())["hub"]
    good = listener.getsockname()[1]
    found = [address("127.0.0.1", black_hole), address(names["A"][0], good)]

    with dial("hub", 443, 5.0, lambda _host, _port: found) as sock:
        assert ("127.0.0.1", good) == sock.getpeername()


def test_an_unreachable_address_is_passed_over(listener: socket.socket) -> None:
    """B032: an IPv6 address without a route is followed at once by the IPv4 one."""
    names = json.loads((CASES / "B032" / "dns.json").read_text())["hub"]
    good = listener.getsockname()[1]
    found = [address(names["AAAA"][0], good), address(names["A"][0], good)]

    with dial("hub", 443, 5.0, lambda _host, _port: found) as sock:
        assert ("127.0.0.1", good) == sock.getpeername()


def test_silence_is_an_error_with_its_deadline(black_hole: int) -> None:
    """Where no address answers, the error says how many were tried and for how long each."""
    with pytest.raises(SourceError) as caught:
        dial("hub", 443, 0.3, lambda _host, _port: [address("127.0.0.1", black_hole)])

    assert "connect-timeout" == caught.value.code
    assert "1 address tried, 0.3 s each" in caught.value.message


def test_a_closed_port_is_told_as_refused(listener: socket.socket) -> None:
    """Nobody listens: connection-refused."""
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(SourceError) as caught:
        dial("127.0.0.1", port, 1.0)

    assert "connection-refused" == caught.value.code


def answers(number: int) -> SourceError:
    def ask(_host: str, _port: int) -> list[AddressInfo]:
        raise socket.gaierror(number, "said the resolver")

    with pytest.raises(SourceError) as caught:
        dial("hub", 443, 1.0, ask)
    return caught.value


def test_a_resolver_that_does_not_answer_yet_is_waited_for() -> None:
    """B132: EAI_AGAIN is NotYet; an unknown name is final."""
    assert "EAI_AGAIN" == json.loads((CASES / "B132" / "dns.json").read_text())["error"]
    assert isinstance(answers(socket.EAI_AGAIN), NotYet)
    assert ("host-unknown", False) == (answers(socket.EAI_NONAME).code, answers(socket.EAI_NONAME).retry)


def left(ask: Resolve) -> str:
    """Dial until told to stop, a moment later; return the error's code."""
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(SourceError) as caught:
        dial("hub", 443, 50.0, ask, stop)
    return caught.value.code


def test_a_resolver_that_hangs_is_left_when_kboot_is_told_to_stop() -> None:
    """Nobody can interrupt it, so nobody waits for it."""
    never = threading.Event()

    def hang(_host: str, _port: int) -> list[AddressInfo]:
        never.wait(60)
        return []

    assert "interrupted" == left(hang)
    never.set()


def test_an_address_that_does_not_answer_is_left_too(black_hole: int) -> None:
    """Long before its time is over."""
    assert "interrupted" == left(lambda _host, _port: [address("127.0.0.1", black_hole)])
