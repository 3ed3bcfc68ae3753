"""sd_notify, against a real datagram socket."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kboot.host.notify import Notifier, take_notifier


@pytest.fixture
def manager(tmp_path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(tmp_path / "notify"))
    sock.settimeout(10)
    yield sock
    sock.close()


def said(manager: socket.socket) -> list[str]:
    return manager.recv(4096).decode().split("\n")


def test_each_message_is_what_systemd_documents(manager: socket.socket) -> None:
    """Every method sends the assignments that sd_notify(3) names, in one datagram."""
    notifier = Notifier(manager.getsockname(), None)

    assert notifier.ready("prepared")
    assert ["READY=1", "STATUS=prepared"] == said(manager)
    assert notifier.status("fetch 12 of 111")
    assert ["STATUS=fetch 12 of 111"] == said(manager)
    assert notifier.extend(90.5)
    assert ["EXTEND_TIMEOUT_USEC=90500000"] == said(manager)
    assert notifier.watchdog()
    assert ["WATCHDOG=1"] == said(manager)
    assert notifier.stopping("told to")
    assert ["STOPPING=1", "STATUS=told to"] == said(manager)


def test_a_reload_carries_the_monotonic_clock(manager: socket.socket) -> None:
    """RELOADING=1 goes with MONOTONIC_USEC, which newer systemd asks for."""
    Notifier(manager.getsockname(), None).reloading("again")

    reloading, clock, status = said(manager)
    assert ("RELOADING=1", "STATUS=again") == (reloading, status)
    assert clock.startswith("MONOTONIC_USEC=") and clock.removeprefix("MONOTONIC_USEC=").isdecimal()


def test_a_status_cannot_smuggle_an_assignment(manager: socket.socket) -> None:
    """A newline in a text does not start another assignment."""
    Notifier(manager.getsockname(), None).status("half way\nREADY=1")

    assert ["STATUS=half way READY=1"] == said(manager)


def test_an_abstract_address_works() -> None:
    """A leading @ means the abstract namespace, as in containers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("")  # the kernel chooses an abstract name
        sock.settimeout(10)

        assert Notifier("@" + sock.getsockname()[1:].decode(), None).watchdog()
        assert b"WATCHDOG=1" == sock.recv(100)


@pytest.mark.parametrize("address", ["", "/nonexistent/notify", "@nobody-listens-here"])
def test_nobody_listening_is_no_error(address: str) -> None:
    """Without a service manager, or with one that is gone, a message is not sent and nothing is raised."""
    assert not Notifier(address, None).ready("x")


def test_a_full_queue_is_no_error(manager: socket.socket) -> None:
    """A service manager that does not read cannot block or break the service."""
    notifier = Notifier(manager.getsockname(), None)

    for _ in range(5000):
        if not notifier.watchdog():
            break
    else:
        pytest.fail("the queue never filled")


def test_no_child_inherits_the_channel() -> None:
    """B141: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID leave the environment when they are read."""
    env = {"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_PID": "4242", "WATCHDOG_USEC": "10000000", "HOME": "/"}

    notifier = take_notifier(env, 4242)

    assert 10.0 == notifier.watchdog_s
    assert {"HOME": "/"} == env


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-5"},
    ],
)
def test_a_watchdog_meant_for_others_or_switched_off_is_none(env: dict[str, str]) -> None:
    """B141: only a positive WATCHDOG_USEC for this very process counts."""
    assert take_notifier(env, 4242).watchdog_s is None


def test_an_address_of_another_family_is_ignored() -> None:
    """vsock addresses and nonsense are left alone."""
    assert not take_notifier({"NOTIFY_SOCKET": "vsock:2:1234"}, 1).watchdog()
