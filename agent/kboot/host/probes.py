"""What does a question to the machine answer, if the answer may never come?"""

from __future__ import annotations

import math
import os
import pickle
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from kboot.errors import KbootError
from kboot.host.clock import monotonic_s, sleep_s

_T = TypeVar("_T")
_until_s: ContextVar[float] = ContextVar("until_s", default=math.inf)
_READ_BYTES = 1 << 20
_REAP_S = 0.5
_REAP_STEP_S = 0.01


class ProbeFailed(KbootError):
    """A probe gave no answer: it hung, it died, or it met something nobody thought of."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let all questions that are asked inside take so long together at most, whatever each was allowed."""
    token = _until_s.set(min(_until_s.get(), monotonic_s() + seconds))
    try:
        yield
    finally:
        _until_s.reset(token)


def at_most(timeout_s: float) -> float:
    """Return a time limit cut to what is left of all of them; 0 where nothing is."""
    return max(0.0, min(timeout_s, _until_s.get() - monotonic_s()))


def ask_in_child(question: Callable[[], _T], timeout_s: float) -> _T:
    """Return what `question` returns, asked in a forked child of this process.

    A call that blocks in the kernel (a dead NFS server, a sick driver) takes a thread's whole process with it: not even
    exit ends it. The child alone is lost then. It is killed at the deadline, and left to the kernel where that does not
    end it. The answer must be a value that pickle can carry.

    Raises:
        KbootError: the one that the question raised.
        ProbeFailed: no answer in time, or the child ended without one.
        OSError: no process can be started.
    """
    if (timeout_s := at_most(timeout_s)) <= 0:
        raise ProbeFailed("probe-timeout", "not asked: no time is left for this run")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(question, writer, timeout_s)
    os.close(writer)
    try:
        data = _read_all(reader, monotonic_s() + timeout_s)
    finally:
        os.close(reader)
        state = _end(child)
    if data is None:
        stuck = f"; its process {child} stays in state {state}" if state else ""
        raise ProbeFailed("probe-timeout", f"no answer in {round(timeout_s, 1):g} s{stuck}")
    return _unpacked(data)


def _answer(question: Callable[[], object], writer: int, timeout_s: float) -> None:
    """Send the answer and end this process, come what may; an alarm ends it where its parent is gone."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(int(timeout_s) + 2)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(_packed(question))
    finally:
        os._exit(0)


def _packed(question: Callable[[], object]) -> bytes:
    try:
        return pickle.dumps(("answer", question()))
    except KbootError as exc:
        return pickle.dumps(("error", (exc.code, exc.message, exc.where, exc.hint)))
    except Exception as exc:  # noqa: BLE001 - a probe may meet anything; the parent reports it as unknown
        return pickle.dumps(("crash", f"{type(exc).__name__}: {exc}"))


def _unpacked(data: bytes) -> _T:  # type: ignore[type-var]
    if not data:
        raise ProbeFailed("probe-died", "the probe ended without an answer")
    kind, value = pickle.loads(data)  # our own child's words
    if kind == "error":
        code, message, where, hint = value
        raise KbootError(code, message, where=where, hint=hint)
    if kind == "crash":
        raise ProbeFailed("probe-crashed", f"the probe met {value}")
    answer: _T = value
    return answer


def _read_all(reader: int, deadline_s: float) -> bytes | None:
    """Return all that is written until the other end closes; None at the deadline."""
    parts: list[bytes] = []
    while True:
        left_s = deadline_s - monotonic_s()
        if left_s <= 0 or not select.select([reader], [], [], left_s)[0]:
            return None
        part = os.read(reader, _READ_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _end(child: int) -> str:
    """Kill and reap the child; return its state where the kernel does not let it go ("D"), else ""."""
    os.kill(child, signal.SIGKILL)
    deadline_s = monotonic_s() + _REAP_S
    while monotonic_s() < deadline_s:
        if os.waitpid(child, os.WNOHANG)[0]:
            return ""
        sleep_s(_REAP_STEP_S)
    try:
        with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
