"""What has a service written since its last start?"""

from __future__ import annotations

from kboot.apply.service_log import parse, service_log
from kboot.host.clock import run_unix_s


def test_lines_of_the_journal_are_time_and_text() -> None:
    """Whoever wrote them, and whatever stands in them; what journalctl says itself is left out."""
    text = (
        "-- Boot 7f3a --\n"
        "[  548.992820] kboot[71]: kboot: o/m@c, becoming vllm\n"
        "[  549.992820] VLLM::EngineCore[99]: (EngineCore_DP0 pid=99) INFO 11-30 06:29:15 [core.py:140] a [b]: c\n"
        "[12345.992820] sh[7]: \n"
    )

    assert (
        (run_unix_s(548.99282), "kboot: o/m@c, becoming vllm"),
        (run_unix_s(549.99282), "(EngineCore_DP0 pid=99) INFO 11-30 06:29:15 [core.py:140] a [b]: c"),
        (run_unix_s(12345.99282), ""),
    ) == parse(text)


def test_a_unit_that_never_ran_has_written_nothing() -> None:
    """With or without systemd on this machine."""
    assert () == service_log("kboot-test-that-does-not-exist.service")
