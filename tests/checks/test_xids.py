"""What is known of an Xid's number?"""

from __future__ import annotations

import pytest

from kboot.checks.xids import UNKNOWN, xid


@pytest.mark.parametrize(
    ("code", "means", "action"),
    [
        (78, "vGPU", "update"),
        (93, "InfoROM", "nvflash"),
        (142, "video encoder", "vendor"),
        (159, "C2C", "look the number up"),
        (166, "NVLink", "look the number up"),
        (170, "NVLink", "look the number up"),
    ],
)
def test_rare_numbers_of_the_catalogue_are_told_in_words(code: int, means: str, action: str) -> None:
    """The GPU works: it is to be looked after. Where the catalogue names no action, kboot makes none up."""
    assert "warn" == xid(code).severity
    assert means in xid(code).means
    assert action in xid(code).action


def test_a_number_that_no_catalogue_has_is_looked_after() -> None:
    """It is neither a program's fault nor a GPU that must not serve."""
    assert xid(9999) is UNKNOWN
    assert "warn" == UNKNOWN.severity
