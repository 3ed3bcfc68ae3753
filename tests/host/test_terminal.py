"""What are this process's standard streams?"""

from __future__ import annotations

import io

from kboot.host.terminal import stream_kind, wants_colour


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_stream_is_a_terminal_the_journal_or_neither() -> None:
    """A dumb terminal cannot move its cursor; JOURNAL_STREAM means nothing on a terminal."""
    assert "terminal" == stream_kind(Terminal(), {"TERM": "xterm", "JOURNAL_STREAM": "8:1"})
    assert "plain" == stream_kind(Terminal(), {"TERM": "dumb", "JOURNAL_STREAM": "8:1"})
    assert "plain" == stream_kind(Terminal(), {})
    assert "journal" == stream_kind(io.StringIO(), {"JOURNAL_STREAM": "8:1"})
    assert "plain" == stream_kind(io.StringIO(), {"TERM": "xterm"})


def test_a_closed_stream_is_no_terminal() -> None:
    """A daemon's stderr may be closed: that is not an error."""
    stream = io.StringIO()
    stream.close()

    assert "plain" == stream_kind(stream, {"TERM": "xterm"})


def test_colour_is_for_terminals_without_no_color() -> None:
    """NO_COLOR is respected whatever its value, unless it is empty (no-color.org)."""
    assert wants_colour(Terminal(), {"TERM": "xterm"})
    assert wants_colour(Terminal(), {"TERM": "xterm", "NO_COLOR": ""})
    assert not wants_colour(Terminal(), {"TERM": "xterm", "NO_COLOR": "0"})
    assert not wants_colour(io.StringIO(), {"TERM": "xterm"})
