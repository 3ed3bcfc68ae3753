"""What docs/doctor.md says of doctor is so."""

from __future__ import annotations

import re
from pathlib import Path

from kboot.checks.every import CHECKS
from kboot.checks.types import MODES, STATUSES

PAGE = (Path(__file__).parents[2] / "docs/doctor.md").read_text()


def first_cells() -> str:
    """Return the first column of every table."""
    return "\n".join(re.findall(r"^\| ([^|]+) \|", PAGE, re.MULTILINE))


def test_every_group_of_checks_is_named_and_no_other() -> None:
    """A new group needs its word there."""
    assert sorted({check.id.split(".")[0] for check in CHECKS}) == sorted(re.findall(r"`(\w+)\.\*`", first_cells()))


def test_every_mode_and_status_is_named() -> None:
    """As the code has them."""
    cells = first_cells()

    assert [] == [mode for mode in MODES if not re.search(rf"^{mode}$", cells, re.MULTILINE)]
    assert [] == [status for status in STATUSES if f"`{status}`" not in cells]
