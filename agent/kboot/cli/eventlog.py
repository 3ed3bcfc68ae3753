"""What of a boot's events is logged where nobody watches a terminal? One line a file, progress now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kboot.events import EngineLine, Event, FileDone, FileProgress, FileTrouble, Notice, PhaseFinished, PhaseStarted
from kboot.report.progress import ProgressView

if TYPE_CHECKING:
    from kboot.cli.logs import Log

PROGRESS_EVERY_S = 10.0


class EventLog:
    """Turns events into log lines; emit() may be called from any thread and never raises.

    view: where the boot stands, for progress lines. engine_lines: log what the engine says, not only when debugging.
    quiet: phases only when debugging, for commands whose result says it all.
    """

    def __init__(
        self,
        log: Log,
        view: Callable[[], ProgressView],
        clock: Callable[[], float],
        *,
        engine_lines: bool = False,
        quiet: bool = False,
    ) -> None:
        self._log = log
        self._view = view
        self._clock = clock
        self._engine_lines = engine_lines
        self._phase_level = "debug" if quiet else "info"
        self._lock = threading.Lock()
        self._progress_at_s = clock()

    def emit(self, event: Event) -> None:
        """Log one event."""
        with suppress(OSError, ValueError):  # stderr is gone: the boot goes on without a log
            self._write(event)

    def _write(self, event: Event) -> None:
        log = self._log
        match event:
            case PhaseStarted():
                level = getattr(log, self._phase_level)
                level("phase.started", phase=event.phase, actions=event.actions, bytes=event.total_bytes)
            case PhaseFinished():
                level = log.error if event.status == "failed" else getattr(log, self._phase_level)
                level(
                    "phase.finished",
                    phase=event.phase,
                    status=event.status,
                    seconds=round(event.seconds, 3),
                    bytes=event.bytes_done,
                )
            case FileProgress():
                self._maybe_progress(event)
            case FileDone():
                log.info(
                    "file.done",
                    phase=event.phase,
                    path=event.path,
                    bytes=event.size_bytes,
                    seconds=round(event.seconds, 3),
                    source=event.source,
                    reused_bytes=event.reused_bytes,
                )
            case FileTrouble():
                level = log.error if event.final else log.warning
                level(
                    "file.failed" if event.final else "file.retried",
                    phase=event.phase,
                    path=event.path,
                    code=event.code,
                    message=event.message,
                )
            case Notice():
                log.info(event.event, text=event.text)
            case EngineLine():
                # A progress bar rewrites its line with carriage returns: only its last state is a line.
                line = event.line.rstrip("\r\n").rpartition("\r")[2]
                (log.info if self._engine_lines else log.debug)("engine.line", line=line)

    def _maybe_progress(self, event: FileProgress) -> None:
        now_s = self._clock()
        with self._lock:
            if now_s - self._progress_at_s < PROGRESS_EVERY_S:
                return
            self._progress_at_s = now_s
        view = self._view()
        phase = next((p for p in view.phases if p.name == event.phase), None)
        if phase is not None:
            self._log.info(
                "progress",
                phase=phase.name,
                bytes=phase.done_bytes,
                total_bytes=phase.total_bytes,
                files=phase.files_done,
                total_files=phase.files,
                bytes_per_s=round(view.rate_bytes_s),
                eta_s=None if view.eta_s is None else round(view.eta_s),
                eta_of=view.eta_of,
                eta_basis=view.eta_basis,
            )
