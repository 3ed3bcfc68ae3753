"""How are events logged?"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from kboot.cli.eventlog import EventLog
from kboot.cli.logs import make_logger, masked
from kboot.events import EngineLine, Event, FileDone, FileProgress, FileTrouble, Notice, PhaseFinished, PhaseStarted
from kboot.report.progress import Tracker


class Clock:
    """A clock that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def logged(events: list[tuple[float, Event]], env: Mapping[str, str], **options: Any) -> str:
    """Return what is written while these events happen at these seconds."""
    stream, clock = io.StringIO(), Clock()
    log = make_logger({"boot_id": "7f3a", "profile": "demo"}, verbose=False, env=env, stream=stream)
    tracker = Tracker(lambda event: lines.emit(event), None, clock)
    lines = EventLog(log, tracker.view, clock, **options)
    for at_s, event in events:
        clock.now_s = at_s
        tracker.emit(event)
    return stream.getvalue()


def documents(text: str) -> list[dict[str, Any]]:
    """Return the JSON lines of a log."""
    return [json.loads(line) for line in text.splitlines()]


FETCH: list[tuple[float, Event]] = [
    (0, PhaseStarted("fetch", 2, 2000)),
    *((s / 10, FileProgress("fetch", "a", s, 1000)) for s in range(1, 351)),
    (36, FileDone("fetch", "a", 1000, 36.0, "hub")),
    (37, FileTrouble("fetch", "b", "stalled", "no byte for 30 s from https://u:p@host/x", final=False)),
    (38, FileTrouble("fetch", "b", "shard-hash-mismatch", "wrong bytes", final=True)),
    (39, Notice("source.demoted", "mirror delivers wrong bytes")),
    (40, PhaseFinished("fetch", "failed", 40.0, 1000)),
]


def test_one_line_a_file_and_progress_at_most_every_ten_seconds() -> None:
    """B144: no bars in a log: one line per file, one progress line per 10 s, no carriage return."""
    text = logged(FETCH, {})
    events = [d["event"] for d in documents(text)]

    assert "\r" not in text
    assert 1 == events.count("file.done")
    assert 3 == events.count("progress")
    assert [
        "phase.started",
        "progress",
        "progress",
        "progress",
        "file.done",
        "file.retried",
        "file.failed",
        "source.demoted",
        "phase.finished",
    ] == events


def test_every_line_carries_the_boot_and_profile() -> None:
    """Context is bound once and stands in each line."""
    assert {("7f3a", "demo")} == {(d["boot_id"], d["profile"]) for d in documents(logged(FETCH, {}))}


def test_the_journal_gets_priorities() -> None:
    """B144: under JOURNAL_STREAM each line begins with its priority: 6 for information, 4 warning, 3 error."""
    lines = logged(FETCH, {"JOURNAL_STREAM": "8:12345"}).splitlines()
    priority = {json.loads(line[3:])["event"]: line[:3] for line in lines}

    assert ("<6>", "<4>", "<3>") == (priority["file.done"], priority["file.retried"], priority["file.failed"])


def test_the_last_state_of_an_engines_progress_bar_is_its_line() -> None:
    """B144: an engine's bar that rewrites its line is logged as one line without carriage returns."""
    bar = EngineLine(0.0, "Loading: 0%|  | 0/3\rLoading: 33%|# | 1/3\r\n")

    assert [] == documents(logged([(0, bar)], {}))
    (line,) = documents(logged([(0, bar)], {}, engine_lines=True))
    assert "Loading: 33%|# | 1/3" == line["line"]


def test_quiet_commands_log_no_phases() -> None:
    """A command whose result says it all logs notices and troubles only."""
    events = [d["event"] for d in documents(logged(FETCH, {}, quiet=True))]

    assert "phase.started" not in events
    assert "source.demoted" in events


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("token (hidden)", "token hf_abcd1234"),
        ("--api-key (hidden) --port 1", "--api-key sk-" + "Ab1" * 12 + " --port 1"),
        ("https://(hidden)host/x", "https://user:secret@host/x"),
        ("hf_transfer and hf_x", "hf_transfer and hf_x"),
    ],
)
def test_tokens_and_passwords_are_masked(expected: str, text: str) -> None:
    """B029: what looks like a token of a service is hidden, of the Hub hf_ and eight or more letters or digits."""
    assert expected == masked(text)


