"""What are this process's standard streams: a terminal, the journal, a pipe that nobody reads any more?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, TextIO

StreamKind = Literal["terminal", "journal", "plain"]


def stream_kind(stream: TextIO, env: Mapping[str, str]) -> StreamKind:
    """Return what a stream is: a terminal that can move its cursor, the journal (JOURNAL_STREAM), or neither."""
    try:
        is_terminal = stream.isatty()
    except ValueError:  # closed
        is_terminal = False
    if is_terminal and env.get("TERM", "dumb") != "dumb":
        return "terminal"
    return "journal" if env.get("JOURNAL_STREAM") and not is_terminal else "plain"


def wants_colour(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Return whether text on the stream may be coloured: a terminal, and NO_COLOR is not set."""
    return stream_kind(stream, env) == "terminal" and not env.get("NO_COLOR")


def columns_of(stream: TextIO) -> int | None:
    """Return how wide the terminal behind a stream is; None where it is none, or does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def own_environ() -> Mapping[str, str]:
    """Return a copy of this process's environment."""
    return dict(os.environ)


def open_missing_streams() -> None:
    """Give this process the null device for each standard stream it was started without (`>&-`).

    Otherwise the first files it opens would take their numbers, and what is printed would land in them.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  (it lives as long as the process)


def silence_stdout() -> None:
    """Send what is still to be written nowhere: the reader of the pipe has gone."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def working_folder_is_gone() -> bool:
    """Return whether the folder that this process works in was removed."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
