"""`kboot timeline`: where did the time of a boot go?"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from cli_run import Kboot
from report_samples import T0, demo_boot, failed_boot, kimi_boot

from kboot.host.paths import Paths
from kboot.report.saved import save_report


@pytest.fixture
def booted(kboot: Kboot) -> Kboot:
    """A node with three boots: two good ones, then one whose autotune took a quarter of an hour."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    for boot in (kimi_boot(at=T0 - 2e5), kimi_boot(at=T0 - 1e5), kimi_boot(tune_s=912.0)):
        save_report(boot, paths)
    return kboot


def test_the_last_boot_is_shown_and_compared(booted: Kboot) -> None:
    """Without options: the newest boot as text, against the earlier ones."""
    ran = booted("timeline", "--usd-per-hour", "68.08")

    assert 0 == ran.status
    assert "boot of kimi-k3.1-pro: ready to serve in 33 min 22 s" in ran.out
    assert "slower by 15 min 00 s in autotune" in ran.out
    assert "the wait cost $37.86 at $68.08 an hour" in ran.out


def test_the_wait_is_priced_by_the_class_of_the_gpus(kboot: Kboot) -> None:
    """A boot of eight B300 needs no option: the class's price for eight, with its terms and date."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    save_report(replace(kimi_boot(), gpu_class="B300", gpus=8), paths)

    assert "at $68.08 an hour (8x B300, spot of 2026-11-11)" in " ".join(kboot("timeline").out.split())
    assert "8x B300, spot of 2026-11-11" in kboot("timeline", "--format", "html").out


def test_each_format_is_what_it_says(booted: Kboot) -> None:
    """JSON, SVG, trace and HTML each go to stdout whole; --json is the JSON format."""
    assert "timeline" == booted("timeline", "--format", "json").doc["kind"]
    assert "timeline" == booted("timeline", "--json").doc["kind"]
    assert booted("timeline", "--format", "trace").doc["traceEvents"]
    assert ET.fromstring(booted("timeline", "--format", "svg").out).tag.endswith("svg")
    assert booted("timeline", "--format", "html").out.startswith("<!doctype html>")


def test_a_file_gets_the_rendering_and_stdout_nothing(booted: Kboot) -> None:
    """-o writes the file whole, or says why it cannot."""
    path = booted.folder / "boot.json"
    ran = booted("timeline", "--format", "json", "-o", str(path))

    assert (0, "") == (ran.status, ran.out)
    assert "timeline" == json.loads(path.read_text())["kind"]
    assert 13 == booted("timeline", "-o", "/nowhere/x").status


def test_older_boots_can_be_chosen_and_listed(booted: Kboot) -> None:
    """--boot counts from the newest; --list shows them all; one too many is a usage error."""
    assert T0 - 2e5 == booted("timeline", "--boot", "3", "--json").doc["start_unix_s"]
    assert booted("timeline", "--boot", "3", "--json").doc["comparison"] is None
    assert 3 == len(booted("timeline", "--list").out.splitlines())
    assert 3 == len(booted("timeline", "--list", "--json").doc["boots"])
    assert T0 - 2e5 == booted("timeline", "--boot", "2026-11-27", "--json").doc["start_unix_s"]
    for asked in ("4", "0", "x"):
        ran = booted("timeline", "--boot", asked)
        assert (2, True) == (ran.status, f"no boot on record fits '{asked}'" in ran.err)


def test_a_failed_boot_can_be_looked_at(kboot: Kboot) -> None:
    """A boot that failed is on record with its error."""
    save_report(failed_boot(), Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc"))

    assert "error: shard-hash-mismatch" in kboot("timeline").out


def test_no_boot_on_record_is_an_error_with_its_place(kboot: Kboot) -> None:
    """A node without history says where it looked and what to do."""
    ran = kboot("timeline")

    assert 11 == ran.status
    assert str(kboot.folder / "state/history") in ran.err


def test_a_fetch_is_listed_as_that_and_is_not_the_last_boot(kboot: Kboot) -> None:
    """`--list` names runs about the bytes alone; without --boot the newest boot is shown."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    save_report(demo_boot(), paths)
    save_report(replace(demo_boot(at=T0 + 100), what="bytes"), paths)
    listed = kboot("timeline", "--list").out.splitlines()

    assert [True, False] == ["bytes alone" in line for line in listed]
    assert T0 == kboot("timeline", "--json").doc["started_unix_s"]
    assert T0 + 100 == kboot("timeline", "--boot", "1", "--json").doc["started_unix_s"]
