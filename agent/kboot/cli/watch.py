"""Who follows a boot while it runs? The terminal or the log, and the file that `kboot status` reads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.cli.garbage import while_working
from kboot.errors import KbootError
from kboot.events import Emit, Event, Notice, PhaseStarted, unheard
from kboot.host.clock import monotonic_s, unix_s
from kboot.host.terminal import stream_kind, wants_colour
from kboot.report.progress import History, Tracker
from kboot.report.saved import RunningBoot, clear_progress, load_reports, process_mark, progress_json, write_progress
from kboot.report.types import BootReport, RunKind
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.cli.logs import Log
    from kboot.cli.options import Common, Node

_WRITE_EVERY_S = 1.0
_HISTORY = 20
_WITH_ENGINE = ("serve", "standby")


@dataclass(frozen=True, slots=True)
class Watch:
    """A boot that is being followed.

    emit: for the boot. log: None on a terminal, where the result says it all. calm: ends what moves or is written
    again and again, for the time while the engine serves; may be called twice.
    """

    emit: Emit
    log: Log | None
    calm: Callable[[], None]


@contextmanager
def watch(
    common: Common,
    node: Node,
    profile: str,
    *,
    serving: bool = False,
    save: RunKind | None = "boot",
    quiet: bool = False,
    logged: bool = True,
) -> Iterator[Watch]:
    """Follow what runs inside the block.

    serving: the engine runs in the foreground and its lines belong in the log. save: as what `kboot status` shows it.
    quiet: nothing that moves, no lines about phases. logged: whether there are lines about phases without a terminal.
    """
    while_working()
    boot_id = own_boot_id(node)
    history = what_helps(lambda: _history_of(node, profile), save, serving=serving)
    with ExitStack() as stack:
        forwards: list[Emit] = []
        calms: list[Callable[[], None]] = []
        tracker = Tracker(lambda event: _forward(forwards, event), history)
        log: Log | None = None
        if _is_drawn(common, node):
            say, stop_drawing = stack.enter_context(_on_terminal(tracker, node, quiet=quiet))
            forwards.append(say)
            calms.append(stop_drawing)
        else:
            from kboot.cli.eventlog import EventLog
            from kboot.cli.logs import make_logger

            log = make_logger({"boot_id": boot_id[:8], "profile": profile}, verbose=common.verbose, env=node.env)
            lines = EventLog(log, tracker.view, monotonic_s, engine_lines=serving, quiet=quiet or not logged)
            forwards.append(lines.emit)
        if save is not None:
            calms.append(stack.enter_context(_kept(tracker, node, profile, boot_id, save)))
        yield Watch(tracker.emit, log, lambda: _call_all(calms))


@contextmanager
def draw_progress(common: Common, node: Node) -> Iterator[Emit]:
    """Draw what runs inside the block on a terminal; elsewhere nothing is said of it."""
    if not _is_drawn(common, node):
        yield unheard
        return
    with watch(common, node, "", save=None) as seen:
        yield seen.emit


def _is_drawn(common: Common, node: Node) -> bool:
    return stream_kind(sys.stderr, node.env) == "terminal" and not common.verbose


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
    from kboot.report.timeline import percentile

    boots = [r for r in reports if r.profile == profile and r.ready_unix_s is not None]
    lengths: dict[str, list[float]] = {}
    for boot in boots:
        for span in boot.spans:
            if span.lane == "kboot":
                lengths.setdefault(span.name, []).append(span.seconds)
    return History({name: percentile(sorted(each), 0.5) for name, each in lengths.items()}, len(boots))


def _history_of(node: Node, profile: str) -> History:
    """Return phase_history of this node; an estimate is not worth failing for where its records may not be read."""
    try:
        return phase_history(load_reports(node.paths, _HISTORY), profile)
    except KbootError:
        return phase_history((), profile)


def what_helps(read: Callable[[], History], what: RunKind | None, *, serving: bool) -> History:
    """Return what earlier boots say of such a run: no start of an engine that it leaves alone; of no boot, nothing.

    read: reads them, where they say something.
    """
    if serving:
        return read()
    if what != "boot":
        return History()
    history = read()
    return replace(history, median_s={name: s for name, s in history.median_s.items() if name not in _WITH_ENGINE})


def own_boot_id(node: Node) -> str:
    """Return the id of this run of the kernel; "unknown" where it does not say."""
    try:
        return node.host.read_text("/proc/sys/kernel/random/boot_id").strip()
    except OSError:
        return "unknown"


def _forward(forwards: Sequence[Emit], event: Event) -> None:
    for emit in forwards:
        emit(event)


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


@contextmanager
def _on_terminal(tracker: Tracker, node: Node, *, quiet: bool) -> Iterator[tuple[Emit, Callable[[], None]]]:
    """Draw on the terminal; yield what notices go to, and what ends the drawing."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, no_color=not wants_colour(sys.stderr, node.env), highlight=False)

    def tell(event: Event) -> None:
        if isinstance(event, Notice):
            console.print(f"[dim]·[/dim] {escape(event.text)}")

    if quiet:
        yield tell, lambda: None
        return
    from kboot.cli.progress import make_display

    display = make_display(console, tracker.view, monotonic_s)
    begun = threading.Event()

    def say(event: Event) -> None:
        if isinstance(event, PhaseStarted) and not begun.is_set():
            begun.set()
            display.start()
        tell(event)

    def stop_drawing() -> None:
        begun.set()
        if display.is_started:
            display.stop()
            console.print()

    try:
        yield say, stop_drawing
    finally:
        stop_drawing()


@contextmanager
def _kept(tracker: Tracker, node: Node, profile: str, boot_id: str, what: RunKind) -> Iterator[Callable[[], None]]:
    """Write the boot's progress down once a second, in a thread: a slow disk must not slow the boot.

    Yields what ends the writing; what was written last stays until the block ends.
    """
    stop, started_unix_s = threading.Event(), unix_s()
    pid, mark = process_mark(node.host, "self")

    def write() -> None:
        running = RunningBoot(boot_id, profile, pid, mark, started_unix_s, unix_s(), progress_json(tracker.view()))
        with suppress(KbootError):  # the boot itself will say what is wrong with the disk
            write_progress(running, node.paths, what)

    def keep() -> None:
        write()
        while not stop.wait(_WRITE_EVERY_S):
            write()

    def halt() -> None:
        stop.set()
        thread.join()

    def end() -> None:
        if not stop.is_set():
            halt()
            write()

    thread = threading.Thread(target=keep, name="progress", daemon=True)
    thread.start()
    try:
        yield end
    finally:
        halt()
        with suppress(KbootError):
            clear_progress(node.paths, what)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set; from here on they do nothing else."""
    from kboot.host.myself import handle_stop_signals

    event = threading.Event()
    handle_stop_signals(event)
    return event
