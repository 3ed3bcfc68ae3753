"""The daemon's one wait, with real sockets, threads and signals."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kboot.errors import ActionFailed
from kboot.host.inbox import Asked, Inbox, Message, Signalled, Woken, ask

DEADLINE_S = 20.0


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    box = Inbox(tmp_path / "kboot.sock")
    yield box
    box.close()


def next_message(inbox: Inbox) -> Message:
    """Return the first message; connections being accepted are none."""
    while True:
        for message in inbox.wait(DEADLINE_S):
            return message


def test_a_request_is_answered_on_its_connection(inbox: Inbox, tmp_path: Path) -> None:
    """A client gets back the document the process replied with."""
    answers: list[dict[str, object]] = []
    client = threading.Thread(target=lambda: answers.append(ask(tmp_path / "kboot.sock", {"ask": "status"}, 20.0)))
    client.start()

    message = next_message(inbox)
    assert isinstance(message, Asked)
    message.reply({"kind": "status"})
    client.join(DEADLINE_S)

    assert {"ask": "status"} == message.request
    assert [{"kind": "status"}] == answers


def test_several_requests_may_follow_on_one_connection(inbox: Inbox, tmp_path: Path) -> None:
    """One JSON object per line, as many lines as the client likes, split anywhere."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "kboot.sock"))
        client.sendall(b'{"ask": 1}\n\n{"a')
        first = next_message(inbox)
        client.sendall(b'sk": 2}\n')
        second = next_message(inbox)

        assert isinstance(first, Asked) and {"ask": 1} == first.request
        assert isinstance(second, Asked) and {"ask": 2} == second.request


@pytest.mark.parametrize("line", [b"hello", b"[1]", b"\xff\xfe", b"7"])
def test_what_is_no_json_object_becomes_an_empty_request(inbox: Inbox, tmp_path: Path, line: bytes) -> None:
    """Garbage reaches the daemon as {}, which it answers with an error."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "kboot.sock"))
        client.sendall(line + b"\n")
        message = next_message(inbox)

        assert isinstance(message, Asked) and {} == message.request


def test_an_endless_line_is_cut_off(inbox: Inbox, tmp_path: Path) -> None:
    """A client that never ends its line is dropped, and memory stays bounded."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(DEADLINE_S)
        client.connect(str(tmp_path / "kboot.sock"))

        outcomes: list[str] = []

        def flood() -> None:
            try:
                for _ in range(1000):
                    client.sendall(b"x" * 4096)
                outcomes.append("took it all")
            except OSError:
                outcomes.append("cut off")

        flooder = threading.Thread(target=flood)
        flooder.start()
        while flooder.is_alive():
            inbox.wait(0.05)

        assert ["cut off"] == outcomes


def test_silent_clients_do_not_keep_others_out(inbox: Inbox, tmp_path: Path) -> None:
    """With 16 connections that never speak, the next client is still served."""
    silent = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(16)]
    try:
        for sock in silent:
            sock.connect(str(tmp_path / "kboot.sock"))
            inbox.wait(DEADLINE_S)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(tmp_path / "kboot.sock"))
            client.sendall(b'{"ask": "status"}\n')

            assert isinstance(next_message(inbox), Asked)
    finally:
        for sock in silent:
            sock.close()


def test_a_client_that_hung_up_is_no_error(inbox: Inbox, tmp_path: Path) -> None:
    """Replying to nobody does nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(tmp_path / "kboot.sock"))
        client.sendall(b'{"ask": "status"}\n')
        message = next_message(inbox)
    assert isinstance(message, Asked)

    message.reply({"kind": "status"})
    message.reply({"kind": "status"})


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_signals_are_messages(inbox: Inbox, name: str) -> None:
    """A signal ends the wait and is named; it does not interrupt anything."""
    os.kill(os.getpid(), getattr(signal, name))

    assert (Signalled(name),) == inbox.wait(DEADLINE_S)


def test_a_thread_ends_the_wait(inbox: Inbox) -> None:
    """wake() from another thread makes wait() return."""
    threading.Thread(target=inbox.wake).start()

    assert (Woken(),) == inbox.wait(DEADLINE_S)


def test_the_socket_is_for_owner_and_group_only(inbox: Inbox, tmp_path: Path) -> None:
    """Others on the machine cannot ask."""
    assert 0o660 == (tmp_path / "kboot.sock").stat().st_mode & 0o777


def test_a_socket_left_by_a_killed_process_is_replaced(tmp_path: Path) -> None:
    """The file of a dead listener does not keep the next daemon from starting."""
    path = tmp_path / "kboot.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))

    Inbox(path).close()

    assert not path.exists()


def test_no_folder_for_the_socket_is_an_error_with_its_path(tmp_path: Path) -> None:
    """The error says which path cannot be used."""
    with pytest.raises(ActionFailed) as caught:
        Inbox(tmp_path / "missing" / "kboot.sock")

    assert (str(tmp_path / "missing" / "kboot.sock"),) == caught.value.where


def test_asking_nobody_says_how_to_start_the_daemon(tmp_path: Path) -> None:
    """Without a daemon the hint names the unit."""
    with pytest.raises(ActionFailed) as caught:
        ask(tmp_path / "kboot.sock", {"ask": "status"}, 1.0)

    assert "daemon-not-running" == caught.value.code
    assert "systemctl start kboot" in (caught.value.hint or "")


def test_a_daemon_that_hangs_is_given_up(tmp_path: Path) -> None:
    """A listener that never answers ends in an error, not in a wait without end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(str(tmp_path / "kboot.sock"))
        deaf.listen()

        with pytest.raises(ActionFailed) as caught:
            ask(tmp_path / "kboot.sock", {"ask": "status"}, 0.1)

    assert "daemon-silent" == caught.value.code
