"""A node gives to its fleet what it has of the pinned commit, and nothing else to anybody."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from fakes.checkpoints import copy_in, fetch_all, paths_in
from fakes.fetching import listing_of
from fakes.hub import COMMIT, REPO
from fakes.peer import KEY
from kboot.apply.peer_board import Board, pieces_of
from kboot.apply.peer_server import PeerServer
from kboot.errors import SourceError
from kboot.events import Event, Notice
from kboot.host.clock import unix_s
from kboot.host.range_server import Asked, Reply
from kboot.sources.fleet_auth import ANSWER_HEADER, REQUEST_HEADER, Answer, FleetKey, Request
from kboot.sources.peers import Peer, blob_target, have_target
from kboot.store.store import Store

MIB = 1 << 20
FILES = {"a.safetensors": Random(1).randbytes(3 * MIB + 7), "b.safetensors": Random(2).randbytes(MIB), "c.json": b"{}"}
LISTING = listing_of(FILES)
A, B, C = LISTING.files


class Node:
    """A store, its board and a server that was never asked over a network."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(paths_in(folder))
        self.events: list[Event] = []
        self.files: dict[str, Callable[[], Path | None]] = {}
        pages = {"/kboot/1/state": lambda: b'{"phase":"fetch"}'}
        self.server = PeerServer("127.0.0.1", 0, KEY, pages, self.events.append, files=self.files)

    def offer(self) -> Board:
        board = Board(LISTING, self.store)
        self.server.offer(board)
        return board

    def ask(
        self, target: str, byte_range: str = "", key: FleetKey = KEY, method: str = "GET", late_s: float = 0
    ) -> Reply:
        """Return the answer to a request that was made late_s ago."""
        request = Request(method, "127.0.0.1:1", target, byte_range)
        proof, nonce = key.ask(request, unix_s() - late_s)
        headers = {"host": "127.0.0.1:1", "range": byte_range, REQUEST_HEADER.lower(): proof}
        reply = self.server.answer(Asked(method, target, headers, b"", "10.0.0.9"))
        given = Answer(reply.status, reply.headers.get("Content-Range", ""), reply.body)
        assert reply.status == 401 or KEY.is_ours(request, nonce, given, reply.headers[ANSWER_HEADER])
        return reply

    def peer(self) -> Peer:
        return Peer("n1", "127.0.0.1", self.server.port, KEY, 30.0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.server.close()


def test_a_document_says_what_is_here(node: Node) -> None:
    """A proven file is all there, of a partial the pieces that are whole, and what is being fetched stands apart."""
    fetch_all(node.store, LISTING, FILES, only=["c.json"])
    board = node.offer()
    board.arrived(A.blob_id, 0, 2 * MIB + 1)
    board.fetching(A.blob_id, 0b100)
    board.limited({"hub x": 4.0})
    document = node.peer().ask(have_target(REPO, COMMIT))

    assert {A.blob_id: "3", C.blob_id: "all"} == document["have"]
    assert {A.blob_id: "4"} == document["fetching"]
    assert (False, {"hub x": 4.0}) == (document["complete"], document["limited_s"])
    assert (0b11, 0b1111, 1) == (
        pieces_of("3", A.size_bytes),
        pieces_of("ffff", A.size_bytes),
        pieces_of("all", C.size_bytes),
    )


def test_a_node_that_has_everything_says_so(node: Node) -> None:
    """complete is true when every file is proven here."""
    fetch_all(node.store, LISTING, FILES)

    assert node.offer().complete
    assert node.peer().ask(have_target(REPO, COMMIT))["complete"] is True


def test_ranges_of_a_partial_are_given_as_far_as_they_came_from_the_origin(node: Node) -> None:
    """Bytes [start, end) inside what arrived; not a byte beyond, and none after it was withdrawn."""
    board = node.offer()
    part = node.store.part_path(REPO, A.blob_id)
    part.parent.mkdir(parents=True)
    part.write_bytes(FILES[A.path])
    board.arrived(A.blob_id, MIB, 2 * MIB)
    target = blob_target(REPO, COMMIT, A.blob_id)

    with node.peer().open(REPO, COMMIT, A, MIB + 5, 2 * MIB) as body:
        got, buffer = b"", memoryview(bytearray(MIB))
        while n := body.readinto(buffer):
            got += bytes(buffer[:n])
    assert FILES[A.path][MIB + 5 : 2 * MIB] == got
    assert 404 == node.ask(target, f"bytes={MIB - 1}-{2 * MIB - 1}").status
    assert 404 == node.ask(target, f"bytes={MIB}-{2 * MIB}").status
    board.withdraw(A.blob_id, MIB, MIB + 1)
    assert 404 == node.ask(target, f"bytes={MIB}-{2 * MIB - 1}").status


def test_a_file_that_was_changed_is_given_no_more(node: Node) -> None:
    """It was proven; then somebody wrote to it."""
    fetch_all(node.store, LISTING, FILES)
    node.offer()
    target = blob_target(REPO, COMMIT, B.blob_id)
    before = node.ask(target, "bytes=0-9").status
    with open(node.store.blob_path(REPO, B.blob_id), "r+b") as file:
        file.write(b"x")

    assert (206, 404) == (before, node.ask(target, "bytes=0-9").status)


def test_a_node_knows_whether_those_who_follow_it_have_heard_that_it_has_everything(node: Node) -> None:
    """Nobody follows; then one does, and hears it only when it asks again."""
    before, board = node.server.has_untold, node.offer()
    node.ask(have_target(REPO, COMMIT))
    for file in LISTING.files:
        board.proven(file.blob_id)
    asked = node.server.has_untold
    node.ask(have_target(REPO, COMMIT))

    assert (False, True, False) == (before, asked, node.server.has_untold)


def test_files_that_nobody_here_hashed_are_not_given(node: Node) -> None:
    """They have their names and sizes, and no proof."""
    copy_in(node.store, LISTING, FILES)

    assert {} == node.offer().document()["have"]
    assert 404 == node.ask(blob_target(REPO, COMMIT, B.blob_id), "bytes=0-9").status


@pytest.mark.parametrize(
    "target",
    [
        f"/kboot/1/blob/{REPO}/{'d' * 40}/{A.blob_id}",
        f"/kboot/1/blob/org/other/{COMMIT}/{A.blob_id}",
        f"/kboot/1/blob/{REPO}/{COMMIT}/{'e' * 64}",
        f"/kboot/1/blob/{REPO}/{COMMIT}/../../node.key",
        f"/kboot/1/blob/{REPO}/{COMMIT}/..%2f..%2fnode.key",
        f"/kboot/1/have/{REPO}/{'d' * 40}",
        f"/kboot/1/blob/../{COMMIT}/{A.blob_id}",
        "/",
        "/etc/passwd",
    ],
)
def test_nothing_else_is_given(node: Node, target: str) -> None:
    """Another commit, another repository, another blob, anything that is a path."""
    fetch_all(node.store, LISTING, FILES)
    node.offer()

    assert 404 == node.ask(target, "bytes=0-0").status


@pytest.mark.parametrize("byte_range", ["", "bytes=0-", "bytes=-5", "bytes=5-4", "bytes=0-1,3-4", "bytes=0-99999999"])
def test_only_one_whole_range_is_given(node: Node, byte_range: str) -> None:
    """With a beginning and an end inside the file."""
    fetch_all(node.store, LISTING, FILES)
    node.offer()

    assert 404 == node.ask(blob_target(REPO, COMMIT, A.blob_id), byte_range).status


def test_who_does_not_know_the_key_learns_nothing(node: Node) -> None:
    """Not even whether a file is here; the operator is told once who asked."""
    fetch_all(node.store, LISTING, FILES)
    node.offer()
    target, other = blob_target(REPO, COMMIT, A.blob_id), FleetKey(b"x" * 32)
    replies = [node.ask(target, "bytes=0-9", other), node.ask(have_target(REPO, COMMIT), key=other)]

    assert [(401, "other-key")] * 2 == [(r.status, json.loads(r.body)["code"]) for r in replies]
    assert all(ANSWER_HEADER not in r.headers and r.part is None for r in replies)
    assert ["peer.turned_away"] == [e.event for e in node.events if isinstance(e, Notice)]


def test_a_node_whose_clock_differs_is_told_so(node: Node) -> None:
    """The refusal is proven, and says what time it is here."""
    reply = node.ask(have_target(REPO, COMMIT), late_s=4000)

    assert (401, "clock-differs") == (reply.status, json.loads(reply.body)["code"])
    assert ANSWER_HEADER in reply.headers


def test_a_peer_with_another_key_is_no_source(node: Node) -> None:
    """Whoever answers without the key is not believed, and whoever refuses us is named."""
    node.offer()
    with pytest.raises(SourceError) as refused:
        Peer("n1", "127.0.0.1", node.server.port, FleetKey(b"x" * 32), 30.0).ask("/kboot/1/state")

    assert "peer-refuses" == refused.value.code
    assert "key file" in (refused.value.hint or "")


def test_an_answer_of_somebody_else_is_not_believed(tmp_path: Path) -> None:
    """A server that lets everybody in, but does not know the key."""
    from kboot.host.range_server import RangeServer

    server = RangeServer("127.0.0.1", 0, lambda _: Reply(200, {}, b"{}"))
    with pytest.raises(SourceError) as caught:
        Peer("n1", "127.0.0.1", server.port, KEY, 30.0).ask("/kboot/1/state")
    server.close()

    assert "peer-not-ours" == caught.value.code


def test_a_refusal_is_told_in_a_word(node: Node) -> None:
    """Not as the document that the other node sends."""
    with pytest.raises(SourceError) as caught:
        Peer("n1", "127.0.0.1", node.server.port, FleetKey(b"x" * 32), 30.0).ask("/kboot/1/state")

    assert ("peer-refuses", "peer n1 refuses: other-key") == (caught.value.code, caught.value.message)


@pytest.mark.parametrize("page", [b"[" * 100_000, b"[]", b'{"a":', b"9" * 5000, b"\xff"])
def test_an_answer_that_is_no_document_is_an_error_of_that_node(page: bytes) -> None:
    """Whatever a node that has the key answers, who asked it goes on."""
    server = PeerServer("127.0.0.1", 0, KEY, {"/kboot/1/state": lambda: page}, lambda _event: None)
    with pytest.raises(SourceError) as caught:
        Peer("n1", "127.0.0.1", server.port, KEY, 30.0).ask("/kboot/1/state")
    server.close()

    assert "peer-answer-not-valid" == caught.value.code


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1"])
def test_an_answer_without_a_length_that_is_one_is_refused(length: str) -> None:
    """Some digits are no number to Python, and some numbers are too long for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{{}}".encode("latin-1"))

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(SourceError) as caught:
            Peer("n1", "127.0.0.1", listener.getsockname()[1], KEY, 30.0).ask("/kboot/1/state")

    assert caught.value.code in ("peer-answer-not-valid", "not-http")


def test_other_files_are_given_whole(node: Node, tmp_path: Path) -> None:
    """From their first byte or from a later one; one that is not there now is said so."""
    file = tmp_path / "archive"
    file.write_bytes(b"0123456789")
    found: list[Path | None] = [file]
    node.files["/kboot/1/cache/key"] = lambda: found[0]
    body, size_bytes = node.peer().open_file("/kboot/1/cache/key")
    with body:
        got = bytearray(size_bytes)
        assert 10 == body.readinto(memoryview(got))

    assert b"0123456789" == bytes(got)
    assert "bytes 4-9/10" == node.ask("/kboot/1/cache/key", "bytes=4-").headers["Content-Range"]
    assert [404, 404] == [node.ask("/kboot/1/cache/key", text).status for text in ("", "bytes=10-")]
    found[0] = None
    with pytest.raises(SourceError) as caught:
        node.peer().open_file("/kboot/1/cache/key")
    assert "file-not-found" == caught.value.code


def test_pages_of_others_are_answered(node: Node) -> None:
    """Before there is any checkpoint to give; they are proven like everything else, and only read."""
    assert {"phase": "fetch"} == node.peer().ask("/kboot/1/state")
    assert 405 == node.ask("/kboot/1/state", method="POST").status
    with pytest.raises(SourceError) as caught:
        node.peer().ask(have_target(REPO, COMMIT))
    assert "peer-knows-not" == caught.value.code