def test_no_line_of_a_log_holds_a_secret() -> None:
    """B029: engine lines and messages are masked on their way out."""
    events: list[tuple[float, Event]] = [
        (0, EngineLine(0.0, "argv: --hf-token hf_SECRETSECRET")),
        (0, FileTrouble("fetch", "a", "x", "https://u:hunter2@h/a", final=True)),
    ]
    text = logged(events, {}, engine_lines=True)

    assert "SECRET" not in text
    assert "hunter2" not in text


def test_a_terminal_gets_text_and_colours_only_without_no_color() -> None:
    """People get text; NO_COLOR is respected; a dumb terminal gets JSON lines like a file."""

    def line(env: Mapping[str, str]) -> str:
        stream = Terminal()
        make_logger({"profile": "demo"}, verbose=False, env=env, stream=stream).info("file.done", path="a")
        return stream.getvalue()

    assert "\x1b[" in line({"TERM": "xterm"})
    assert "\x1b[" not in line({"TERM": "xterm", "NO_COLOR": "1"})
    assert "file.done" in line({"TERM": "xterm", "NO_COLOR": "1"})
    assert "file.done" == json.loads(line({"TERM": "dumb"}))["event"]


def test_a_person_reads_an_event_and_its_fields_in_the_order_of_their_names() -> None:
    """After the time: level, event, then fields; text of more than one word is quoted, a line's end is not one."""
    stream = Terminal()
    log = make_logger({"profile": "demo"}, verbose=False, env={"TERM": "xterm", "NO_COLOR": "1"}, stream=stream)
    log.warning("file.retried", path="a", message="no byte\nfor 30 s", bytes=12, eta_s=None)

    assert (
        "[warning  ] file.retried         bytes=12 eta_s=None message='no byte\\nfor 30 s' path=a profile=demo\n"
        == (stream.getvalue().partition(" ")[2])
    )


def test_only_verbose_logs_hold_what_is_for_debugging() -> None:
    """-v adds lines, and takes none away."""
    texts = {verbose: io.StringIO() for verbose in (False, True)}
    for verbose, stream in texts.items():
        log = make_logger({}, verbose=verbose, env={}, stream=stream)
        log.debug("a")
        log.info("b")

    assert (["b"], ["a", "b"]) == tuple([d["event"] for d in documents(s.getvalue())] for s in texts.values())


def test_a_secret_in_context_or_event_is_hidden_too() -> None:
    """B029: nothing of a line is exempt; what is no text of JSON is written as Python shows it."""
    stream = io.StringIO()
    make_logger({"profile": "hf_abcd1234"}, verbose=False, env={}, stream=stream).info("hf_abcd1234", files={1})
    (line,) = documents(stream.getvalue())

    assert ("(hidden)", "(hidden)", "{1}", "info") == (line["profile"], line["event"], line["files"], line["level"])


def test_a_stream_that_is_gone_stops_no_boot() -> None:
    """Events are emitted from the boot's threads: a closed stderr must not raise there."""
    stream, clock = io.StringIO(), Clock()
    log = make_logger({}, verbose=False, env={}, stream=stream)
    lines = EventLog(log, Tracker(lambda _event: None).view, clock)
    stream.close()

    lines.emit(PhaseStarted("fetch", 1, 1))


def test_a_log_for_machines_loads_no_terminal_library() -> None:
    """JSON lines need no rich, which would stay in a daemon's memory; a terminal still gets it afterwards."""
    code = (
        "import io, sys; from kboot.cli.logs import make_logger\n"
        "log = make_logger({}, verbose=False, env={}, stream=io.StringIO()); log.info('x')\n"
        "print('rich' in sys.modules); import rich.console; print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "False\nTrue\n" == done.stdout
