"""How is kboot run on a node of its own, below one folder?"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PROFILE = "bench"


def tool(name: str) -> str | None:
    """Return a program's path: of this environment first, then of the machine; None where it is missing."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def kboot() -> str:
    """Return the path of kboot.

    Raises:
        RuntimeError: it is not installed in this environment.
    """
    found = tool("kboot")
    if found is None:
        raise RuntimeError("kboot is not installed in this environment (pip install -e .)")
    return found


def why_left_out(method: str, needs: Sequence[str], without: Sequence[str]) -> str:
    """Return why a method is not measured; empty where it is."""
    if method in without:
        return "not asked for"
    missing = [name for name in needs if tool(name) is None]
    return f"{', '.join(missing)} not installed" if missing else ""


def clean_env(**more: str) -> dict[str, str]:
    """Return an environment in which neither Python, kboot nor the Hub's client reads anything of the caller's.

    PYTHONDONTWRITEBYTECODE alone would make every start compile what an installation has compiled.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "KBOOT_", "XDG_", "PYTHON"))}
    return {**kept, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", **more}


def node_env(node: Path, endpoint: str) -> dict[str, str]:
    """Return the environment of a kboot whose state, runtime and configuration are below one folder."""
    return clean_env(
        HF_ENDPOINT=endpoint,
        HF_HOME=str(node / "hf"),
        HOME=str(node),
        KBOOT_STATE_DIR=str(node / "state"),
        KBOOT_RUNTIME_DIR=str(node / "run"),
        KBOOT_CONFIG_DIR=str(node / "etc"),
    )


def write_profile(node: Path, repo: str, commit: str, command: tuple[str, ...]) -> Path:
    """Write a profile that serves a repository with a command line on a machine without GPUs; return its path."""
    folder = node / "etc" / "profiles"
    folder.mkdir(parents=True)
    path = folder / f"{PROFILE}.toml"
    path.write_text(
        f"""schema = 1

[checkpoint]
repo = "{repo}"
revision = "{commit}"
sources = ["hub"]

[cpu]
governor = ""

[[layout]]
name = "bench"
gpu = "none"
gpus_per_node = 0
engine = "command"
command = [{", ".join(f'"{word}"' for word in command)}]
"""
    )
    return path


def version_of(argv: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the number in what each program says of its version."""
    found = {}
    for name, command in argv.items():
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_env(), check=False)
        number = re.search(r"\d+(\.\d+)+", re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))
        found[name] = number.group() if number else "unknown"
    return found
