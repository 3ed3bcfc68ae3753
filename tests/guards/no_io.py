"""Fails a test when deciding code touches the machine: an audit hook that looks for kboot.plan, checks and engines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PURE = ("kboot.plan", "kboot.checks", "kboot.engines")
EVENTS = frozenset(
    {
        "open",
        "os.exec",
        "os.fork",
        "os.listdir",
        "os.posix_spawn",
        "os.scandir",
        "os.system",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "sqlite3.connect",
        "subprocess.Popen",
    }
)
_IMPORT_SYSTEM = "importlib._bootstrap"


class Watch:
    """Armed during one test. `seen` is the first thing deciding code did that it may not do."""

    def __init__(self) -> None:
        self.armed = False
        self.seen = ""
        sys.addaudithook(self._hook)  # cannot be taken away again, hence `armed`

    @contextmanager
    def armed_during(self) -> Iterator[None]:
        """Watch the block."""
        self.armed, self.seen = True, ""
        try:
            yield
        finally:
            self.armed = False

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if not self.armed or event not in EVENTS:
            return
        culprit = _pure_caller(sys._getframe(1))
        if culprit:
            self.armed = False  # first, or pytest's own report would trip over the hook
            self.seen = f"{culprit} did {event}{args[:1]}: deciding code takes values and returns values"
            raise AssertionError(self.seen)


def _pure_caller(frame: FrameType | None) -> str:
    """Return the pure module on the stack; importing a module from within one is allowed."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_IMPORT_SYSTEM):
            return ""
        if name in PURE or name.startswith(tuple(f"{package}." for package in PURE)):
            return str(name)
        frame = frame.f_back
    return ""
