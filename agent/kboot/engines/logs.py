"""What does an engine's log say of its boot: which phases, how long, which caches hit, what failed first?"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from kboot.profile.secrets import without_secrets
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.engines.types import Engine, EnginePhase

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}")
# "(Worker_DP0_EP0 pid=4345) INFO 11-30 06:29:37 [weight_utils.py:869] message"; every part may be absent. Ray repeats
# what a worker said within its own "(RayWorkerWrapper pid=7, ip=10.0.0.2)"; "ERROR:    message" is uvicorn's.
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_VLLM = re.compile(
    r"(?:\((?P<process>[\w.:-]+)(?: \w+=\d+)* pid=\d+(?:, ip=[\w.:]+)?\) ?)*"
    rf"(?:{_LEVEL}(?: \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]+\] ?|: +))?"
)
# "[rank3]: message" of a torch traceback, "[rank3]:[E1130 06:29:37.1 ProcessGroupNCCL.cpp:616] message" of its C++ part
_TORCH = re.compile(r"\[(?P<process>rank\d+)\]: ?(?:\[(?P<level>[IWEF])\d{4} [\d:.]+ [\w.]+:\d+\] ?)?")
_TORCH_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
# "[2026-11-30 06:29:37 DP0 TP0] message", "[ts] message"
_BRACKETS = re.compile(r"\[(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?P<process>[A-Z]+\d[\w ]*))?|ts|smg)\] ?")
_FAILED_PROCESS = re.compile(r"(?:WorkerProc|EngineCore) failed to start")
_RANK = re.compile(r"\d+")
_UNSAID = re.compile(
    r"validation errors? for [\w.]+$|^terminate called after throwing an instance of "
    r"|NCCL error in: .*unhandled \w+ error|scheduler is dead\b"
)
"""Causes whose reason is in the lines that follow, up to one that is indented or to a traceback."""
_REASON_LINES = 3
_NCCL_UNSAID = re.compile(r"^RuntimeError: NCCL error: unhandled \w+ error")
_QUIET_S = 120.0
_SEARCHED_CHARS = 4096  # of a line, for what it tells: patterns are many, and some look on from each place
_BAR = re.compile(r"\d%\|[^|]*\| *\d+/\d|\d% Completed \| \d+/\d")
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{0,9})?")


@dataclass(frozen=True, slots=True)
class Message:
    """A log line without its decoration. process: who said it ("Worker_DP0_EP0"); empty when it does not say.

    logged: it had a decoration, which only a logger gives it.
    """

    process: str
    level: str
    text: str
    logged: bool = False


@dataclass(frozen=True, slots=True)
class EngineSpan:
    """A phase of the engine's boot over all its processes, from the first start to the last end.

    end_unix_s: None while it runs. ranks: how long each of several processes took, by name; empty where the log tells
    of one alone, or not of each.
    """

    name: str
    start_unix_s: float
    end_unix_s: float | None
    ranks: tuple[tuple[str, float], ...] = ()

    @property
    def seconds(self) -> float | None:
        """Length; None while it runs."""
        return None if self.end_unix_s is None else max(0.0, self.end_unix_s - self.start_unix_s)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a boot is now. phase: None between phases. seconds: in it; quiet_s: since the last line, of anything."""

    phase: str | None
    seconds: float
    quiet_s: float

    @property
    def is_quiet(self) -> bool:
        """Whether it says nothing at all: vLLM's ranks complain every 60 s while they wait for one another."""
        return self.quiet_s >= _QUIET_S


@dataclass(frozen=True, slots=True)
class Failure:
    """The first cause the log names. process: the rank that said it, or the first that fell after it."""

    unix_s: float
    process: str
    text: str


@dataclass(frozen=True, slots=True)
class CacheSaid:
    """hits and misses: how often the log said so of this cache."""

    cache: str
    hits: int
    misses: int


