"""How does another node of the fleet give what it has? Ranges of files over HTTP, with proofs in both directions."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import quote

from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.host.clock import monotonic_s, unix_s
from kboot.jsontext import parse_json
from kboot.sources.asking import check_small, read_whole
from kboot.sources.fleet_auth import ANSWER_HEADER, REQUEST_HEADER, Answer, FleetKey, Refusal, Request
from kboot.sources.framing import Frame, frame, header_number, range_header
from kboot.sources.http import Answer as HttpAnswer
from kboot.sources.http import Client, HttpBody
from kboot.sources.proxies import Origin
from kboot.sources.secrets import mask
from kboot.sources.types import Found

PREFIX = "/kboot/1"
"""Version of what nodes ask of each other; part of every target."""
CONNECT_TIMEOUT_S = 3.0
_DOCUMENT_BYTES = 16 << 20
_DOCUMENT_S = 30.0
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_BUFFER_BYTES = 256 << 10


def blob_target(repo: str, commit: str, blob_id: str) -> str:
    """Return what is asked for a file's content."""
    return f"{PREFIX}/blob/{quote(repo, safe='/')}/{commit}/{blob_id}"


def have_target(repo: str, commit: str) -> str:
    """Return what is asked for the document of what a node has of a commit."""
    return f"{PREFIX}/have/{quote(repo, safe='/')}/{commit}"


def pieces_target(repo: str, commit: str, blob_id: str = "") -> str:
    """Return what is asked for the range digests of a file; without one, for which files a node has them."""
    return f"{PREFIX}/pieces/{quote(repo, safe='/')}/{commit}{'/' if blob_id else ''}{blob_id}"


