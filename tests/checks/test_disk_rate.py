"""What the measured rates say of this boot."""

from __future__ import annotations

from dataclasses import replace

from good_node import CHECKPOINT, PROFILE, node

from kboot.checks import disk_rate
from kboot.facts.doctor_types import MeasuredFacts
from kboot.facts.measured_types import ReadSample
from kboot.profile.types import ServeAsk

DISK = ReadSample(17 * 10**8, 1.0, 8)


def test_the_load_time_is_predicted_from_the_rate() -> None:
    """768 GB at 1.70 GB/s are 7.5 minutes where two are the target."""
    finding = disk_rate.run(node(measured={"disk": DISK}), PROFILE, CHECKPOINT)

    assert "warn" == finding.status
    assert "the disks read at 1.70 GB/s (8 streams): 768 GB take 8 min, the target is 2 min" == finding.seen
    assert "6.40 GB/s" == finding.wanted


def test_a_load_that_outlasts_the_engines_deadline_fails() -> None:
    """The engine would be given up while it still loads."""
    impatient = replace(PROFILE, serve=ServeAsk(ready_timeout_s=300))

    assert "fail" == disk_rate.run(node(measured={"disk": DISK}), impatient, CHECKPOINT).status


def test_mapped_loading_at_28_mib_a_second_is_recognised() -> None:
    """The disk is fast, but every page fault waits by itself: 768 GB would take hours."""
    slow = MeasuredFacts(ReadSample(30 * 10**9, 3.0, 8), ReadSample(28 << 20, 1.0, 1))
    finding = disk_rate.run(node(measured=slow), PROFILE, CHECKPOINT)

    assert "warn" == finding.status
    assert "mapped pages come at 29.4 MB/s, large reads at 10.0 GB/s: mapped loading takes 7 h" == finding.seen


def test_a_rate_that_was_not_measured_is_unknown() -> None:
    """A disk that did not answer in time is not a fast one."""
    assert "unknown" == disk_rate.run(node(measured=MeasuredFacts()), PROFILE, CHECKPOINT).status
    assert "skip" == disk_rate.run(node(measured=MeasuredFacts()), PROFILE, None).status


def test_a_rate_beyond_what_a_clock_can_tell_is_unknown() -> None:
    """Less than a nanosecond for a read is no measurement, and its quotient may be no number."""
    instant = MeasuredFacts(ReadSample(1000, 5e-324, 8))

    assert "unknown" == disk_rate.run(node(measured=instant), PROFILE, CHECKPOINT).status
