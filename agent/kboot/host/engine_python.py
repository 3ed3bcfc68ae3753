"""How is an engine's own interpreter asked about its packages?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kboot.host.processes import Finished, run

_UMASK = 0o022  # the engine, which reads what is compiled, runs as another user
_CHILD = str(Path(__file__).with_name("engine_python_child.py"))


def compile_package(
    python: str, package: str, folder: str, processes: int, timeout_s: float, environ: Mapping[str, str]
) -> Finished:
    """Compile a package, what it requires and the standard library into a folder; see kboot.host.engine_python_child.

    Raises:
        OSError: no such interpreter.
    """
    return _ask(python, folder, ("compile", str(max(1, processes)), package), timeout_s, environ)


def list_package(python: str, package: str, folder: str, timeout_s: float, environ: Mapping[str, str]) -> Finished:
    """Ask for the names of a package's files and of what it requires, compiled ones in the folder; see the child.

    Raises:
        OSError: no such interpreter.
    """
    return _ask(python, folder, ("list", package), timeout_s, environ)


def _ask(python: str, folder: str, asked: tuple[str, ...], timeout_s: float, environ: Mapping[str, str]) -> Finished:
    return run([python, _CHILD, *asked], timeout_s, {**environ, "PYTHONPYCACHEPREFIX": folder}, umask=_UMASK)
