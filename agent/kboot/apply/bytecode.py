"""Compiles all that an engine's interpreter can import, on many CPUs at once, into a folder that stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kboot.apply.outcome import Effect, carry_out
from kboot.events import Emit, Notice
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, list_names, make_dirs, remove_tree
from kboot.host.processes import Finished, run
from kboot.plan.types import CompileBytecode
from kboot.report.types import Outcome
from kboot.store.cache_files import COMPLETE

TIMEOUT_S = 300.0

# Run by the engine's interpreter, so that its own path, version and optimisation decide. Files that no Python compiles
# (templates, code for Python 2) are in many packages and are no fault; tests are left out.
_COMPILE = """
import compileall, os, re, sys
roots = []
for path in sorted({p for p in sys.path if p and os.path.isdir(p)}):
    if not any(path.startswith(root + os.sep) for root in roots):
        roots.append(path)
skip = re.compile(r"/(tests?|idlelib|lib2to3|turtledemo)/")
for root in roots:
    compileall.compile_dir(root, quiet=2, workers=int(sys.argv[1]), rx=skip)
"""


def compile_bytecode(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Outcome:
    """Compile; what cannot be compiled is told and left to the engine, which then takes longer to start."""
    return carry_out("cache", action, lambda: _compile(action, cpus, environ, emit))


def _compile(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Effect:
    folder = Path(action.folder)
    make_dirs(folder)
    env = {**environ, "PYTHONPYCACHEPREFIX": action.folder}
    try:
        done = run([action.python, "-c", _COMPILE, str(max(1, cpus))], TIMEOUT_S, env)
    except OSError as exc:
        return _left(f"{action.python}: {exc.strerror}", emit)
    if done.timed_out or done.status:
        return _left(_why(done), emit)
    atomic_write(folder / COMPLETE, f"{unix_s():.3f}\n".encode())
    for other in list_names(folder.parent):
        if other != folder.name:
            remove_tree(folder.parent / other)
    return Effect(after=action.folder)


def _left(why: str, emit: Emit) -> Effect:
    emit(Notice("bytecode.not_compiled", f"the engine's Python is not compiled beforehand: {why}"))
    return Effect("unchanged", after=f"not compiled: {why}")


def _why(done: Finished) -> str:
    if done.timed_out:
        return f"not done after {TIMEOUT_S:.0f} s"
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"the interpreter ended with status {done.status}: {said[:200]}"
