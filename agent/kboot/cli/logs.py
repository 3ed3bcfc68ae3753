"""How are events logged? A line each on stderr: text on a terminal, JSON elsewhere, with priorities for the journal."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, TextIO

import click

from kboot.host.terminal import StreamKind, stream_kind, wants_colour
from kboot.profile.secrets import HIDDEN, without_secrets

Level = Literal["debug", "info", "warning", "error"]

_TOKEN = re.compile(r"hf_(?!transfer\b)[A-Za-z0-9]{8,}")  # the library hf_transfer is no token
_PLAIN = re.compile(r"[^\s\"'=]+")
_PRIORITY: Mapping[Level, int] = {"debug": 7, "info": 6, "warning": 4, "error": 3}
_COLOUR: Mapping[Level, str] = {"debug": "cyan", "info": "green", "warning": "yellow", "error": "red"}
_EVENT_WIDTH = 20
_LEVEL_WIDTH = max(len(level) for level in _PRIORITY)


def masked(text: str) -> str:
    """Return the text with every token and signed link replaced."""
    return _TOKEN.sub(HIDDEN, without_secrets(text))


@dataclass(frozen=True, slots=True)
class Log:
    """Writes a line for each event, from any thread; context stands in every line.

    Raises, when a line is written: OSError, ValueError: the stream is gone.
    """

    stream: TextIO
    kind: StreamKind
    coloured: bool
    context: Mapping[str, object]
    verbose: bool
    lock: threading.Lock = field(default_factory=threading.Lock)

    def debug(self, event: str, **fields: object) -> None:
        """Log what is of use only while debugging."""
        if self.verbose:
            self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what a person on call would want."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what went wrong and was helped."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what went wrong."""
        self._write("error", event, fields)

    def _write(self, level: Level, event: str, fields: Mapping[str, object]) -> None:
        said = {**self.context, **fields}
        shown = {key: masked(value) if isinstance(value, str) else value for key, value in said.items()}
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if self.kind == "terminal":
            line = self._text(now, level, masked(event), shown)
        else:
            named = {**shown, "event": masked(event), "level": level, "timestamp": now}
            line = json.dumps(named, ensure_ascii=False, default=repr)
        if self.kind == "journal":
            line = f"<{_PRIORITY[level]}>{line}"  # in the form the journal takes off again (sd-daemon(3))
        with self.lock:
            self.stream.write(f"{line}\n")
            self.stream.flush()

    def _text(self, now: str, level: Level, event: str, fields: Mapping[str, object]) -> str:
        values = [f"{self._paint(key, fg='cyan')}={_shown(value)}" for key, value in sorted(fields.items())]
        named = f"{self._paint(level, fg=_COLOUR[level])}{' ' * (_LEVEL_WIDTH - len(level))}"
        return " ".join([self._paint(now, dim=True), named, self._paint(event.ljust(_EVENT_WIDTH), bold=True), *values])

    def _paint(self, text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
        return click.style(text, fg=fg, bold=bold, dim=dim) if self.coloured else text


def make_logger(
    context: Mapping[str, object], *, verbose: bool, env: Mapping[str, str], stream: TextIO | None = None
) -> Log:
    """Return a logger with its context bound once; verbose: debug lines as well."""
    target = stream or sys.stderr
    return Log(target, stream_kind(target, env), wants_colour(target, env), dict(context), verbose)


def _shown(value: object) -> str:
    """Return a value as a person reads it; text that could be taken for more than one word is quoted."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else repr(value)
    return str(value)
