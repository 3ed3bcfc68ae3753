"""How does a command end?"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cli_run import Kboot

Script = Callable[[str], str]
FAIL = "raise DoesNotFit('disk-full', 'the file system is full', where=('/data',), hint='free space: `df -h /data`')"


def test_an_error_is_code_message_place_and_hint_on_stderr(kboot: Kboot, quick_script: Script) -> None:
    """One error, printed once, in the form of every error; nothing on stdout; its status."""
    ran = kboot.script(quick_script(FAIL))

    assert (15, "") == (ran.status, ran.out)
    assert "error: disk-full\n  the file system is full\n  /data\nhint: free space: `df -h /data`\n" == ran.err


def test_with_json_an_error_is_a_document_on_stdout(kboot: Kboot, quick_script: Script) -> None:
    """A program that asked for JSON gets JSON, also of the failure."""
    ran = kboot.script(quick_script(FAIL), "--json")

    assert ("error", "disk-full", 15) == (ran.doc["kind"], ran.doc["code"], ran.status)
    assert 1 == ran.doc["schema"]


def test_a_json_flag_behind_two_dashes_is_not_kboots(kboot: Kboot, quick_script: Script) -> None:
    """`kboot exec -- server --json` asks the server for JSON, not kboot."""
    assert "" == kboot.script(quick_script(FAIL), "--", "--json").out


def test_usage_errors_have_the_same_form(kboot: Kboot) -> None:
    """An option that does not exist is status 2, in text and in JSON, with the help to read."""
    text, doc = kboot("boot", "--frob"), kboot("boot", "--frob", "--json")

    assert (2, 2) == (text.status, doc.status)
    assert text.err.startswith("error: usage\n")
    assert "hint: `kboot boot --help`" in text.err
    assert "usage" == doc.doc["code"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "--gpus", "0"), "--gpus is 0; wanted: at least 1"),
        (("plan", "--rank", "x"), "--node-rank is x; wanted: a whole number"),
        (("verify", "--older-than-h", "-1"), "--older-than-h is -1; wanted: at least 0"),
        (("timeline", "--usd-per-hour", "nan"), "--usd-per-hour is nan; wanted: a finite number"),
    ],
)
def test_a_number_out_of_range_is_told_as_profiles_tell_it(kboot: Kboot, words: tuple[str, ...], said: str) -> None:
    """What it is and what is wanted, with the help to read."""
    ran = kboot(*words)

    assert (2, ["error: usage", f"  {said}", f"hint: `kboot {words[0]} --help`"]) == (ran.status, ran.err.splitlines())


@pytest.mark.parametrize("line", ["timeline -o -", "doctor --bundle -", "facts --record -"])
def test_a_dash_is_not_taken_for_the_name_of_what_is_written(kboot: Kboot, line: str) -> None:
    """It is standard output elsewhere: refused before anything is done, with the way to a file of that name."""
    ran = kboot(*line.split())

    assert 2 == ran.status
    assert "a file of that name is ./-" in " ".join(ran.err.split())


def test_the_hint_names_the_command_that_was_typed(kboot: Kboot) -> None:
    """An option without its value as well, of which click does not say whose it was."""
    hints = [kboot(*words).err.splitlines()[-1] for words in (("plan", "--profile"), ("cache", "gc", "--max-gib"))]

    assert ["hint: `kboot plan --help`", "hint: `kboot cache gc --help`"] == hints


def test_an_unknown_command_is_a_usage_error(kboot: Kboot) -> None:
    """A command that does not exist is status 2; what was meant is named, though no command is loaded by then."""
    ran = kboot("boott")

    assert 2 == ran.status
    assert "No such command 'boott'. Did you mean 'boot'?" in ran.err


def test_an_unexpected_exception_is_called_a_bug_and_kept(kboot: Kboot, quick_script: Script) -> None:
    """Status 1, one line, the traceback in a file without the token that was in it."""
    ran = kboot.script(quick_script("raise ValueError('hf_abcdefghijklmnop')"))
    (kept,) = (kboot.folder / "run").glob("traceback-*.txt")

    assert 1 == ran.status
    assert 1 == len(ran.err.splitlines())
    assert "this is a bug in kboot (ValueError)" in ran.err
    assert str(kept) in ran.err
    assert "ValueError" in kept.read_text()
    assert "hf_" not in kept.read_text()
    assert 0o600 == kept.stat().st_mode & 0o777


def test_with_v_the_traceback_is_shown(kboot: Kboot, quick_script: Script) -> None:
    """-v shows the traceback instead of keeping it."""
    ran = kboot.script(quick_script("raise ValueError('x')"), "-v")

    assert 1 == ran.status
    assert "Traceback (most recent call last)" in ran.err
    assert [] == list((kboot.folder / "run").glob("traceback-*"))


def test_a_bug_on_a_node_that_cannot_be_written_still_shows_its_traceback(kboot: Kboot, quick_script: Script) -> None:
    """Where no file can be written, the traceback goes to stderr."""
    ran = kboot.script(quick_script("raise ValueError('x')"), env={"KBOOT_RUNTIME_DIR": "/proc/nowhere"})

    assert 1 == ran.status
    assert "Traceback" in ran.err


def test_sigterm_sighup_and_ctrl_c_end_with_130(kboot: Kboot, quick_script: Script) -> None:
    """The three signals end a command in the same way: one line, status 130, no traceback."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        code = quick_script("click.echo('up'); time.sleep(60)")
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=kboot.environ,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert child.stdout is not None
        assert "up\n" == child.stdout.readline()
        child.send_signal(number)
        _, err = child.communicate(timeout=30)

        assert 130 == child.returncode
        assert "kboot: interrupted\n" == err


