"""How does a boot look while it runs on a terminal?"""

from __future__ import annotations

import io

from rich.console import Console

from kboot.cli.progress import MOST_FILES, draw, make_display
from kboot.cli.watch import what_helps
from kboot.events import FileTrouble
from kboot.report.progress import FileView, History, PhaseView, ProgressView

FILES = tuple(FileView(f"model-{n:05d}-of-00111.safetensors", n * 10**8, 14 * 10**9) for n in range(9, 0, -1))
VIEW = ProgressView(
    phases=(
        PhaseView("tune", "degraded", 0, seconds=0.1),
        PhaseView("cache", "done", 0, seconds=0.2),
        PhaseView("fetch", "running", 10**12, 4 * 10**11, files_done=37, files=111, seconds=200.0),
    ),
    active=FILES,
    failed=(FileTrouble("fetch", "model-00099-of-00111.safetensors", "shard-hash-mismatch", "sha256 " * 20, True),),
    retrying=(),
    rate_bytes_s=2e9,
    eta_s=338.0,
    eta_basis="rate of the last 10 s, median of 3 boots",
)


def text_of(view: ProgressView, width: int = 80) -> list[str]:
    """Return what is drawn, line by line."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(draw(view, width, 0.0))
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue().splitlines()


def test_the_display_shows_phases_bytes_rate_time_left_and_files() -> None:
    """What is over has a mark; what runs has a bar, bytes, rate, time left and files."""
    lines = text_of(VIEW)

    assert "! tune" == lines[0][:6]
    assert "✓ cache" == lines[1][:7]
    assert "400 GB of 1.00 TB" in lines[2]
    assert "2.00 GB/s" in lines[2]
    assert "5 min 00 s left" in lines[2]
    assert lines[3].endswith("40 %  37 of 111 files")
    assert "serving in about 5 min 38 s (rate of the last 10 s, median of 3 boots)" == lines[-1]


def test_a_narrow_display_tells_the_time_left_once_and_a_wide_one_keeps_names_and_bars_together() -> None:
    """Nothing is cut at 60 columns; at 200 a file's bar stands near its name."""
    narrow, wide = text_of(VIEW, 60), text_of(VIEW, 200)

    assert narrow[2].endswith("400 GB of 1.00 TB  2.00 GB/s")
    assert "5 min 38 s" in " ".join(narrow[-2:])
    assert 65 == wide[4].index("━")


def test_work_of_which_nobody_knows_the_end_shows_what_was_done() -> None:
    """Bytes, rate and files, without a bar; files that are not told apart have no line of their own."""
    search = PhaseView("search", "running", 0, 57_400_000, files_done=1609, seconds=1.9)
    unpack = PhaseView("unpack", "running", 2000, 500, files_done=84, files=20_986, seconds=1.9)
    view = ProgressView((search, unpack), (FileView("", 500, 2000),), (), (), 32_600_000.0, None, "")
    lines = text_of(view)

    assert lines[0].endswith("1.9 s  57.4 MB  32.6 MB/s  1,609 files")
    assert lines[2].endswith("25 %  84 of 20,986 files")
    assert 3 == len(lines)


def test_at_most_six_files_are_shown_and_the_rest_counted() -> None:
    """The shards nearest their end, and how many more there are."""
    lines = text_of(VIEW)

    assert MOST_FILES == sum("of 14.0 GB" in line for line in lines)
    assert any("and 3 more" in line for line in lines)


def test_a_failed_file_stays_with_its_reason() -> None:
    """A shard that failed for good is on the screen until the end, with code and reason."""
    lines = text_of(VIEW)
    at = lines.index("✗ model-00099-of-00111.safetensors")

    assert lines[at + 1].startswith("    shard-hash-mismatch: sha256")


def test_no_line_is_wider_than_the_terminal() -> None:
    """Nothing wraps, whatever the width: a wrapped line would be drawn again and again."""
    for width in (40, 80, 120):
        assert max(len(line) for line in text_of(VIEW, width)) <= width


def test_files_are_told_apart_on_a_narrow_terminal() -> None:
    """The number in a shard's name is kept; the bar gives way."""
    assert ["model-00009", "model-00008"] == [line.strip()[:11] for line in text_of(VIEW, 60)[4:6]]


def test_the_display_ends_on_its_last_state_and_below_it() -> None:
    """After the boot the last state stays and the cursor is at the start of a new line."""
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with make_display(console, lambda: VIEW, lambda: 0.0):
        pass
    text = out.getvalue()

    assert text.rstrip("\x1b[?25h\n").endswith("3 boots)")
    assert "\n" in text[text.rindex("3 boots)") :]
    assert text.count("\x1b[?25h") == text.count("\x1b[?25l")  # the cursor is visible again


def _nothing_read() -> History:
    raise AssertionError("records of earlier boots were read for nothing")


def test_a_run_that_starts_no_engine_is_not_told_when_one_will_answer() -> None:
    """A boot that prepares has the medians up to there, a run about bytes or a verification none."""
    boots = History({"publish": 1.0, "standby": 600.0, "serve": 30.0}, 3)

    assert boots == what_helps(lambda: boots, "boot", serving=True)
    assert History({"publish": 1.0}, 3) == what_helps(lambda: boots, "boot", serving=False)
    assert History() == what_helps(_nothing_read, "bytes", serving=False)
    assert History() == what_helps(_nothing_read, None, serving=False)
