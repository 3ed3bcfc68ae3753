"""Who may read what, and which process shows a token."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kboot.host.access import access_to, processes_that_show_a_token

TOKEN = "hf_" + "aB3" * 12


def test_what_every_user_may_do_is_said_in_words(tmp_path: Path) -> None:
    """Of files and folders; what is not there has no answer."""
    path = tmp_path / "f"
    path.write_text("x")
    said = {}
    for mode in (0o600, 0o640, 0o644, 0o666, 0o602):
        path.chmod(mode)
        access = access_to(path, tmp_path)
        assert access is not None
        said[mode] = access.by_everybody

    assert {0o600: "", 0o640: "", 0o644: "read", 0o666: "read and write", 0o602: "write"} == said
    assert access_to(tmp_path / "none") is None


def test_below_a_closed_folder_nobody_else_can_do_anything(tmp_path: Path) -> None:
    """As /root is: the Hub's client writes its token there for everybody to read, and nobody gets to it."""
    home = tmp_path / "home"
    (home / ".cache").mkdir(parents=True)
    path = home / ".cache/token"
    path.write_text("x")
    path.chmod(0o644)
    home.chmod(0o700)
    closed = access_to(path, tmp_path)
    home.chmod(0o711)
    entered = access_to(path, tmp_path)

    assert closed is not None
    assert entered is not None
    assert ("", "read") == (closed.by_everybody, entered.by_everybody)


def test_a_token_in_a_command_line_is_seen(tmp_path: Path) -> None:
    """Every user of a machine can read it there."""
    program = [sys.executable, "-c", "input()", "--hf-token", TOKEN]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as child:
        while TOKEN.encode() not in Path(f"/proc/{child.pid}/cmdline").read_bytes():
            assert child.poll() is None
        found = processes_that_show_a_token()
        child.communicate(b"\n", timeout=60)

    assert (child.pid, "command line") in found


def test_the_environment_of_this_process_is_the_operators_own() -> None:
    """Whoever runs doctor with HF_TOKEN set is not told that they know it."""
    code = (
        "import os, subprocess, sys\n"
        "from kboot.host.access import processes_that_show_a_token as look\n"
        "sys.exit(os.getpid() in {pid for pid, _ in look()})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"HF_TOKEN": TOKEN, "PATH": ""}, timeout=100, check=False)

    assert 0 == done.returncode
