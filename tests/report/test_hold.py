"""How long may the weights wait for an engine that still imports?"""

from __future__ import annotations

from dataclasses import replace

import pytest
import report_samples

from kboot.report.hold import ASSUMED_BYTES_S, weights_hold_s
from kboot.report.types import BootReport, Outcome, Span

GB = 10**9


def boot(asked_s: float, *read: Outcome, profile: str = "k3", ready: bool = True) -> BootReport:
    """A boot whose engine asked for the weights so long after its start."""
    spans = (Span("serve", "kboot", 100.0, 200.0), Span("load model", "engine", 100.0 + asked_s, 150.0))
    ready_unix_s = 200.0 if ready else None
    return replace(report_samples.demo_boot(), profile=profile, ready_unix_s=ready_unix_s, spans=spans, outcomes=read)


def warm(size_bytes: int, seconds: float, start_s: float = 100.0, source: str = "this disk") -> Outcome:
    """What was read beside the start; the engine's own files name no source."""
    return Outcome("warm", "warm x", "", "done", start_s, seconds, size_bytes, source)


def test_they_wait_as_long_as_they_are_there_in_time_nevertheless() -> None:
    """19.3 GB at 2 GB/s are 9.65 s, a quarter more for safety; asked for after 40 s, they may wait for 28."""
    earlier = [boot(40.0, warm(10 * GB, 8.0), warm(10 * GB, 6.0, start_s=104.0))]

    assert 40.0 - 1.25 * 9.65 == pytest.approx(weights_hold_s(earlier, "k3", 193 * GB // 10))


def test_what_takes_longer_than_the_engines_start_does_not_wait() -> None:
    """A checkpoint of 1,561 GB from 10 GB/s."""
    assert 0.0 == weights_hold_s([boot(60.0, warm(100 * GB, 10.0))], "k3", 1561 * GB)


def test_nothing_waits_where_nobody_knows_when_the_engine_will_ask() -> None:
    """The first boot, another profile's, one that did not get ready."""
    assert 0.0 == weights_hold_s([], "k3", GB)
    assert 0.0 == weights_hold_s([boot(40.0, profile="x"), boot(40.0, ready=False)], "k3", GB)
    assert 0.0 == weights_hold_s([report_samples.demo_boot()], report_samples.demo_boot().profile, GB)


def test_a_disk_that_was_not_measured_is_taken_for_a_cloud_volume() -> None:
    """What less than 1 GiB took, or nothing at all, tells nothing of a disk; another profile's boot does."""
    small, in_no_time = boot(40.0, warm(GB // 2, 0.001)), boot(40.0, warm(20 * GB, 0.0))

    assert 40.0 - 1.25 * 10 == pytest.approx(weights_hold_s([small, in_no_time], "k3", 10 * ASSUMED_BYTES_S))
    known = [small, boot(1.0, warm(100 * GB, 10.0), profile="x")]
    assert 40.0 - 1.25 == pytest.approx(weights_hold_s(known, "k3", 10 * GB))


def test_the_engines_own_files_tell_nothing_of_the_disk() -> None:
    """4.1 GB in 8 s, in 15,000 files: a first boot reads nothing else beside the start."""
    first = boot(40.0, warm(41 * GB // 10, 8.0, source=""))
    later = boot(40.0, warm(4 * GB, 8.0, source=""), warm(20 * GB, 10.0, start_s=108.0))

    assert 40.0 - 1.25 * 10 == pytest.approx(weights_hold_s([first], "k3", 10 * ASSUMED_BYTES_S))
    assert 40.0 - 1.25 * 5 == pytest.approx(weights_hold_s([later], "k3", 10 * GB))


def test_the_newest_boot_tells() -> None:
    """The reports come newest first."""
    assert 20.0 - 1.25 == pytest.approx(weights_hold_s([boot(20.0), boot(90.0)], "k3", ASSUMED_BYTES_S))