@dataclass(slots=True)
class _Open:
    """A phase. started: when each process said that it begins. took: how long each took that said that it ended."""

    start_unix_s: float
    end_unix_s: float | None = None
    ended_by: str = ""
    started: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    def ranks(self) -> tuple[tuple[str, float], ...]:
        """Return what each of several processes took."""
        return tuple(sorted(self.took.items())) if len(self.took) > 1 else ()


@dataclass(slots=True)
class LogReader:
    """Reads an engine's log line by line, as it is written; the time of a line is when it was read.

    started_unix_s: when the engine's process was started, where phases without a starting line begin.
    """

    engine: Engine
    started_unix_s: float
    _spans: dict[str, _Open] = field(default_factory=dict)
    _hits: dict[str, list[int]] = field(default_factory=dict)
    _threads: dict[str, int] = field(default_factory=dict)
    _cause: Failure | None = None
    _reason_lines: int = 0
    _nccl_warned: str = ""
    _first_error: Failure | None = None
    _last_unix_s: float | None = None
    _has_spoken: bool = False

    @property
    def has_spoken(self) -> bool:
        """Whether a line came from the engine's own logging, which it sets up when its modules are imported.

        What an import itself says (warnings, what kboot says before it becomes the engine) is not decorated so.
        """
        return self._has_spoken

    def feed(self, unix_s: float, line: str) -> Message:
        """Take one line; return it without its decoration."""
        message = parse(line)
        self._last_unix_s = unix_s
        if message.text:
            self._has_spoken = self._has_spoken or message.logged
            searched = replace(message, text=message.text[:_SEARCHED_CHARS])
            self._feed_phases(unix_s, searched)
            self._feed_caches(searched.text)
            self._feed_threads(searched)
            self._feed_failures(unix_s, searched)
        return message

    def spans(self) -> tuple[EngineSpan, ...]:
        """Return the phases seen so far, by their start; one that all ranks share is first start to last end."""
        found = [EngineSpan(name, s.start_unix_s, s.end_unix_s, s.ranks()) for name, s in self._spans.items()]
        return tuple(sorted(found, key=lambda s: (s.start_unix_s, s.end_unix_s is None, s.end_unix_s or 0.0)))

    def current(self) -> str | None:
        """Return the phase that began last and has not ended; None between phases."""
        running = [s for s in self.spans() if s.end_unix_s is None]
        return running[-1].name if running else None

    def standing(self, now_unix_s: float) -> Standing:
        """Return where the boot is at this time."""
        running = [s for s in self.spans() if s.end_unix_s is None]
        since = running[-1].start_unix_s if running else self.started_unix_s
        last = self.started_unix_s if self._last_unix_s is None else self._last_unix_s
        name = running[-1].name if running else None
        return Standing(name, max(0.0, now_unix_s - since), max(0.0, now_unix_s - last))

    def caches(self) -> tuple[CacheSaid, ...]:
        """Return what was said of each cache, by name."""
        return tuple(CacheSaid(name, hits, misses) for name, (misses, hits) in sorted(self._hits.items()))

    def threads(self) -> dict[str, int]:
        """Return the OpenMP share each process reported, by process."""
        return dict(sorted(self._threads.items()))

    def failure(self) -> Failure | None:
        """Return the first cause; without a recognised one the first line logged as an error."""
        return self._cause or self._first_error

    def _feed_phases(self, unix_s: float, message: Message) -> None:
        for phase in self.engine.phases:
            span = self._spans.get(phase.name)
            starts = phase.starts and re.search(phase.starts, message.text)
            if starts and span is None:
                self._spans[phase.name] = _Open(unix_s, started={message.process: unix_s})
                continue
            if starts and span is not None:
                span.started.setdefault(message.process, unix_s)
                if phase.together and span.end_unix_s is None:
                    span.start_unix_s = unix_s
            if phase.ends and (found := re.search(phase.ends, message.text)):
                self._end_phase(phase, span, unix_s, message.process, _seconds(found))

    def _end_phase(
        self, phase: EnginePhase, span: _Open | None, unix_s: float, process: str, said: float | None
    ) -> None:
        kind = _RANK.sub("", process)
        if span is None:
            if said is None and phase.starts:
                return  # its start was never seen and its length is not known
            span = self._spans[phase.name] = _Open(self.started_unix_s if said is None else unix_s)
        elif span.end_unix_s is not None and span.ended_by != kind:
            return  # a later stage says the same words; only a sibling rank makes the phase longer
        if said is not None:  # the engine measured from before the line that kboot saw
            span.start_unix_s = max(self.started_unix_s, min(span.start_unix_s, unix_s - said))
            span.took[process] = said
        elif process in span.started:
            span.took[process] = max(0.0, unix_s - span.started[process])
        span.end_unix_s, span.ended_by = unix_s, kind

    def _feed_caches(self, text: str) -> None:
        for sign in self.engine.cache_signs:
            if re.search(sign.says, text):
                self._hits.setdefault(sign.cache, [0, 0])[sign.hit] += 1

    def _feed_threads(self, message: Message) -> None:
        for pattern in self.engine.threads:
            if found := re.search(pattern, message.text):
                self._threads[message.process] = int(found["threads"])

    def _feed_failures(self, unix_s: float, message: Message) -> None:
        if " NCCL WARN " in message.text:
            self._nccl_warned = message.text
        if self._cause is None and _may_be_cause(message, self.engine):
            said = f": {self._nccl_warned}" if self._nccl_warned and _NCCL_UNSAID.match(message.text) else ""
            self._cause = Failure(unix_s, message.process, message.text + said)
            self._reason_lines = _REASON_LINES if _UNSAID.search(message.text) else 0
        elif self._cause is not None and self._reason_lines and message.process == self._cause.process:
            if message.text.startswith("Traceback "):
                self._reason_lines = 0
                return
            said = message.text.partition(" [type=")[0].strip()
            self._cause = replace(self._cause, text=f"{self._cause.text}: {said}")
            self._reason_lines = 0 if message.text.startswith(" ") else self._reason_lines - 1
        elif self._cause is not None and not self._cause.process and _FAILED_PROCESS.match(message.text):
            self._cause = Failure(self._cause.unix_s, message.process, self._cause.text)
        if self._first_error is None and message.level in ("ERROR", "CRITICAL"):
            self._first_error = Failure(unix_s, message.process, message.text)


