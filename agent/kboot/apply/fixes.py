"""Carries out what doctor may change by itself, and writes down how all of it is undone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Literal, assert_never

from kboot.checks.fixes import Fix, PutAside, WriteValue
from kboot.errors import ActionFailed, KbootError
from kboot.host.files import atomic_write, exists, make_dirs, read_small, rename
from kboot.host.paths import Paths
from kboot.host.settings import read_setting, write_setting
from kboot.plan.tune import selected
from kboot.values import dataclass

UNDO = "doctor-undo.sh"

_HEAD = ("#!/bin/sh", "# Undoes what `kboot doctor --fix` changed, the last change first.", "failed=0")
_OR_FAIL = " || failed=1"
_END = (
    'if [ "$failed" = 0 ]; then rm -f -- "$0"; '
    'else echo "not all of it could be undone, see the lines of $0" >&2; exit 1; fi'
)
_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of one fix. check: whose finding it is about. error: None unless failed."""

    check: str
    fix: Fix
    status: Literal["done", "unchanged", "failed"]
    error: KbootError | None = None


def beside_earlier(fix: Fix) -> Fix:
    """Return the fix with a name that nothing has which was put aside before."""
    if not isinstance(fix, PutAside):
        return fix
    return next(each for each in (replace(fix, number=n) for n in count(1)) if not exists(Path(each.aside)))


def apply_fixes(
    wanted: Sequence[tuple[str, Fix]], paths: Paths, still: Callable[[PutAside], bool]
) -> tuple[tuple[Fixed, ...], Path | None]:
    """Do each fix, and return what became of it with the script that undoes those that were done.

    The script is there before the first change, with all of them, and keeps what earlier runs wrote: one that was
    killed in the middle must be undone as well. It removes itself when all is undone.

    wanted: (check, fix). still: whether what made a file worth putting aside is so to this moment.

    Raises:
        KbootError: the script cannot be written; nothing was changed then.
    """
    if not wanted:
        return (), None
    script = paths.runtime / UNDO
    make_dirs(paths.runtime)
    earlier = _earlier(script)
    _write_script(script, (fix for _, fix in wanted), earlier)
    done = tuple(_apply(check, fix, still) for check, fix in wanted)
    _write_script(script, (f.fix for f in done if f.status == "done"), earlier)
    return done, script if any(f.status == "done" for f in done) else None


def _apply(check: str, fix: Fix, still: Callable[[PutAside], bool]) -> Fixed:
    try:
        changed = _do(fix, still)
    except KbootError as exc:
        return Fixed(check, fix, "failed", exc)
    return Fixed(check, fix, "done" if changed else "unchanged")


def _do(fix: Fix, still: Callable[[PutAside], bool]) -> bool:
    """Return whether anything was changed."""
    match fix:
        case WriteValue():
            return _write(fix)
        case PutAside():
            path = Path(fix.path)
            if not exists(path) or not still(fix):
                return False
            _put_aside(path, Path(fix.aside))
            return True
        case _:
            assert_never(fix)


def _put_aside(path: Path, aside: Path) -> None:
    if exists(aside):
        raise ActionFailed(
            "aside-is-taken", f"{aside} is there and would be lost", hint="`kboot doctor --fix` takes the next name"
        )
    rename(path, aside)


def _write(fix: WriteValue) -> bool:
    before = selected(read_setting(fix.path))
    if before == fix.value:
        return False
    if before != fix.was:
        raise ActionFailed(
            "setting-changed-meanwhile",
            f"{fix.path} reads {before}, it was {fix.was} when doctor looked",
            hint="run `kboot doctor` again",
        )
    write_setting(fix.path, fix.value)
    after = selected(read_setting(fix.path))
    if after != fix.value:
        write_setting(fix.path, before)
        raise ActionFailed(
            "setting-did-not-stay",
            f"{fix.path} reads {after} after {fix.value} was written",
            where=(f"put back to {before}",),
            hint="something else sets it (tuned, a governor daemon), or this kernel does not know the value",
        )
    return True


def _write_script(path: Path, fixes: Iterable[Fix], earlier: Sequence[str]) -> None:
    undoing = [f"{_undoing(fix)}{_OR_FAIL}" for fix in reversed(tuple(fixes))]
    kept = [line for line in earlier if line not in undoing]
    atomic_write(path, "\n".join([*_HEAD, *undoing, *kept, _END, ""]).encode(), 0o700)


def _earlier(path: Path) -> tuple[str, ...]:
    """Return what undoes the changes of earlier runs, as a script of this kernel's boot says it."""
    try:
        lines = read_small(path, _LIMIT_BYTES).decode(errors="surrogateescape").split("\n")
    except OSError:
        return ()
    return tuple(line for line in lines if line.endswith(_OR_FAIL))


def _undoing(fix: Fix) -> str:
    match fix:
        case WriteValue():
            return f"echo {quote(fix.was)} > {quote(fix.path)}"
        case PutAside():
            # A run that was killed may not have moved it; mv -n ends with 0 too where another has taken the name.
            aside, path = quote(fix.aside), quote(fix.path)
            return f"{{ [ ! -e {aside} ] || mv -n -- {aside} {path}; }} && [ -e {path} ] && [ ! -e {aside} ]"
        case _:
            assert_never(fix)
