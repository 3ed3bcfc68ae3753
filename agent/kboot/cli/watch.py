"""Who follows a boot while it runs? The terminal or the log, and the file that `kboot status` reads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kboot.errors import KbootError
from kboot.events import Emit, EngineLine, Event, FileProgress, Notice
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.terminal import stream_kind, wants_colour
from kboot.report.progress import History, Tracker
from kboot.report.saved import RunningBoot, clear_progress, load_reports, process_mark, progress_json, write_progress
from kboot.report.timeline import percentile
from kboot.report.types import BootReport

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kboot.cli.options import Common, Node

_WRITE_EVERY_S = 1.0
_HISTORY = 20


@dataclass(frozen=True, slots=True)
class Watch:
    """A boot that is being followed. emit: for the boot. log: None on a terminal, where the result says it all."""

    emit: Emit
    log: FilteringBoundLogger | None


@contextmanager
def watch(
    common: Common, node: Node, profile: str, *, serving: bool = False, save: bool = True, quiet: bool = False
) -> Iterator[Watch]:
    """Follow what runs inside the block.

    serving: the engine runs in the foreground and its lines belong in the log. save: `kboot status` shows it.
    quiet: nothing that moves, no lines about phases.
    """
    boot_id = own_boot_id(node)
    history = phase_history(load_reports(node.paths, _HISTORY), profile)
    with ExitStack() as stack:
        forwards: list[Emit] = []
        tracker = Tracker(lambda event: _forward(forwards, event), history)
        log: FilteringBoundLogger | None = None
        if stream_kind(sys.stderr, node.env) == "terminal" and not common.verbose:
            forwards.append(stack.enter_context(_on_terminal(tracker, node, quiet=quiet)))
        else:
            from kboot.cli.eventlog import EventLog
            from kboot.cli.logs import make_logger

            log = make_logger({"boot_id": boot_id[:8], "profile": profile}, verbose=common.verbose, env=node.env)
            forwards.append(EventLog(log, tracker.view, monotonic_s, engine_lines=serving, quiet=quiet).emit)
        if save:
            stack.enter_context(_kept(tracker, node, profile, boot_id))
        yield Watch(tracker.emit, log)


def log_end(watched: Watch, report: BootReport) -> None:
    """Write the one line that carries a boot's totals."""
    if watched.log is None:
        return
    ready_s = None if report.ready_unix_s is None else round(report.ready_unix_s - report.started_unix_s, 3)
    fetched = [o for o in report.outcomes if o.phase == "fetch" and o.status == "done"]
    with suppress(OSError, ValueError):
        watched.log.info(
            "boot.finished",
            status=report.status,
            seconds=round(report.finished_unix_s - report.started_unix_s, 3),
            ready_s=ready_s,
            files_fetched=len(fetched),
            bytes_fetched=sum(o.size_bytes for o in fetched),
            failed=sum(o.status == "failed" for o in report.outcomes),
            verify=report.verify_claim,
            error=None if report.error is None else report.error.code,
        )


def phase_history(reports: Sequence[BootReport], profile: str) -> History:
    """Return how long each phase took in earlier boots of a profile that served."""
    boots = [r for r in reports if r.profile == profile and r.ready_unix_s is not None]
    lengths: dict[str, list[float]] = {}
    for boot in boots:
        for span in boot.spans:
            if span.lane == "kboot":
                lengths.setdefault(span.name, []).append(span.seconds)
    return History({name: percentile(sorted(each), 0.5) for name, each in lengths.items()}, len(boots))


def own_boot_id(node: Node) -> str:
    """Return the id of this run of the kernel; "unknown" where it does not say."""
    try:
        return node.host.read_text("/proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return "unknown"


def _forward(forwards: Sequence[Emit], event: Event) -> None:
    for emit in forwards:
        emit(event)


@contextmanager
def _on_terminal(tracker: Tracker, node: Node, *, quiet: bool) -> Iterator[Emit]:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not wants_colour(sys.stderr, node.env), highlight=False)

    def say(event: Event) -> None:
        match event:
            case Notice():
                console.print(f"[dim]·[/dim] {escape(event.text)}", soft_wrap=True)
            case EngineLine() | FileProgress():
                return

    if quiet:
        yield say
        return
    from kboot.cli.progress import make_display

    with make_display(console, tracker.view, monotonic_s):
        yield say
    console.print()


@contextmanager
def _kept(tracker: Tracker, node: Node, profile: str, boot_id: str) -> Iterator[None]:
    """Write the boot's progress down once a second, in a thread: a slow disk must not slow the boot."""
    stop, started_unix_s = threading.Event(), unix_s()
    pid, mark = process_mark(node.host, "self")

    def keep() -> None:
        while True:
            running = RunningBoot(boot_id, profile, pid, mark, started_unix_s, unix_s(), progress_json(tracker.view()))
            with suppress(KbootError):  # the boot itself will say what is wrong with the disk
                write_progress(running, node.paths)
            if stop.wait(_WRITE_EVERY_S):
                return

    thread = threading.Thread(target=keep, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        with suppress(KbootError):
            clear_progress(node.paths)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set; from here on they do nothing else."""
    from kboot.host.myself import handle_stop_signals

    event = threading.Event()
    handle_stop_signals(event)
    return event