def test_an_interrupt_while_a_class_is_made_ends_with_130(kboot: Kboot, quick_script: Script) -> None:
    """Not by a signal of its own: CPython ends itself by SIGINT when an interrupt comes out of exec()."""
    ran = kboot.script(quick_script("exec('raise KeyboardInterrupt')"))

    assert (130, "kboot: interrupted\n") == (ran.status, ran.err)


def test_a_signal_before_the_command_line_is_loaded_ends_with_130(kboot: Kboot, tmp_path: Path) -> None:
    """The library of the command line is still being imported: one line, status 130, not killed by the signal."""
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow/click.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        child = subprocess.Popen(
            [sys.executable, "-m", "kboot", "daemon"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**kboot.environ, "PYTHONPATH": str(tmp_path / "slow")},
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert child.stdout is not None
        assert "loading\n" == child.stdout.readline()
        child.send_signal(number)
        _, err = child.communicate(timeout=30)

        assert (130, "kboot: interrupted\n") == (child.returncode, err)


def test_a_reader_that_goes_away_is_no_error(kboot: Kboot, quick_script: Script) -> None:
    """`kboot plan | head -1` ends quietly."""
    code = quick_script("[click.echo('x' * 1000) for _ in range(10000)]")
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kboot.environ
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr is not None

    assert b"" == child.stderr.read()
    assert 0 == child.wait(30)
    child.stderr.close()


def test_no_colour_codes_where_nobody_sees_colours(kboot: Kboot) -> None:
    """Piped output holds no escape codes."""
    for words in (["facts"], ["doctor"], ["fit", "kimi-k3.1-pro"], ["profile", "check", "nope"]):
        ran = kboot(*words)

        assert "\x1b" not in ran.out + ran.err


@pytest.mark.parametrize("columns", [60, 100])
def test_results_and_errors_are_laid_out_for_the_terminal(kboot: Kboot, columns: int) -> None:
    """As wide as it is, as far as there is something to say; 80 columns through a pipe."""
    screen, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    for words in ("profile list", "fit nothing-of-this-name"):
        argv = [sys.executable, "-m", "kboot", *words.split()]
        subprocess.run(argv, stdout=slave, stderr=slave, stdin=slave, env=kboot.environ, timeout=60)
    os.close(slave)
    written = b""
    with suppress(OSError), os.fdopen(screen, "rb", buffering=0) as reader:  # EIO: nobody writes any more
        while piece := reader.read(65536):
            written += piece
    paths_apart = [line for line in written.decode().splitlines() if "/" not in line]  # those are not broken
    drawn = [len(line) for line in paths_apart]
    plain = [len(line) for line in kboot("profile", "list").out.splitlines()]

    assert columns - 15 < max(drawn) <= columns
    assert 65 < max(plain) <= 80


def test_a_closed_stream_changes_nothing_but_what_is_read(kboot: Kboot) -> None:
    """`>&-` and `2>&-`: the command does its work and ends with its own status, not as a bug."""
    command = f"{sys.executable} -m kboot profile list"
    statuses = [
        subprocess.run(
            ["sh", "-c", f"{command} {closed}"], env=kboot.environ, capture_output=True, timeout=60
        ).returncode
        for closed in (">&-", "2>&-", "<&- >&- 2>&-")
    ]

    assert [0, 0, 0] == statuses


def test_a_full_stdout_is_a_named_error(kboot: Kboot) -> None:
    """`>/dev/full`: what could not be written is said, with status 15."""
    command = f"{sys.executable} -m kboot profile list >/dev/full"
    ran = subprocess.run(["sh", "-c", command], env=kboot.environ, capture_output=True, text=True, timeout=60)

    assert (15, True, False) == (ran.returncode, "standard output" in ran.stderr, "df -h" in ran.stderr)


def test_a_working_folder_that_is_gone_is_no_bug(kboot: Kboot) -> None:
    """What needs no folder to start from works; what is relative to it is refused in a sentence."""
    folder = kboot.folder / "gone"
    folder.mkdir()
    script = 'rmdir "$1" && shift && exec "$@"'
    words = (sys.executable, "-m", "kboot")

    def here(*args: str) -> subprocess.CompletedProcess[str]:
        folder.mkdir(exist_ok=True)
        argv = ["sh", "-c", script, "sh", str(folder), *words, *args]
        return subprocess.run(argv, cwd=folder, env=kboot.environ, capture_output=True, text=True, timeout=60)

    assert 0 == here("status").returncode
    refused = here("plan", "--root", ".")
    assert (13, True) == (refused.returncode, "error: working-folder-gone" in refused.stderr)


ENDING = """
import atexit, gc, sys
atexit.register(lambda: print(len(gc.get_objects()) < gc.get_freeze_count() / 100))
sys.argv = ["kboot", "--version"]
from kboot.__main__ import main
main()
"""


def test_python_looks_at_nothing_more_when_a_command_has_ended(kboot: Kboot) -> None:
    """All that was made goes with the process: nothing of it is looked at for cycles first."""
    assert kboot.script(ENDING).out.endswith("\nTrue\n")
