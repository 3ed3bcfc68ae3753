"""The report of the first boot after power-on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.power_on import with_power_on
from kboot.events import Event
from kboot.host.paths import Paths
from kboot.report.saved import read_boot, save_report
from kboot.report.types import BootReport, Span

FIRST = BootReport(
    *("boot-1", "p", "c", "done", 1030.0, 1040.0, 1000.0, None, "full", "", "k"),
    spans=(Span("fetch", "kboot", 1031.0, 1039.0),),
    outcomes=(),
    warnings=(),
    error=None,
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node's folders."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


def lanes(report: BootReport | None) -> list[str]:
    return [span.lane for span in report.spans] if report else []


def test_the_first_boot_of_a_kernel_is_kept_with_the_machines_stages(paths: Paths) -> None:
    """In place of the report without them, not beside it."""
    seen: list[Event] = []
    save_report(FIRST, paths)
    whole = with_power_on(FIRST, paths, seen.append)

    assert "machine" == lanes(whole)[0]
    assert whole == read_boot(paths)
    assert (1, []) == (len(list(paths.history.glob("*.json"))), seen)


def test_a_later_boot_of_the_same_kernel_has_none(paths: Paths) -> None:
    """A reload an hour later did not wait for the firmware."""
    save_report(FIRST, paths)
    later = replace(FIRST, started_unix_s=1050.0, finished_unix_s=1051.0)
    save_report(later, paths)

    assert later == with_power_on(later, paths, lambda _: None)
    assert "machine" not in lanes(read_boot(paths))


def test_an_earlier_kernel_does_not_count(paths: Paths) -> None:
    """The last boot before the machine was started again is another boot."""
    save_report(replace(FIRST, boot_id="boot-0", started_unix_s=500.0, finished_unix_s=510.0), paths)
    save_report(FIRST, paths)

    assert "machine" in lanes(with_power_on(FIRST, paths, lambda _: None))
