"""What does an engine's own interpreter say of its packages, and compile of them? A program that it runs.

Its own path, version and optimisation decide. It is run as a file of its own, `PYTHON engine_python_child.py …`, by
whatever Python an engine has: it imports the standard library alone and runs on Python 3.8.

    compile PROCESSES PACKAGE   compile a package, what it requires and the standard library, into PYTHONPYCACHEPREFIX;
                                prints how many files are compiled, and how many linked
    list PACKAGE                print, packed, the names of the files that its import reads, compiled ones first
"""

from __future__ import annotations

import os
import sys

# Python looks beside its program first, and beside this one lie modules with names of the standard library.
if __name__ == "__main__" and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
    sys.path.pop(0)

import re
import zlib
from importlib import metadata
from importlib.util import MAGIC_NUMBER, cache_from_source
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REQUIRED = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?")
_OF_EXTRA = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']""")
_LEFT_OUT = ("test", "tests", "idlelib", "site-packages", "dist-packages")


def main(argv: list[str]) -> int:
    """Do what is asked."""
    if argv[1] == "compile":
        compiled, linked = _compile(int(argv[2]), argv[3])
        sys.stdout.write(f"{compiled} {linked}\n")
    else:
        sys.stdout.buffer.write(_listed(argv[2]))
    return 0


def _distributions(package: str) -> Iterator[metadata.Distribution]:
    """Yield a package and, after it, all that it requires, with the extras that its requirements name.

    torch requires NVIDIA's libraries so: "cuda-toolkit[cublas,cudart]", whose extras name the packages. Conditions of
    platform and version decided what was installed, and are not asked again.
    """
    followed: dict[str, set[str]] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(_normal(package), frozenset())]
    while waiting:
        name, extras = waiting.pop(0)
        is_new, fresh = name not in followed, extras - followed.setdefault(name, set())
        if not is_new and not fresh:
            continue
        followed[name] |= fresh
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if is_new:
            yield found
        for line in found.requires or ():
            required = _REQUIRED.match(line)
            of = {_normal(extra) for extra in _OF_EXTRA.findall(line)}
            if required and (of & fresh if of else is_new):
                asked = frozenset(_normal(extra) for extra in (required[2] or "").split(",") if extra.strip())
                waiting.append((_normal(required[1]), asked))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _listed(package: str) -> bytes:
    """Return the names of its files and of those that it requires.

    Packed: vLLM's 15,000 names are 2 MB, more than is taken of a program's output.
    """
    compiled, libraries = [], []
    for distribution in _distributions(package):
        for file in distribution.files or ():
            if file.suffix == ".py":
                compiled.append(cache_from_source(str(distribution.locate_file(file))))
            elif ".so" in file.suffixes:
                libraries.append(str(distribution.locate_file(file)))
    found = dict.fromkeys(map(os.path.realpath, filter(os.path.isfile, (*compiled, *libraries))))
    return zlib.compress(os.fsencode("\0".join(found)))


def _compile(processes: int, package: str) -> tuple[int, int]:
    """Return how many files were compiled, and how many linked.

    The package comes first, then what it requires, then the standard library: images hold much that no engine imports,
    and compiling about 27,000 small files took 21 s on 32 CPUs and a cold disk. With a prefix set Python looks nowhere
    else, so what an image has compiled beside its sources would be lost: it is linked, of all that can be imported.
    Files that no Python compiles (templates, code for Python 2) are in many packages and are no fault; tests are left
    out.
    """
    import sysconfig
    from concurrent.futures import ProcessPoolExecutor

    found = [f for d in _distributions(package) for f in d.files or () if f.name.endswith(".py")]
    tops = [f.parts[0] for f in found if f.parts[0] != ".."]  # a script's: "../../../bin/jp.py"
    wanted = dict.fromkeys(f for p in (*_places(tops), sysconfig.get_path("stdlib")) for f in _sources(p))
    with ProcessPoolExecutor(processes) as pool:
        done = list(pool.map(_prepare, wanted, chunksize=16))
        rest = dict.fromkeys(f for p in sys.path if os.path.isdir(p) for f in _entries(p))
        linked = sum(pool.map(_link_rest, rest, chunksize=8))
    return sum(compiled for compiled, _ in done), sum(link for _, link in done) + linked


def _places(tops: Iterable[str]) -> Iterator[str]:
    """Yield where the tops of packages are."""
    for top in dict.fromkeys(tops):
        for folder in sys.path:
            if folder and os.path.exists(os.path.join(folder, top)):
                yield os.path.join(folder, top)


def _entries(top: str) -> list[str]:
    return [os.path.join(top, name) for name in os.listdir(top) if name not in _LEFT_OUT]


def _sources(place: str) -> Iterator[str]:
    if place.endswith(".py"):
        yield place
    for folder, below, names in os.walk(place):
        below[:] = [name for name in below if name not in _LEFT_OUT]
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def _prepare(source: str) -> tuple[int, int]:
    """Compile a file or link what is compiled of it; return how many were compiled, and how many linked."""
    import compileall

    found, place = _beside(source), cache_from_source(source)
    if _is_fresh(found, source):
        _link(found, place)
        return 0, 1
    if os.path.islink(place):
        os.unlink(place)
    return int(bool(compileall.compile_file(source, quiet=2))), 0


def _beside(source: str) -> str:
    """Return where Python keeps what it compiled when no prefix is set."""
    prefix, sys.pycache_prefix = sys.pycache_prefix, None
    try:
        return cache_from_source(source)
    finally:
        sys.pycache_prefix = prefix


def _is_fresh(compiled: str, source: str) -> bool:
    """Return whether Python would take the compiled file for this source."""
    try:
        with open(compiled, "rb") as file:
            head = file.read(16)
        stat = os.stat(source)
    except OSError:
        return False
    numbers = [int.from_bytes(head[at : at + 4], "little") for at in (4, 8, 12)]
    told = [0, int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF]
    return head[:4] == MAGIC_NUMBER and (numbers == told or numbers[0] == 1)


def _link(compiled: str, place: str) -> bool:
    """Link a compiled file to where Python looks, which holds it against its source itself.

    By a hard link where it can be: a symbolic one is a new inode, 0.3 ms, and there are 20,000.
    """
    os.makedirs(os.path.dirname(place), exist_ok=True)
    for how in (os.link, os.symlink):
        try:
            how(compiled, place)
        except FileExistsError:
            return False
        except OSError:  # another file system, or one that has no such links
            continue
        return True
    return False


def _link_rest(top: str) -> int:
    """Link whatever is compiled below a folder; return how many files."""
    # Not of a bare name: Python takes that for a file of the working directory, and stumbles over "/", a service's.
    suffix, linked = cache_from_source("/x/x.py").rpartition("/x")[2], 0
    for folder, below, names in os.walk(top):
        below[:] = [name for name in below if name not in _LEFT_OUT]
        if os.path.basename(folder) == "__pycache__":
            source = os.path.dirname(folder)
            stems = [name[: -len(suffix)] for name in names if name.endswith(suffix)]
            linked += sum(_link(os.path.join(folder, s + suffix), cache_from_source(f"{source}/{s}.py")) for s in stems)
    return linked


if __name__ == "__main__":
    sys.exit(main(sys.argv))
