"""What does this node answer another node of its fleet? What it has, parts of that, and pages that others add."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from kboot.apply.peer_board import Board
from kboot.events import Emit, Notice
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.files import identity
from kboot.host.range_server import Asked, Part, RangeServer, Reply
from kboot.sources.fleet_auth import (
    ANSWER_HEADER,
    REQUEST_HEADER,
    Answer,
    FleetKey,
    Gate,
    Request,
    nonce_of,
)
from kboot.sources.peers import PREFIX

Pages = Mapping[str, Callable[[], bytes]]
"""Target → the JSON document that is answered; called from several threads."""

Files = Mapping[str, Callable[[], Path | None]]
"""Target → the file that is given, whole or from a byte on; None where there is none now. As Pages."""

_TARGET = re.compile(re.escape(PREFIX) + r"/(have|blob)/([\w.-]+(?:/[\w.-]+)?)/([0-9a-f]{40})(?:/([0-9a-f]{40,64}))?")
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})")
_FROM = re.compile(r"bytes=(\d{1,18})-(\d{0,18})")
_TOLD_CLIENTS = 64
_ASKS_S = 3.0  # who has not asked for so long follows this node no more


class PeerServer:
    """Answers on one address of the cluster's network, to nodes that prove the fleet's key."""

    def __init__(
        self,
        address: str,
        port: int,
        key: FleetKey,
        pages: Pages,
        emit: Emit,
        pass_by: Callable[[int], None] = lambda _n: None,
        files: Files = MappingProxyType({}),
    ) -> None:
        """Listen. port: 0 = any free one. pass_by: called before so many bytes are sent; may wait.

        Raises:
            ActionFailed: the address or port cannot be had.
        """
        self._key, self._pages, self._files, self._emit = key, pages, files, emit
        self._gate = Gate(key)
        self._board: Board | None = None
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._pass_by = pass_by
        self._given_s = monotonic_s()
        self._askers: dict[str, tuple[float, bool]] = {}  # client → when it asked what is here, was it told: everything
        self._server = RangeServer(address, port, self.answer, self._pass)
        self.address, self.port = self._server.address, self._server.port

    def offer(self, board: Board) -> None:
        """Give out from this board from now on."""
        self._board = board

    @property
    def quiet_s(self) -> float:
        """For how long no byte of a file has been given."""
        return monotonic_s() - self._given_s

    @property
    def has_untold(self) -> bool:
        """Whether somebody who asks every moment what is here does not know yet that everything is."""
        now = monotonic_s()
        with self._lock:
            return any(not told and now - asked_s < _ASKS_S for asked_s, told in self._askers.values())

    def close(self) -> None:
        """Stop answering."""
        self._server.close()

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to one request; a request without a proof learns nothing."""
        proof = asked.headers.get(REQUEST_HEADER.lower(), "")
        host, byte_range = asked.headers.get("host", ""), asked.headers.get("range", "")
        request = Request(asked.method, host, asked.target, byte_range, asked.body)
        now = unix_s()
        refusal = self._gate.refusal(proof, request, now)
        if refusal is not None:
            self._tell(asked.client, refusal)
            reply = _document(401, {"code": refusal, "unix_s": now})
            known = refusal not in ("unsigned", "other-key")
            return self._signed(request, nonce_of(proof), reply) if known else reply
        return self._signed(request, nonce_of(proof), self._reply(asked, byte_range))

    def _pass(self, size_bytes: int) -> None:
        self._given_s = monotonic_s()
        self._pass_by(size_bytes)

    def _reply(self, asked: Asked, byte_range: str) -> Reply:
        if asked.method != "GET":
            return _document(405, {"code": "get-only"})
        if page := self._pages.get(asked.target):
            return _json(200, page())
        if find := self._files.get(asked.target):
            return _part_of(find(), byte_range)
        found = _TARGET.fullmatch(unquote(asked.target))
        board = self._board
        if found is None or board is None or (found[2], found[3]) != (board.repo, board.commit):
            return _document(404, {"code": "not-known"})
        if found[1] == "have":
            return _document(200, self._told_of(board, asked.client))
        wanted = _RANGE.fullmatch(byte_range)
        part = board.part(found[4] or "", int(wanted[1]), int(wanted[2]) + 1) if wanted else None
        if part is None:
            return _document(404, {"code": "not-here"})
        return _partial(*part)

    def _told_of(self, board: Board, client: str) -> Mapping[str, object]:
        now, document = monotonic_s(), board.document()
        with self._lock:
            self._askers = {c: seen for c, seen in self._askers.items() if now - seen[0] < _ASKS_S}
            self._askers[client] = (now, document["complete"] is True)
        return document

    def _signed(self, request: Request, nonce: str, reply: Reply) -> Reply:
        given = Answer(reply.status, reply.headers.get("Content-Range", ""), reply.body)
        proof = self._key.answer(request, nonce, given)
        return Reply(reply.status, {**reply.headers, ANSWER_HEADER: proof}, reply.body, reply.part)

    def _tell(self, client: str, refusal: str) -> None:
        """Say once for each client that it was refused."""
        with self._lock:
            if client in self._told or len(self._told) >= _TOLD_CLIENTS:
                return
            self._told.add(client)
        self._emit(Notice("peer.turned_away", f"{client} asked this node as a node of its fleet: {refusal}"))


def _part_of(path: Path | None, byte_range: str) -> Reply:
    wanted = _FROM.fullmatch(byte_range)
    try:
        size_bytes = identity(path).size_bytes if path is not None else 0
    except OSError:
        size_bytes = 0
    start = int(wanted[1]) if wanted else 0
    end = min(int(wanted[2]) + 1, size_bytes) if wanted and wanted[2] else size_bytes
    if path is None or wanted is None or start >= end:
        return _document(404, {"code": "not-here"})
    return _partial(Part((path,), start, end), size_bytes)


def _partial(part: Part, size_bytes: int) -> Reply:
    content_range = f"bytes {part.start}-{part.end - 1}/{size_bytes}"
    return Reply(206, {"Content-Type": "application/octet-stream", "Content-Range": content_range}, part=part)


def _document(status: int, document: Mapping[str, object]) -> Reply:
    return _json(status, json.dumps(document, separators=(",", ":")).encode())


def _json(status: int, body: bytes) -> Reply:
    return Reply(status, {"Content-Type": "application/json"}, body)
