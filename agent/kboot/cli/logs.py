"""How are events logged? A line each on stderr: text on a terminal, JSON elsewhere, with priorities for the journal."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from kboot.host.terminal import stream_kind, wants_colour
from kboot.profile.secrets import HIDDEN, without_secrets

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

_TOKEN = re.compile(r"hf_(?!transfer\b)[A-Za-z0-9]{8,}")  # the library hf_transfer is no token
_PRIORITY = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}


def masked(text: str) -> str:
    """Return the text with every token and signed link replaced."""
    return _TOKEN.sub(HIDDEN, without_secrets(text))


class Log:
    """Logs through structlog, which is loaded for the first line: many runs have nothing to say. From any thread.

    Raises, when a line is written: OSError, ValueError: the stream is gone.
    """

    def __init__(self, make: Callable[[], FilteringBoundLogger], *, verbose: bool) -> None:
        self._make = make
        self._verbose = verbose
        self._made: FilteringBoundLogger | None = None
        self._lock = threading.Lock()

    def debug(self, event: str, **fields: object) -> None:
        """Log what is of use only while debugging."""
        if self._verbose:
            self._logger().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what a person on call would want."""
        self._logger().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what went wrong and was helped."""
        self._logger().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what went wrong."""
        self._logger().error(event, **fields)

    def _logger(self) -> FilteringBoundLogger:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def make_logger(
    context: Mapping[str, object], *, verbose: bool, env: Mapping[str, str], stream: TextIO | None = None
) -> Log:
    """Return a logger with its context bound once; verbose: debug lines as well."""
    target = stream or sys.stderr
    return Log(lambda: _made(context, target, env, verbose=verbose), verbose=verbose)


def _made(
    context: Mapping[str, object], target: TextIO, env: Mapping[str, str], *, verbose: bool
) -> FilteringBoundLogger:
    kind = stream_kind(target, env)
    with nullcontext() if kind == "terminal" else _without_rich():
        import structlog

    chain: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask,
    ]
    if kind == "terminal":
        chain.append(structlog.dev.ConsoleRenderer(colors=wants_colour(target, env), pad_event_to=20))
    else:
        chain.append(structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False))
    if kind == "journal":
        chain.append(_prefix)
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(target),
        processors=chain,
        wrapper_class=structlog.make_filtering_bound_logger("debug" if verbose else "info"),
        context_class=dict,
    )
    return logger.bind(**context)


@contextmanager
def _without_rich() -> Iterator[None]:
    """Import structlog without rich, which it takes in where it is installed: 3.5 MiB for as long as a daemon lives."""
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # the import system's word for: not to be had
    try:
        yield
    finally:
        del sys.modules["rich"]


def _mask(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = masked(value)
    return event


def _prefix(_logger: object, method: str, line: Any) -> str:
    """Put the priority in front, in the form the journal takes off again (sd-daemon(3))."""
    return f"<{_PRIORITY.get(method, 6)}>{line}"
