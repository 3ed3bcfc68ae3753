"""How is a quantity written for a person?"""

from __future__ import annotations

import pytest

from kboot.quantities import (
    show_bytes,
    show_file_in_memory,
    show_gb,
    show_gb_of,
    show_memory,
    show_outlook,
    show_rate,
    show_roughly,
    show_seconds,
    show_time,
)


@pytest.mark.parametrize(
    ("expected", "size"),
    [
        ("0 B", 0),
        ("999 B", 999),
        ("1.00 kB", 1000),
        ("1.00 MB", 999_999),
        ("14.1 GB", 14_063_000_000),
        ("1.56 TB", 1_560_993_000_000),
        ("999 GB", 999_400_000_000),
        ("1.00 TB", 999_600_000_000),
        ("0 B", -5),
    ],
)
def test_bytes_have_three_digits(expected: str, size: int) -> None:
    """Bytes are written in powers of ten, three digits at most, and never as 1000 of a unit."""
    assert expected == show_bytes(size)


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("0.04 s", 0.04),
        ("1.0 s", 0.999),
        ("4.2 s", 4.2),
        ("60 s", 59.97),
        ("99 s", 99.4),
        ("1 min 40 s", 99.6),
        ("33 min 22 s", 2002.2),
        ("3 h 07 min", 11220),
        ("0.00 s", -1),
    ],
)
def test_seconds_change_unit_with_length(expected: str, seconds: float) -> None:
    """A length of time is written in the units a person would use for it."""
    assert expected == show_seconds(seconds)


def test_no_rate_without_bytes_or_time() -> None:
    """Where nothing moved or no time passed there is no rate."""
    assert "1.65 GB/s" == show_rate(1_650_000_000, 1.0)
    assert "" == show_rate(0, 1.0)
    assert "" == show_rate(5, 0.0)


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("0 s", 0),
        ("under 1 s", 0.2),
        ("1 s", 0.6),
        ("40 s", 40),
        ("12 min", 720),
        ("30 h", 108_000),
        ("15 d", 1_296_000),
    ],
)
def test_a_rough_time_has_one_unit(expected: str, seconds: float) -> None:
    """Where a person asks for days or minutes, the rest says little."""
    assert expected == show_roughly(seconds)


def test_times_are_utc() -> None:
    """Times are written in UTC and say so."""
    assert "2026-11-30 06:26:40Z" == show_time(1_796_020_000.0)


@pytest.mark.parametrize(
    ("expected", "size"),
    [("0 B", 0), ("64 MiB", 64 << 20), ("139 GiB", 149_000_000_000), ("2 TiB", 2 << 40), ("1.50 TiB", 3 << 39)],
)
def test_memory_is_counted_as_its_tools_count_it(expected: str, size: int) -> None:
    """In powers of 1024; it comes in whole parts, and those need no decimals."""
    assert expected == show_memory(size)


def test_files_beside_memory_are_in_both() -> None:
    """Who compares a checkpoint with RAM needs one unit."""
    assert "768 GB (715 GiB)" == show_file_in_memory(768_000_000_000)


def test_sums_stay_in_one_unit() -> None:
    """What `kboot fit` adds up can be added up again."""
    assert ("1,561 GB", "4.3 GB", "4 GB", "0.6 GB", "28.5 MB", "0 GB") == tuple(
        map(show_gb, (1_560_993_000_000, 4_310_000_000, 4_000_000_000, 645_000_000, 28_510_000, 0))
    )


def test_an_outlook_of_less_than_a_second_is_not_counted_out() -> None:
    """Nobody reads "0.00 s" as a time to wait."""
    basis = "median of 2 boots"

    assert "serving in under 1 s (median of 2 boots)" == show_outlook(0.004, "serving", basis)
    assert "prepared in about 1.2 s (median of 2 boots)" == show_outlook(1.2, "prepared", basis)


@pytest.mark.parametrize(
    ("expected", "part", "whole"),
    [
        ("181 of 1,446 GB", 181_000_000_000, 1_446_000_000_000),
        ("26.7 of 112 MB", 26_700_000, 112_000_000),
        ("0.1 of 1.1 GB", 112_000_000, 1_100_000_000),
        ("under 0.1 of 24 GB", 26_700_000, 24_000_000_000),
        ("0 of 24 GB", 0, 24_000_000_000),
        ("10 of 20.5 kB", 10_000, 20_500),
        ("0 of 0 B", 0, 0),
    ],
)
def test_a_part_is_in_the_unit_of_its_whole(expected: str, part: int, whole: int) -> None:
    """Two numbers that are compared have one unit, that of the larger."""
    assert expected == show_gb_of(part, whole)