class Peer:
    """One other node. It has no hashes that could be believed, so it only delivers bytes.

    No proxy is asked and no redirect followed: the bytes come from that node or not at all. No token of any other
    source is ever sent.
    """

    trusted = False

    def __init__(self, name: str, host: str, port: int, key: FleetKey, stall_timeout_s: float) -> None:
        """Make one; nothing is asked yet. name: of the node, for messages."""
        self.name = f"peer {name}"
        self._address = Origin("http", host, port).address
        self._key = key
        self._client = Client({}, min(CONNECT_TIMEOUT_S, stall_timeout_s), stall_timeout_s)
        self._stop = threading.Event()

    def list(self, repo: str, revision: str) -> Found:
        """Refuse: a node cannot vouch for another's bytes."""
        raise SourceError(
            "no-trusted-listing",
            f"{self.name} may have bytes of {repo} at {revision}, but nothing that proves them",
            hint='name "hub" among the sources',
        )

    def read(self, repo: str, commit: str, file: RemoteFile, limit_bytes: int) -> bytes:
        """Return a small file's bytes, unproven. See Source."""
        check_small(file, limit_bytes)
        return read_whole(self.open(repo, commit, file, 0), file) if file.size_bytes else b""

    def open(self, repo: str, commit: str, file: RemoteFile, start: int, end: int | None = None) -> HttpBody:
        """Ask for bytes [start, end) of a file. See Source."""
        header = range_header(start, file.size_bytes if end is None else end)
        answer, request, nonce = self._get(blob_target(repo, commit, file.blob_id), header)
        if answer.status != 206:
            raise self._refusal(answer, file.path)
        try:
            given = Answer(answer.status, answer.headers.get("content-range", ""))
            self._prove(answer, request, nonce, given)
            framed = frame(answer.status, answer.headers, start, end, file.size_bytes)
        except SourceError:
            answer.drop()
            raise
        return answer.body(framed)

    def ask(self, target: str) -> Mapping[str, Any]:
        """Return a small document that the node gives, proven to be its answer to this question.

        Raises:
            SourceError: it does not answer, refuses, or somebody else answers.
        """
        answer, request, nonce = self._get(target, {})
        size_bytes = header_number(answer.headers.get("content-length", ""))
        if size_bytes is None or size_bytes > _DOCUMENT_BYTES:
            answer.drop()
            raise SourceError("peer-answer-not-valid", f"{self.name} answers without a length, or with too much")
        data = _read(answer.body(Frame(0, size_bytes, size_bytes)), size_bytes)
        if answer.status != 200:
            raise self._refused(answer.status, data)
        self._prove(answer, request, nonce, Answer(answer.status, "", data))
        try:
            document = parse_json(data)
        except ValueError as exc:
            raise SourceError("peer-answer-not-valid", f"{self.name} answers with no JSON: {exc}") from exc
        if not isinstance(document, dict):
            raise SourceError("peer-answer-not-valid", f"{self.name} answers with something else than an object")
        return document

    def open_file(self, target: str) -> tuple[HttpBody, int]:
        """Return the bytes of another file that the node gives, and its size; what proves them is the caller's to know.

        Raises:
            SourceError: it does not answer, refuses, or has no such file.
        """
        answer, request, nonce = self._get(target, {"Range": "bytes=0-"})
        if answer.status != 206:
            raise self._refusal(answer, target)
        try:
            told = answer.headers.get("content-range", "")
            self._prove(answer, request, nonce, Answer(answer.status, told))
            found = _CONTENT_RANGE.fullmatch(told)
            if found is None or int(found[1]) != 0:
                raise SourceError("peer-answer-not-valid", f"{self.name} gives {told!r} of a whole file")
            size_bytes = int(found[3])
            framed = frame(answer.status, answer.headers, 0, None, size_bytes)
        except SourceError:
            answer.drop()
            raise
        return answer.body(framed), size_bytes

    def interrupt(self) -> None:
        """End every open body and refuse new ones. See Source."""
        self._stop.set()
        self._client.interrupt()

    def close(self) -> None:
        """Close idle connections. See Source."""
        self._client.close()

    def _get(self, target: str, header: Mapping[str, str]) -> tuple[HttpAnswer, Request, str]:
        request = Request("GET", self._address, target, header.get("Range", ""))
        proof, nonce = self._key.ask(request, unix_s())
        headers = {**header, "Host": self._address, REQUEST_HEADER: proof}
        return self._client.get(f"http://{self._address}{target}", headers), request, nonce

    def _prove(self, answer: HttpAnswer, request: Request, nonce: str, given: Answer) -> None:
        if not self._key.is_ours(request, nonce, given, answer.headers.get(ANSWER_HEADER.lower(), "")):
            raise SourceError(
                "peer-not-ours",
                f"what answers at {self._address} does not know the fleet's key",
                hint="compare the key files of both nodes: `sha256sum` of fleet.key_file",
            )

    def _refusal(self, answer: HttpAnswer, path: str) -> SourceError:
        text = answer.text()
        if answer.status == 404:
            return SourceError("file-not-found", f"{self.name} has no {path}")
        return self._refused(answer.status, text.encode())

    def _refused(self, status: int, said: bytes) -> SourceError:
        text = mask(said[:200].decode("utf-8", "replace").strip().partition("\n")[0])
        if status == 401:
            hint = "every node needs the same key file, and a clock that is set: see `timedatectl`"
            return SourceError("peer-refuses", f"{self.name} refuses: {_code_in(said) or text}", hint=hint)
        if status == 404:
            return SourceError("peer-knows-not", f"{self.name} does not know what is asked")
        return SourceError("peer-has-not", f"{self.name} answers {status}: {text}", retry=True)


def _code_in(said: bytes) -> str:
    """Return why kboot on another node refuses; empty where it is not kboot that says so."""
    try:
        document = parse_json(said)
    except ValueError:
        return ""
    code = document.get("code") if isinstance(document, dict) else None
    return str(code) if code in get_args(Refusal) else ""


def _read(body: HttpBody, size_bytes: int) -> bytes:
    data = memoryview(bytearray(size_bytes))
    done, until_s = 0, monotonic_s() + _DOCUMENT_S
    with body:
        while done < size_bytes:
            if monotonic_s() > until_s:
                raise SourceError("source-silent", f"an answer came with {done} of {size_bytes} bytes", retry=True)
            done += body.readinto(data[done : done + _BUFFER_BYTES])
    return bytes(data)
