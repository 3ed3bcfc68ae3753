"""What may doctor change by itself, and how is it undone? Values only; `kboot doctor --fix` carries them out."""

from __future__ import annotations

from typing import assert_never

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class WriteValue:
    """Write a kernel setting, which holds until the next boot. was: the value that undoes it."""

    path: str
    value: str
    was: str


@dataclass(frozen=True, slots=True)
class PutAside:
    """Give a file another name beside it, so that nobody finds it and nothing is lost. what: it is, in words.

    number: of those that were put aside under this name.
    """

    path: str
    what: str
    number: int = 1

    @property
    def aside(self) -> str:
        """Its other name."""
        return f"{self.path}{_ASIDE}{'' if self.number == 1 else f'.{self.number}'}"


Fix = WriteValue | PutAside
"""Safe whatever the reason for the present state was, and reversible by one command."""

_ASIDE = ".kboot-aside"


def does(fix: Fix) -> str:
    """Return what a fix does, as the command that would do the same."""
    match fix:
        case WriteValue():
            return f"echo {fix.value} > {fix.path}"
        case PutAside():
            return f"mv {fix.path} {fix.aside}"
        case _:
            assert_never(fix)


def undoes(fix: Fix) -> str:
    """Return the command that brings back what was before."""
    match fix:
        case WriteValue():
            return f"echo {fix.was} > {fix.path}"
        case PutAside():
            return f"mv {fix.aside} {fix.path}"
        case _:
            assert_never(fix)
