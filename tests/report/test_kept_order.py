"""In which order are records read whose names begin with the moment of their run?"""

from __future__ import annotations

from kboot.report.kept_order import moment_name, newest_first

NAMES = ["20260102T000000.000000-x.json", "20990101T000000.000000-x.json", "20260103T000000.000000-x.json"]


def test_a_boot_with_a_clock_far_ahead_is_not_the_newest_for_ever() -> None:
    """Once the clock is right, what was to come then is behind everything else."""
    right, wrong = moment_name(1_767_484_800.0), moment_name(4_102_444_800.0)

    assert ["20260104T000000.000000", "21000101T000000.000000"] == [right, wrong]
    assert [NAMES[n] for n in (2, 0, 1)] == newest_first(NAMES, right)
    assert [NAMES[n] for n in (1, 2, 0)] == newest_first(NAMES, wrong)


def test_with_a_clock_far_behind_the_order_is_as_it_was() -> None:
    """All that is there is to come then; what such a boot keeps itself comes first."""
    own = "19700101T000100.000000-x.json"

    assert [own, *(NAMES[n] for n in (1, 2, 0))] == newest_first([*NAMES, own], moment_name(120.0))
