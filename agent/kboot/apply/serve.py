"""Starts the engine through `kboot exec`, follows its log, and waits until it answers."""

from __future__ import annotations

import io
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from kboot.engines import engine
from kboot.engines.logs import LogReader, is_progress_bar, mask
from kboot.engines.remedies import remedy
from kboot.errors import ActionFailed, NotReady
from kboot.events import Emit, EngineLine, Notice
from kboot.host.clock import monotonic_s, run_unix_s
from kboot.host.files import make_dirs, rename
from kboot.host.http import Answer, ask, held_by, port_in_use
from kboot.host.listeners import listeners
from kboot.host.processes import Child, is_of, is_of_an_engine, spawn, stop_tree
from kboot.plan.types import StartEngine
from kboot.report.engine import engine_spans
from kboot.report.usual import Usual, is_slow, standing_words
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.types import Launch
    from kboot.host.paths import Paths
    from kboot.report.types import Span

Probe = Literal["health", "completion"]

_POLL_S = 0.1
_ASK_S = 5.0
_COMPLETION_S = 120.0  # the first request may compile what the warm-up left out
_LOG_LIMIT_BYTES = 64 << 20
_READ_BYTES = 1 << 20
_LINE_BYTES = 64 << 10
_LAST_LINES = 5
_STATUS = {
    0: " (it took its work for done: a command that serves stays)",
    126: " (a program it calls may not be executed)",
    127: " (a program it calls was not found)",
}


@dataclass(frozen=True, slots=True)
class Answers:
    """What the engine said when it was ready. models: names it serves. completion: the text, None if not asked."""

    health: int | None
    models: tuple[str, ...] = ()
    completion: str | None = None


