"""The kernel's CPU lists, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.cpulist import format_cpu_list, parse_cpu_list


@given(st.sets(st.integers(0, 9000)))
def test_what_is_written_is_read_back(numbers: set[int]) -> None:
    """Any set of CPUs survives being written and read."""
    assert tuple(sorted(numbers)) == parse_cpu_list(format_cpu_list(numbers))


def test_holes_stay_holes() -> None:
    """B085: the list names its members; a count is not the highest number plus one."""
    cpus = parse_cpu_list("0-9,12-63\n")

    assert (62, 63, False) == (len(cpus), max(cpus), 10 in cpus or 11 in cpus)


def test_a_list_is_written_as_the_kernel_writes_it() -> None:
    """Single numbers stand alone, neighbours become a range, order does not matter."""
    assert "0,2-3,5" == format_cpu_list([5, 3, 2, 0, 3])


@pytest.mark.parametrize("text", ["", "\n", " "])
def test_an_empty_list_has_no_cpus(text: str) -> None:
    """A node without CPUs has an empty cpulist."""
    assert () == parse_cpu_list(text)


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0x3", "1;2", "1-2-3"])
def test_anything_else_is_refused_by_name(text: str) -> None:
    """A malformed list is an error that shows the part that is wrong."""
    with pytest.raises(ValueError, match=f"'{text}'"):
        parse_cpu_list(text)


@pytest.mark.parametrize("text", ["0-99999999999", "99999999999", "0-65536", "0-" + "9" * 5000])
def test_a_list_that_no_kernel_writes_is_refused_before_it_is_counted_out(text: str) -> None:
    """A hostile recording could otherwise ask for terabytes of numbers."""
    with pytest.raises(ValueError, match="goes beyond 65535"):
        parse_cpu_list(text)


@pytest.mark.timeout(20)
def test_a_list_that_names_everything_thousands_of_times_is_refused() -> None:
    """A megabyte of it would be counted for minutes."""
    with pytest.raises(ValueError, match="more numbers than there are"):
        parse_cpu_list("0-65535," * 130_000)
