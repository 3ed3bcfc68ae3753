"""Compiles an engine's Python and what it requires, on many CPUs at once, into a folder that stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.outcome import Effect, carry_out
from kboot.events import Emit, Notice
from kboot.host.clock import unix_s
from kboot.host.engine_python import compile_package
from kboot.host.files import atomic_write, list_names, make_dirs, remove_tree
from kboot.host.processes import Finished
from kboot.store.cache_files import COMPLETE

if TYPE_CHECKING:
    from kboot.plan.types import CompileBytecode
    from kboot.report.types import Outcome

TIMEOUT_S = 300.0


def compile_bytecode(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Outcome:
    """Compile; what cannot be compiled is told and left to the engine, which then takes longer to start."""
    return carry_out("cache", action, lambda: _compile(action, cpus, environ, emit))


def _compile(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Effect:
    folder = Path(action.folder)
    make_dirs(folder)
    try:
        done = compile_package(action.python, action.package, action.folder, cpus, TIMEOUT_S, environ)
    except OSError as exc:
        return _left(f"{action.python}: {exc.strerror}", emit)
    if done.timed_out or done.status:
        return _left(_why(done), emit)
    atomic_write(folder / COMPLETE, f"{unix_s():.3f}\n".encode())
    for other in list_names(folder.parent):
        if other != folder.name:
            remove_tree(folder.parent / other)
    compiled, _, linked = done.stdout.decode(errors="replace").strip().partition(" ")
    return Effect(after=f"compiled {compiled} files, linked {linked} of the image, in {action.folder}")


def _left(why: str, emit: Emit) -> Effect:
    emit(Notice("bytecode.not_compiled", f"the engine's Python is not compiled beforehand: {why}"))
    return Effect("unchanged", after=f"not compiled: {why}")


def _why(done: Finished) -> str:
    if done.timed_out:
        return f"not done after {TIMEOUT_S:.0f} s"
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the interpreter ended with status {done.status}: {said[:200]}"
