"""How does a boot look while it runs on a terminal? Ticks for what is over, bars for what moves, failures that stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kboot.checks.words import count
from kboot.quantities import show_bytes, show_outlook, show_seconds
from kboot.report.progress import FileView, PhaseView, ProgressView
from kboot.report.render_text import shorten

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.text import Text

MOST_FILES = 6
_MOST_FAILURES = 8
_NAME = 9
_ROOM_FOR_LEFT = 72  # the last line tells it as well
_LONGEST_NAME = 60
_MARKS = {
    "done": ("✓", "green"),
    "degraded": ("!", "yellow"),
    "failed": ("✗", "red"),
    "interrupted": ("✗", "yellow"),
    "skipped": ("-", "dim"),
}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PER_S = 8


def make_display(console: Console, view: Callable[[], ProgressView], clock: Callable[[], float]) -> Live:
    """Return the live display; entering it starts drawing, leaving it leaves the last state on the screen."""
    from rich.live import Live

    return Live(
        console=console,
        get_renderable=lambda: draw(view(), console.width, clock()),
        refresh_per_second=_PER_S,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def draw(view: ProgressView, width: int, now_s: float) -> RenderableType:
    """Return the whole display at one moment; no line is wider than `width`."""
    from rich.console import Group

    lines: list[Text] = []
    for phase in view.phases:
        lines += _phase_lines(phase, view, width, now_s)
    lines += _failures(view, width)
    lines += _outlook(view)
    for line in lines:
        line.truncate(width - 1, overflow="ellipsis")
    return Group(*lines)


def _phase_lines(phase: PhaseView, view: ProgressView, width: int, now_s: float) -> Iterable[Text]:
    from rich.text import Text

    if phase.status != "running":
        mark, colour = _MARKS.get(phase.status, ("?", "dim"))
        size = show_bytes(phase.done_bytes) if phase.done_bytes else ""
        status = "" if phase.status == "done" else phase.status
        yield Text.assemble(
            (f"{mark} ", colour),
            f"{phase.name:<{_NAME}}",
            (f"{show_seconds(phase.seconds):>11}  {size:<8}  {status}".rstrip(), "dim"),
        )
        return
    spin = _SPINNER[int(now_s * _PER_S) % len(_SPINNER)]
    yield Text.assemble((f"{spin} ", "cyan"), (f"{phase.name:<{_NAME}}", "bold"), _how_far(phase, view, width))
    if phase.total_bytes:
        behind = f" {_percent(phase)}{_files(phase)}"
        yield Text.assemble("  ", _bar(phase.done_bytes, phase.total_bytes, width - 4 - len(behind)), behind)
        active = [file for file in view.active if file.path]
        for file in active[:MOST_FILES]:
            yield _file_line(file, width)
        if len(active) > MOST_FILES:
            yield Text(f"    and {len(active) - MOST_FILES} more", style="dim")


def _how_far(phase: PhaseView, view: ProgressView, width: int) -> str:
    parts = [show_seconds(phase.seconds).rjust(11)]
    if phase.total_bytes:
        parts.append(f"{show_bytes(phase.done_bytes)} of {show_bytes(phase.total_bytes)}")
        if view.rate_bytes_s > 0:
            parts.append(f"{show_bytes(view.rate_bytes_s)}/s")
            left_s = (phase.total_bytes - phase.done_bytes) / view.rate_bytes_s
            parts += [f"{show_seconds(left_s)} left"] if width >= _ROOM_FOR_LEFT else []
    elif phase.done_bytes:
        parts += [show_bytes(phase.done_bytes), f"{show_bytes(view.rate_bytes_s)}/s", count(phase.files_done, "file")]
    return "  ".join(parts)


def _files(phase: PhaseView) -> str:
    return f"  {phase.files_done:,} of {phase.files:,} files" if phase.files > 1 else ""


def _percent(phase: PhaseView) -> str:
    return f"{min(100, 100 * phase.done_bytes // max(1, phase.total_bytes)):>3} %"


def _file_line(file: FileView, width: int) -> Text:
    from rich.text import Text

    size = f"{show_bytes(file.done_bytes)} of {show_bytes(file.total_bytes)}"
    bar = 16 if width >= 80 else 4  # where there is little room, what tells files apart comes first
    name = min(_LONGEST_NAME, max(12, width - bar - 29))
    return Text.assemble(
        (f"    {shorten(file.path, name):<{name}} ", "dim"),
        _bar(file.done_bytes, file.total_bytes, bar),
        (f" {size:>20}", "dim"),
    )


def _bar(done: int, total: int, cells: int) -> Text:
    from rich.text import Text

    filled = min(cells, int(cells * done / total)) if total > 0 else cells
    return Text.assemble(("━" * filled, "cyan"), ("─" * (cells - filled), "dim"))


def _failures(view: ProgressView, width: int) -> Iterable[Text]:
    from rich.text import Text

    for trouble in view.failed[:_MOST_FAILURES]:
        yield Text.assemble(("✗ ", "red"), shorten(trouble.path, width - 4))
        yield Text(f"    {trouble.code}: {trouble.message}", style="red")
    if len(view.failed) > _MOST_FAILURES:
        yield Text(f"✗ and {len(view.failed) - _MOST_FAILURES} more files failed", style="red")
    if view.retrying:
        last = view.retrying[-1]
        yield Text(f"! tried again: {last.path}: {last.code}", style="yellow")


def _outlook(view: ProgressView) -> Iterable[Text]:
    from rich.text import Text

    if view.eta_s is not None and view.running:
        yield Text(show_outlook(view.eta_s, view.eta_of, view.eta_basis), style="dim")
