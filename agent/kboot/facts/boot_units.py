"""Which of kboot's units are in a tree, and does systemd start them at boot there?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.host.image import ImageTree

ENABLED = ("kboot.service", "kboot-engine.service", "kboot-scrub.timer")
"""Units that an installation starts at boot."""

_FOLDERS = ("etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
_ADMIN = _FOLDERS[0]
_WANTED_BY = re.compile(r"^\s*WantedBy\s*=\s*(.+?)\s*$", re.MULTILINE)
_UNIT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One unit. folder: where its file is; "" where there is none. links: those that enable it, and whether they exist.

    masked: an operator has forbidden it.
    """

    name: str
    folder: str
    links: tuple[tuple[str, bool], ...] = ()
    masked: bool = False


def read_units(tree: ImageTree, names: Sequence[str] = ENABLED) -> tuple[UnitFile, ...]:
    """Return the units, in the order of `names`."""
    return tuple(_unit(tree, name) for name in names)


def _unit(tree: ImageTree, name: str) -> UnitFile:
    with suppress(OSError):
        if tree.link_target(f"{_ADMIN}/{name}") == "/dev/null":
            return UnitFile(name, _ADMIN, masked=True)
    for folder in _FOLDERS:
        with suppress(OSError):
            text = tree.read(f"{folder}/{name}", _UNIT_BYTES).decode(errors="replace")
            targets = [target for found in _WANTED_BY.findall(text) for target in found.split()]
            links = [f"{_ADMIN}/{target}.wants/{name}" for target in targets]
            return UnitFile(name, folder, tuple((link, _is_there(tree, link)) for link in links))
    return UnitFile(name, "")


def _is_there(tree: ImageTree, link: str) -> bool:
    with suppress(OSError):
        return tree.look(link) is not None
    return False
