"""What may doctor change by itself, and how is it undone? Values only; `kboot doctor --fix` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class WriteValue:
    """Write a kernel setting, which holds until the next boot. was: the value that undoes it."""

    path: str
    value: str
    was: str


@dataclass(frozen=True, slots=True)
class PutAside:
    """Give a file another name beside it, so that nobody finds it and nothing is lost. what: it is, in words."""

    path: str
    what: str


Fix = WriteValue | PutAside
"""Safe whatever the reason for the present state was, and reversible by one command."""

ASIDE = ".kboot-aside"


def does(fix: Fix) -> str:
    """Return what a fix does, as the command that would do the same."""
    match fix:
        case WriteValue():
            return f"echo {fix.value} > {fix.path}"
        case PutAside():
            return f"mv {fix.path} {fix.path}{ASIDE}"
        case _:
            assert_never(fix)


def undoes(fix: Fix) -> str:
    """Return the command that brings back what was before."""
    match fix:
        case WriteValue():
            return f"echo {fix.was} > {fix.path}"
        case PutAside():
            return f"mv {fix.path}{ASIDE} {fix.path}"
        case _:
            assert_never(fix)
