"""Is the end of this machine announced? Asks clouds, a file or a command every few seconds, until one says yes."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kboot.errors import ProfileError
from kboot.events import Emit, Notice
from kboot.facts.process import ENGINE_UNIT
from kboot.host.clock import monotonic_s
from kboot.host.files import read_small
from kboot.host.processes import run
from kboot.sources.metadata import CLOUDS, METADATA_URL

Asked = Callable[[], str]
"""Returns what is announced, in words; empty when nothing is. Raises OSError when it cannot be told."""

_COMMAND_S = 10.0
_SAID_CHARACTERS = 200
_POLL_S = 5.0


def notice_sources(words: Sequence[str]) -> tuple[tuple[str, Asked], ...]:
    """Return whom to ask, by the words of `reclaim` in kboot.toml.

    "aws", "aws-rebalance", "gcp", "azure": the cloud's metadata service; "aws=http://HOST:PORT" names another address.
    "file:/PATH": a notice once the file exists. "command:WORDS": a notice once it ends with status 0.

    Raises:
        ProfileError: a word is none of these.
    """
    return tuple((word, _source(word)) for word in words)


def _source(word: str) -> Asked:
    kind, _, rest = word.partition(":")
    if kind == "file" and rest.startswith("/"):
        return lambda: _of_file(Path(rest))
    if kind == "command" and rest.strip():
        return lambda: _of_command(rest)
    name, _, url = word.partition("=")
    if name in CLOUDS and (not url or url.startswith("http://")):
        return CLOUDS[name](url or METADATA_URL).announced
    raise ProfileError(
        "config-not-valid",
        f"reclaim names {word!r}, which is no source of notices",
        hint=f"one of {', '.join(sorted(CLOUDS))} (=http://HOST:PORT may follow), file:/PATH, command:WORDS",
    )


def _of_file(path: Path) -> str:
    try:
        said = read_small(path, 1 << 16).decode(errors="replace")
    except FileNotFoundError:
        return ""
    return f"{path}: {' '.join(said.split())[:_SAID_CHARACTERS] or 'it exists'}"


def _of_command(line: str) -> str:
    done = run(shlex.split(line), _COMMAND_S)
    if done.timed_out:
        raise OSError(f"{line}: no end after {_COMMAND_S:.0f} s")
    said = " ".join(done.stdout.decode(errors="replace").split())[:_SAID_CHARACTERS]
    return f"{line}: {said or 'status 0'}" if done.status == 0 else ""


class NoticeWatch:
    """Asks in a thread of its own, so that a service that hangs keeps nobody waiting; the first notice ends it.

    on_notice: called once, from that thread.
    """

    def __init__(
        self, words: Sequence[str], emit: Emit, on_notice: Callable[[str], None], poll_s: float = _POLL_S
    ) -> None:
        self._sources, self._emit, self._on_notice, self._poll_s = notice_sources(words), emit, on_notice, poll_s
        self._stop = threading.Event()
        self._silent: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="reclaim", daemon=True)

    def begin(self) -> None:
        """Ask from now on; nothing where no source is named."""
        if self._sources:
            self._thread.start()

    def end(self) -> None:
        """Stop asking."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            for word, asked in self._sources:
                if said := self._ask(word, asked):
                    self._emit(Notice("reclaim.announced", said))
                    self._on_notice(said)
                    return
            self._stop.wait(self._poll_s)

    def _ask(self, word: str, asked: Asked) -> str:
        """Ask one; a source that gives no answer is named once, until it answers again."""
        try:
            said = asked()
        except (OSError, ValueError) as exc:
            if word not in self._silent:
                self._emit(Notice("reclaim.unknown", f"{word} cannot say whether this machine ends: {exc}"))
            self._silent.add(word)
            return ""
        self._silent.discard(word)
        return said


def drain_engine(timeout_s: float) -> str:
    """Ask systemd to stop the engine's service, and wait until it has; return how that went, in words."""
    deadline_s = monotonic_s() + timeout_s
    with suppress(OSError):
        asked = run(("systemctl", "stop", "--no-block", ENGINE_UNIT), timeout_s)
        if asked.status != 0:
            why = " ".join(asked.stderr.decode(errors="replace").split())
            return f"{ENGINE_UNIT} could not be told to stop: {why}"
        wait = threading.Event()
        while monotonic_s() < deadline_s:
            state = run(("systemctl", "is-active", ENGINE_UNIT), timeout_s).stdout.decode().strip()
            if state not in ("active", "activating", "deactivating", "reloading"):
                return f"{ENGINE_UNIT} has stopped"
            wait.wait(0.2)
        return f"{ENGINE_UNIT} is stopping still; systemd will end it"
    return "there is no systemd, so no engine of a service"
