"""Builds the fake libcuda.so.1 and writes what it answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).with_name("fakecuda.c")


def build(folder: Path) -> Path:
    """Compile the library into `folder`, which then goes into LD_LIBRARY_PATH."""
    library = folder / "libcuda.so.1"
    command = ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True, timeout=60)
    return folder


def environment(library_folder: Path, conf: Path, system: str = "init=0", gpus: Iterable[str] = ()) -> dict[str, str]:
    """Write the answers into `conf`; return the environment of a process that will get them."""
    conf.write_text("".join([f"system {system}\n", *(f"gpu {gpu}\n" for gpu in gpus)]))
    return {**os.environ, "LD_LIBRARY_PATH": str(library_folder), "FAKE_CUDA": str(conf)}
