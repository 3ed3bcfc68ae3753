"""What one run is asked beyond its profile."""

from __future__ import annotations

from kboot.options import BootOptions

FETCH = BootOptions(only=frozenset({"fetch", "publish"}))


def test_a_run_of_nothing_but_bytes_is_no_boot() -> None:
    """It needs no layout, engine or GPU; the hand-off does, and so does a boot that leaves bytes out."""
    with_handoff = BootOptions(only=frozenset({"fetch", "handoff"}))
    without_fetch = BootOptions(skip=frozenset({"fetch"}))

    assert [True, False, False, False] == [o.bytes_only for o in (FETCH, with_handoff, without_fetch, BootOptions())]
    assert ("bytes", "boot") == (FETCH.what, BootOptions().what)


def test_a_phase_is_taken_unless_it_is_left_out() -> None:
    """By `skip`, or by not being among `only`; `skip` counts last."""
    both = BootOptions(only=frozenset({"fetch", "warm"}), skip=frozenset({"warm"}))

    assert BootOptions().takes("warm")
    assert [True, False, False] == [both.takes("fetch"), both.takes("warm"), both.takes("verify")]
