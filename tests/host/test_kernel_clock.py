"""Whether the kernel's clock is kept right."""

from __future__ import annotations

import pytest

from kboot.host.kernel_clock import kernel_clock


def test_the_kernel_answers_and_nothing_is_set() -> None:
    """Any user may ask; the error is a number of seconds that the kernel bounds by 16 where nobody sets the clock."""
    try:
        clock = kernel_clock()
    except OSError as exc:
        pytest.skip(f"this kernel does not let a process ask: {exc}")

    assert isinstance(clock.synchronised, bool)
    assert 0 <= clock.error_s <= 16.1