def _seconds(found: re.Match[str]) -> float | None:
    """Return the length that the end of a phase tells; None where it is no number, as when two ranks write one line."""
    said = _SECONDS.fullmatch(found.groupdict().get("seconds") or "")
    return float(said[0]) if said else None


def _may_be_cause(message: Message, engine: Engine) -> bool:
    """Return whether a message names a failure; what is logged as less was survived (a warm-up without tokenizer)."""
    return message.level in ("", "ERROR", "CRITICAL") and any(
        re.match(pattern, message.text) for pattern in engine.failures
    )


def parse(line: str) -> Message:
    """Return a log line without colours, time and level; what looks like a Hub token is masked."""
    text = mask(_COLOUR.sub("", line)).rstrip()
    whole = len(text)
    found = _VLLM.match(text)
    process, level = (found["process"] or "", found["level"] or "") if found else ("", "")
    text = text[found.end() :] if found else text
    if not process and (bracket := _BRACKETS.match(text)):
        process, text = bracket["process"] or "", text[bracket.end() :]
    if torch := _TORCH.match(text):
        process, level = process or torch["process"], level or _TORCH_LEVELS.get(torch["level"] or "", "")
        text = text[torch.end() :]
    return Message(process, level, text, logged=len(text) < whole)


def mask(text: str) -> str:
    """Return the text with tokens masked: some engines log the arguments they were given (vllm#53625)."""
    return without_secrets(_TOKEN.sub("hf_***", text))


def is_progress_bar(line: str) -> bool:
    """Return whether a line is one state of a progress bar, which a log has no use for."""
    return _BAR.search(line) is not None
