"""What has a service written since its last start?"""

from __future__ import annotations

from kboot.apply.service_log import parse, service_log


def test_lines_of_the_journal_are_time_and_text() -> None:
    """Whoever wrote them, and whatever stands in them; what journalctl says itself is left out."""
    text = (
        "-- Boot 7f3a --\n"
        "1796020000.123456 kboot[71]: kboot: o/m@c, becoming vllm\n"
        "1796020001.000000 VLLM::EngineCore[99]: (EngineCore_DP0 pid=99) INFO 11-30 06:29:15 [core.py:140] a [b]: c\n"
        "1796020002.500000 sh[7]: \n"
    )

    assert (
        (1796020000.123456, "kboot: o/m@c, becoming vllm"),
        (1796020001.0, "(EngineCore_DP0 pid=99) INFO 11-30 06:29:15 [core.py:140] a [b]: c"),
        (1796020002.5, ""),
    ) == parse(text)


def test_a_unit_that_never_ran_has_written_nothing() -> None:
    """With or without systemd on this machine."""
    assert () == service_log("kboot-test-that-does-not-exist.service")
