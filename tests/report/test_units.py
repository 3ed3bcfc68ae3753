"""How are a moment and a long text written for a person?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kboot.report.units import shorten, show_time


def test_times_are_utc() -> None:
    """Times are written in UTC and say so."""
    assert "2026-11-30 06:26:40Z" == show_time(1_796_020_000.0)


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_shortened_text_never_exceeds_its_width(text: str, width: int) -> None:
    """What is shortened fits, and a text that fits is left alone."""
    short = shorten(text, width)

    assert len(short) <= width
    assert short == text or len(text) > width
