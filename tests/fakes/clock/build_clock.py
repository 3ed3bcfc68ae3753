"""Builds the clock that is set back all the time, to be preloaded by a program."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("backwards.c")


def build(folder: Path) -> dict[str, str]:
    """Compile it into `folder`; return the variables of a program that is to have this clock."""
    library = folder / "backwards.so"
    command = ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return {"LD_PRELOAD": str(library)}