@dataclass(slots=True)
class LogTail:
    """Reads what is appended to a log from now on; each line goes to the reader and, bars left out, to emit."""

    path: Path
    reader: LogReader
    emit: Emit
    offset: int
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    _partial: bytes = b""

    def poll(self) -> None:
        """Take the lines that are complete, at most 1 MiB; one that was cut is read anew, one moved away is over."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, io.SEEK_END) < self.offset:
                    self.offset = 0
                file.seek(self.offset)
                data = file.read(_READ_BYTES)
        except FileNotFoundError:
            return
        self.offset += len(data)
        *lines, self._partial = (self._partial + data.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._partial) > _LINE_BYTES:
            self._take(self._partial)
            self._partial = b""

    def drain(self) -> None:
        """Take everything that is there, a last line without its end included."""
        before = -1
        while before != self.offset:
            before = self.offset
            self.poll()
        self._take(self._partial)
        self._partial = b""

    def _take(self, raw: bytes) -> None:
        line = mask(raw[:_LINE_BYTES].decode(errors="replace"))
        now_s = run_unix_s()
        message = self.reader.feed(now_s, line)
        if message.text.strip() and not is_progress_bar(line):
            self.last.append(message.text)
            self.emit(EngineLine(now_s, line))


@dataclass(slots=True)
class RunningEngine:
    """An engine that answers. reader: what its log said so far. ready_unix_s: when it first answered."""

    launch: Launch
    child: Child
    tail: LogTail
    started_unix_s: float
    ready_unix_s: float
    answers: Answers

    @property
    def reader(self) -> LogReader:
        """Return what its log says of phases, caches, thread shares and failures."""
        return self.tail.reader

    def wait(self, stop: threading.Event) -> int | None:
        """Follow the log until the event is set (None) or the engine ends by itself (its exit status)."""
        while not stop.wait(_POLL_S):
            self.tail.poll()
            status = self.child.status()
            if status is not None:
                self.tail.drain()
                return status
        return None

    def stop(self, timeout_s: float) -> bool:
        """End the engine and all it started; return whether SIGTERM was enough."""
        obeyed = stop_tree(self.child, timeout_s)
        self.tail.drain()
        return obeyed

    def spans(self) -> tuple[Span, ...]:
        """Return its boot phases for the timeline."""
        return engine_spans(self.reader, self.ready_unix_s)


def start_engine(
    action: StartEngine,
    paths: Paths,
    emit: Emit,
    stop: threading.Event,
    exec_argv: tuple[str, ...],
    probe: Probe = "health",
    on_start: Callable[[int], None] | None = None,
    on_words: Callable[[], None] | None = None,
    usual: Mapping[str, Usual] | None = None,
    stop_timeout_s: float = 30.0,
) -> RunningEngine:
    """Start the engine and return when it answers; nothing of it is left running when this raises.

    exec_argv: `kboot exec` as this kboot is run; argv[0] absolute. probe: what counts as an answer. on_start: told the
    process id, which is its session's too, as soon as there is one. on_words: told, perhaps more than once, that the
    engine's own log has begun. usual: what its phases took in earlier boots; one that takes much longer is said once.
    stop_timeout_s: between SIGTERM and SIGKILL, should it have to go.

    Raises:
        ActionFailed: its port is taken, or it cannot be started.
        NotReady: it ended, gave wrong answers, did not answer in time, or `stop` was set.
    """
    launch = action.launch
    _require_port(launch)
    make_dirs(paths.runtime)
    offset = _log_end(paths.engine_log)
    started_unix_s = run_unix_s()
    folders = {"KBOOT_STATE_DIR": paths.state, "KBOOT_RUNTIME_DIR": paths.runtime, "KBOOT_CONFIG_DIR": paths.config}
    env = {name: str(path) for name, path in folders.items()}
    child = spawn(exec_argv, env, paths.engine_log, stop_timeout_s=stop_timeout_s)
    reader = LogReader(engine(launch.engine), started_unix_s)
    starting = _Starting(
        launch, child, LogTail(paths.engine_log, reader, emit, offset), monotonic_s(), stop, usual or {}, on_words
    )
    try:
        if on_start is not None:
            on_start(child.pid)
        emit(Notice("engine.started", f"{launch.engine} is process {child.pid}, its log is {paths.engine_log}"))
        answers = starting.until_ready(probe)
    except BaseException:
        stop_tree(child, stop_timeout_s)
        raise
    ready_unix_s = run_unix_s()
    emit(Notice("engine.ready", f"{launch.engine} answers after {ready_unix_s - started_unix_s:.1f} s"))
    return RunningEngine(launch, child, starting.tail, started_unix_s, ready_unix_s, answers)


def _require_port(launch: Launch) -> None:
    if launch.health_url is None:
        return
    parts = urlsplit(launch.health_url)
    host, port = parts.hostname or "", parts.port or 80
    why = port_in_use(host, port)
    if why is not None:
        raise _port_in_use(launch.health_url, port, why)


def _port_in_use(url: str, port: int, why: str) -> ActionFailed:
    return ActionFailed(
        "port-in-use",
        f"the engine cannot listen on port {port}: {why}",
        where=(url,),
        hint="stop what holds it, or choose another port (serve.port of the profile)",
    )


def _log_end(log: Path) -> int:
    """Return where the next line will stand; a log that has grown too large is put aside first."""
    size = log.stat().st_size if log.exists() else 0
    if size < _LOG_LIMIT_BYTES:
        return size
    rename(log, log.with_name(f"{log.name}.1"))
    return 0


@dataclass(slots=True)
class _Starting:
    """An engine that does not answer yet."""

    launch: Launch
    child: Child
    tail: LogTail
    started_s: float
    stop: threading.Event
    usual: Mapping[str, Usual]
    on_words: Callable[[], None] | None
    _slow: set[str] = field(default_factory=set)

    def until_ready(self, probe: Probe) -> Answers:
        """Wait for health, then for the served model, then for a completion if asked."""
        health = self._until_healthy()
        if self.launch.health_url is None:
            return Answers(None)
        models = self._models()
        completion = self._completion() if probe == "completion" else None
        return Answers(health, models, completion)

    def _until_healthy(self) -> int | None:
        url = self.launch.health_url
        while True:
            self._look()
            if url is None:
                if self._last_phase_begun():
                    return None
            elif (answer := ask(url, _ASK_S)).ok:
                self._require_own(url)
                return answer.status
            self.stop.wait(_POLL_S)

    def _require_own(self, url: str) -> None:
        """Raise when another process has answered: two engines may have found the port free at the same time."""
        port = urlsplit(url).port or 80
        pids = listeners(port)
        if not pids or is_of(self.child, pids):
            return
        # A command may have a container runtime start its server, which is nobody's child here.
        if self.launch.engine != "command" or any(is_of_an_engine(pid) for pid in pids):
            raise _port_in_use(url, port, held_by(pids[0]))

    def _last_phase_begun(self) -> bool:
        """A rank without HTTP is ready when its log reaches what comes after loading and warm-up."""
        last = self.tail.reader.engine.phases[-1].name
        return any(span.name == last for span in self.tail.reader.spans())

    def _models(self) -> tuple[str, ...]:
        if self.launch.models_url is None:
            return ()
        names = _model_names(ask(self.launch.models_url, _ASK_S))
        if names and self.launch.served_name not in names:
            raise NotReady(
                "engine-serves-another-model",
                f"the engine serves {', '.join(names)}, wanted {self.launch.served_name}",
                where=(self.launch.models_url,),
                hint="another server may answer on this port; look at `ss -ltnp`",
            )
        return names

    def _completion(self) -> str:
        """Ask for one token until it comes; a refusal that will not change ends it."""
        url = self.launch.completion_url or ""
        request: dict[str, object] = {
            "model": self.launch.served_name,
            "prompt": "Hello",
            "max_tokens": 1,
            "temperature": 0,
        }
        while True:
            answer = self._ask_watching(url, request)
            if answer.ok:
                return _text(answer)
            if answer.status is not None and 400 <= answer.status < 500:
                raise NotReady(
                    "engine-refuses-completion",
                    f"the engine is healthy, and answered a completion of one token with {answer.status}",
                    where=(url, mask(answer.body[:200].decode(errors="replace"))),
                    hint='serve.probe = "health" takes an engine without this endpoint',
                )
            self.stop.wait(10 * _POLL_S)

    def _ask_watching(self, url: str, request: dict[str, object]) -> Answer:
        """Ask something that may take long, with an eye on the engine and on `stop`."""
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        threading.Thread(target=lambda: answers.put(ask(url, _COMPLETION_S, request)), daemon=True).start()
        while True:
            self._look()
            with suppress(queue.Empty):
                return answers.get(timeout=_POLL_S)

    def _look(self) -> None:
        """Read the log; raise when the engine has ended, its time is over, or kboot is to stop."""
        self.tail.poll()
        if self.on_words is not None and self.tail.reader.has_spoken:
            self.on_words()
        took_s = monotonic_s() - self.started_s
        status = self.child.status()
        if status is not None:
            self.tail.drain()
            raise self._died(status, took_s)
        if self.stop.is_set():
            raise NotReady("interrupted", f"kboot was stopped before {self.launch.engine} answered")
        if took_s > self.launch.ready_timeout_s:
            raise self._late(took_s)
        self._say_what_is_slow()

    def _say_what_is_slow(self) -> None:
        """Tell once of a phase that takes several times as long as it usually does."""
        stands = self.tail.reader.standing(run_unix_s())
        usual = self.usual.get(stands.phase or "")
        if stands.phase is not None and stands.phase not in self._slow and is_slow(stands, usual):
            self._slow.add(stands.phase)
            self.tail.emit(Notice("engine.slow_phase", f"{self.launch.engine} is {standing_words(stands, usual)}"))

    def _died(self, status: int, took_s: float) -> NotReady:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}{_STATUS.get(status, '')}"
        failure = self.tail.reader.failure()
        last = tuple(line for line in self.tail.last if not (line.startswith("kboot: ") and "; becoming " in line))
        cause = failure.text if failure else (last[-1] if last else "it said nothing")
        said_by = (f"first said by {failure.process}",) if failure and failure.process else ()
        return NotReady(
            "engine-died",
            f"{self.launch.engine} {how} after {took_s:.0f} s, before it answered: {cause}",
            where=(*said_by, str(self.child.log_path)),
            hint=remedy(cause) or f"read the lines before it: `less {self.child.log_path}`",
        )

    def _late(self, took_s: float) -> NotReady:
        stands = self.tail.reader.standing(run_unix_s())
        url = (self.launch.health_url,) if self.launch.health_url else ()
        last = (f"its last line: {self.tail.last[-1]}",) if self.tail.last else ()
        return NotReady(
            "engine-not-ready",
            f"{self.launch.engine} did not answer in {took_s:.0f} s, wanted {self.launch.ready_timeout_s} s at most; "
            f"it is {standing_words(stands, self.usual.get(stands.phase or ''))}",
            where=(*last, *url, str(self.child.log_path)),
            hint="`py-spy dump` of a worker shows where it hangs" if stands.is_quiet else "raise serve.ready_timeout_s",
        )


def _model_names(answer: Answer) -> tuple[str, ...]:
    document = answer.json() if answer.ok else None
    data = document.get("data") if isinstance(document, dict) else None
    models = data if isinstance(data, list) else []
    return tuple(sorted(str(m["id"]) for m in models if isinstance(m, dict) and "id" in m))


def _text(answer: Answer) -> str:
    document = answer.json()
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else {}
    return str(first.get("text", "")) if isinstance(first, dict) else ""
