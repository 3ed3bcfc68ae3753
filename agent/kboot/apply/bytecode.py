"""Compiles an engine's Python and what it requires, on many CPUs at once, into a folder that stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.outcome import Effect, carry_out
from kboot.events import Emit, Notice
from kboot.host.clock import unix_s
from kboot.host.files import atomic_write, list_names, make_dirs, remove_tree
from kboot.host.processes import Finished, run
from kboot.store.cache_files import COMPLETE

if TYPE_CHECKING:
    from kboot.plan.types import CompileBytecode
    from kboot.report.types import Outcome

TIMEOUT_S = 300.0

CLOSURE = """
import os, re, sys
from importlib import metadata

def distributions(name):
    seen, waiting = set(), [name]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop(0)).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield found
        for line in found.requires or ():
            if "extra ==" not in line:
                waiting.append(re.match(r"[A-Za-z0-9._-]+", line)[0])
"""
"""For the engine's interpreter: `distributions` gives a package and, after it, all that it requires."""

# Run by the engine's interpreter, so that its own path, version and optimisation decide. The engine's package comes
# first, then what it requires, then the standard library: images hold much that no engine imports, and compiling about
# 27,000 small files took 21 s on 32 CPUs and a cold disk. With a prefix set Python looks nowhere else, so what an image
# has compiled beside its sources would be lost: it is linked, of all that can be imported, by hard links where it can
# be: a symbolic one is a new inode, 0.3 ms, and there are 20,000. Python itself holds each compiled file against its
# source. Files that no Python compiles (templates, code for Python 2) are in many packages and are no fault; tests are
# left out. Prints how many files are compiled, and how many linked.
_COMPILE = (
    CLOSURE
    + """
import compileall, sysconfig
from concurrent.futures import ProcessPoolExecutor
from importlib.util import MAGIC_NUMBER, cache_from_source

LEFT_OUT = ("test", "tests", "idlelib", "site-packages", "dist-packages")

def places(tops):
    for top in dict.fromkeys(tops):
        for folder in sys.path:
            if folder and os.path.exists(os.path.join(folder, top)):
                yield os.path.join(folder, top)

def files(place):
    if place.endswith(".py"):
        yield place
    for folder, below, names in os.walk(place):
        below[:] = [n for n in below if n not in LEFT_OUT]
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(folder, name)

def beside(source):
    prefix, sys.pycache_prefix = sys.pycache_prefix, None
    try:
        return cache_from_source(source)
    finally:
        sys.pycache_prefix = prefix

def fresh(compiled, source):
    try:
        with open(compiled, "rb") as file:
            head = file.read(16)
        stat = os.stat(source)
    except OSError:
        return False
    numbers = [int.from_bytes(head[at : at + 4], "little") for at in (4, 8, 12)]
    told = [0, int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF]
    return head[:4] == MAGIC_NUMBER and (numbers == told or numbers[0] == 1)

def link(compiled, place):
    os.makedirs(os.path.dirname(place), exist_ok=True)
    for how in (os.link, os.symlink):
        try:
            how(compiled, place)
            return True
        except FileExistsError:
            return False
        except OSError:  # another file system, or one that has no such links
            continue
    return False

def prepare(source):
    found, place = beside(source), cache_from_source(source)
    if fresh(found, source):
        link(found, place)
        return 0, 1
    if os.path.islink(place):
        os.unlink(place)
    return int(bool(compileall.compile_file(source, quiet=2))), 0

def link_rest(top):
    suffix, linked = cache_from_source("x.py").rpartition("/x")[2], 0
    for folder, below, names in os.walk(top):
        below[:] = [n for n in below if n not in LEFT_OUT]
        if os.path.basename(folder) == "__pycache__":
            source = os.path.dirname(folder)
            stems = [n[: -len(suffix)] for n in names if n.endswith(suffix)]
            linked += sum(link(os.path.join(folder, s + suffix), cache_from_source(f"{source}/{s}.py")) for s in stems)
    return linked

def entries(top):
    return [os.path.join(top, n) for n in os.listdir(top) if n not in LEFT_OUT]

tops = [f.parts[0] for d in distributions(sys.argv[2]) for f in d.files or () if f.name.endswith(".py")]
wanted = dict.fromkeys(f for p in (*places(tops), sysconfig.get_path("stdlib")) for f in files(p))
with ProcessPoolExecutor(int(sys.argv[1])) as pool:
    done = list(pool.map(prepare, wanted, chunksize=16))
    rest = dict.fromkeys(f for p in sys.path if os.path.isdir(p) for f in entries(p))
    linked = sum(pool.map(link_rest, rest, chunksize=8))
print(sum(c for c, _ in done), sum(f for _, f in done) + linked)
"""
)


def compile_bytecode(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Outcome:
    """Compile; what cannot be compiled is told and left to the engine, which then takes longer to start."""
    return carry_out("cache", action, lambda: _compile(action, cpus, environ, emit))


def _compile(action: CompileBytecode, cpus: int, environ: Mapping[str, str], emit: Emit) -> Effect:
    folder = Path(action.folder)
    make_dirs(folder)
    env = {**environ, "PYTHONPYCACHEPREFIX": action.folder}
    try:
        done = run([action.python, "-c", _COMPILE, str(max(1, cpus)), action.package], TIMEOUT_S, env)
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
