"""What does a shell offer while a line is typed?"""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from cli_run import Kboot

from fakes.caches import KEY, make_cache

ASK = """
eval "$(_KBOOT_COMPLETE=bash_source kboot)"
while read -ra COMP_WORDS; do
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    [ "${COMP_WORDS[COMP_CWORD]}" != _ ] || COMP_WORDS[COMP_CWORD]=
    _kboot_completion kboot
    echo "${COMPREPLY[*]}"
done
"""


def offered(kboot: Kboot, *lines: str) -> list[str]:
    """Return what the real bash offers at the end of each line; `_` is a word that is not begun."""
    bash, folder = shutil.which("bash"), kboot.folder / "bin"
    if bash is None:
        pytest.skip("there is no bash")
    folder.mkdir()
    program = folder / "kboot"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kboot "$@"\n')
    program.chmod(0o755)
    env = {**kboot.environ, "PATH": f"{folder}:{kboot.environ['PATH']}"}
    typed = "\n".join(lines) + "\n"
    ran = subprocess.run([bash, "--norc", "-c", ASK], input=typed, capture_output=True, text=True, env=env, timeout=60)
    assert "" == ran.stderr
    return ran.stdout.splitlines()


def test_names_are_offered_that_a_node_knows(kboot: Kboot) -> None:
    """Commands, profiles, the checks of a mode, kernel caches and classes of GPUs."""
    make_cache(kboot.folder / "state/cache")
    profiles = kboot.folder / "etc/profiles"
    profiles.mkdir()
    (profiles / "kimi-mine.toml").write_text("")

    assert [
        "timeline",
        "kimi-k3 kimi-k3.1-pro",
        "kimi-mine",
        "demo",
        "gpu.clocks",
        "gpu.h2d",
        KEY,
        "B200 B300",
        "",
    ] == offered(
        kboot,
        "kboot ti",
        "kboot plan --profile kimi-k3",
        "kboot fit kimi-m",
        "kboot profile show dem",
        "kboot doctor --skip gpu.cl",
        "kboot doctor --mode deep --check gpu.h",
        "kboot cache export --key _",
        "kboot fit demo --gpu B",
        "kboot timeline --boot _",
    )


def test_boots_are_offered_by_their_number(kboot: Kboot) -> None:
    """Those of `kboot timeline --list`: here a boot that was refused, since nobody answers."""
    assert 17 == kboot("fetch", "--profile", "demo").status
    assert ["1", "1"] == offered(kboot, "kboot timeline --boot _", "kboot cache explain --against _")


def test_a_node_that_cannot_be_read_offers_nothing(kboot: Kboot) -> None:
    """Its configuration is not valid: the line that is typed is not disturbed."""
    (kboot.folder / "etc/kboot.toml").write_text("profile = ")

    assert [""] == offered(kboot, "kboot timeline --boot _")
