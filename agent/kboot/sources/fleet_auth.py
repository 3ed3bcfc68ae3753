"""Does this request, or this answer, come from a node that has the fleet's secret?

Both sides prove it, with HMAC-SHA256 over everything that gives a message its meaning. Nothing is encrypted.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
from collections import OrderedDict
from dataclasses import field
from pathlib import Path
from typing import Literal

from kboot.errors import ActionFailed
from kboot.values import dataclass

REQUEST_HEADER = "Authorization"
ANSWER_HEADER = "Kboot-Fleet"
WINDOW_S = 120.0
"""How far two nodes' clocks may be apart, and how long a request can be used."""

_MOST_NONCES = 1 << 17
_LEAST_BYTES, _MOST_BYTES = 32, 4096
_FORM = re.compile(r"kboot-fleet-1 (\d{1,12}) ([0-9a-f]{32}) ([0-9a-f]{64})")
_ANSWER_FORM = re.compile(r"1 ([0-9a-f]{64})")

Refusal = Literal["unsigned", "other-key", "clock-differs", "used-before", "busy"]


@dataclass(frozen=True, slots=True)
class Request:
    """What of a request is signed. address: the Host header. target: path with query. byte_range: the Range header."""

    method: str
    address: str
    target: str
    byte_range: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What of an answer is signed. body: of a small one; empty for a part of a file, whose bytes prove themselves."""

    status: int
    content_range: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class FleetKey:
    """The secret that all nodes of a fleet share."""

    value: bytes = field(repr=False)

    def ask(self, request: Request, now_unix_s: float) -> tuple[str, str]:
        """Return the value of REQUEST_HEADER, and the nonce that the answer is proven against."""
        when, nonce = str(int(now_unix_s)), secrets.token_hex(16)
        return f"kboot-fleet-1 {when} {nonce} {_request_mac(self, request, when, nonce)}", nonce

    def answer(self, request: Request, nonce: str, answer: Answer) -> str:
        """Return the value of ANSWER_HEADER for the request of that nonce."""
        return f"1 {_answer_mac(self, request, nonce, answer)}"

    def is_ours(self, request: Request, nonce: str, answer: Answer, header: str) -> bool:
        """Return whether a node with the same key gave this answer to this request, and to no other one."""
        match = _ANSWER_FORM.fullmatch(header)
        return match is not None and hmac.compare_digest(match[1], _answer_mac(self, request, nonce, answer))


def read_key(path: Path) -> FleetKey:
    """Return the fleet's key.

    Raises:
        ActionFailed: it is not there, others may read or change it, or it is too short to be a secret.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            data = file.read(_MOST_BYTES + 1) if stat.S_ISREG(found.st_mode) else b""
    except OSError as exc:
        raise _no_key(path, f"it cannot be read: {exc.strerror}") from exc
    if not stat.S_ISREG(found.st_mode):
        raise _no_key(path, "it is no file")
    if found.st_uid not in (0, os.geteuid()):
        raise _no_key(path, f"it belongs to user {found.st_uid}")
    if found.st_mode & 0o037:  # a group may read it: that of a container's volume
        raise _no_key(path, f"others may read or change it (mode {found.st_mode & 0o777:o}, wanted 600 or 640)")
    text = data.strip()
    if not _LEAST_BYTES <= len(text) <= _MOST_BYTES:
        raise _no_key(path, f"it has {len(text)} bytes, wanted {_LEAST_BYTES} to {_MOST_BYTES}")
    return FleetKey(hashlib.sha256(b"kboot fleet 1\n" + text).digest())


def nonce_of(header: str) -> str:
    """Return the nonce of a REQUEST_HEADER; empty where it has none."""
    match = _FORM.fullmatch(header)
    return match[2] if match else ""


class Gate:
    """Lets in requests that were signed with the key, within the window, each once. For any thread."""

    def __init__(self, key: FleetKey, window_s: float = WINDOW_S) -> None:
        self._key, self._window_s = key, window_s
        self._lock = threading.Lock()
        self._used: OrderedDict[str, float] = OrderedDict()  # nonce → until when it must be remembered

    def refusal(self, header: str, request: Request, now_unix_s: float) -> Refusal | None:
        """Return why a request is refused; None lets it in."""
        match = _FORM.fullmatch(header)
        if match is None:
            return "unsigned"
        when, nonce, mac = match.groups()
        if not hmac.compare_digest(mac, _request_mac(self._key, request, when, nonce)):
            return "other-key"
        if abs(now_unix_s - int(when)) > self._window_s:
            return "clock-differs"
        return self._remember(nonce, now_unix_s)

    def __len__(self) -> int:
        """Return how many requests are remembered."""
        with self._lock:
            return len(self._used)

    def _remember(self, nonce: str, now_unix_s: float) -> Refusal | None:
        with self._lock:
            while self._used and self._is_over(next(iter(self._used.values())), now_unix_s):
                self._used.popitem(last=False)
            if nonce in self._used:
                return "used-before"
            if len(self._used) >= _MOST_NONCES:
                return "busy"
            self._used[nonce] = now_unix_s + 2 * self._window_s
            return None

    def _is_over(self, until_unix_s: float, now_unix_s: float) -> bool:
        """Return whether a nonce's request is refused by its time alone: it is too old, or the clock was set back."""
        return not now_unix_s <= until_unix_s <= now_unix_s + 4 * self._window_s


def _mac(key: FleetKey, *parts: str) -> str:
    """Hash the parts with their lengths, so that no two lists of parts give the same text."""
    text = "".join(f"{len(part.encode())}:{part}," for part in ("kboot-fleet-1", *parts))
    return hmac.new(key.value, text.encode(), hashlib.sha256).hexdigest()


def _request_mac(key: FleetKey, request: Request, when: str, nonce: str) -> str:
    body = hashlib.sha256(request.body).hexdigest()
    return _mac(key, "request", request.method, request.address, request.target, request.byte_range, body, when, nonce)


def _answer_mac(key: FleetKey, request: Request, nonce: str, answer: Answer) -> str:
    body = hashlib.sha256(answer.body).hexdigest()
    return _mac(key, "answer", request.target, nonce, str(answer.status), answer.content_range, body)


def _no_key(path: Path, why: str) -> ActionFailed:
    return ActionFailed(
        "fleet-key-not-usable",
        f"the fleet's key {path} cannot be used: {why}",
        where=(str(path),),
        hint=f"make one, and copy it to every node: `(umask 077; openssl rand -hex 32 > {path})`",
    )
