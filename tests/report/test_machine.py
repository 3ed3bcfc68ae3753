"""Stages between power-on and kboot, from what systemd prints."""

from __future__ import annotations

from kboot.report.machine import PROPERTIES, machine_spans

BARE_METAL = dict(zip(PROPERTIES, ("95000000", "5000000", "4000000", "11000000"), strict=True))


def test_a_server_has_five_stages_on_one_clock() -> None:
    """Firmware and boot loader lie before the kernel's start; each stage ends where the next begins."""
    spans = machine_spans(BARE_METAL, 1000.0, 1020.0)

    assert [
        ("firmware", 905.0, 995.0),
        ("boot loader", 995.0, 1000.0),
        ("kernel", 1000.0, 1004.0),
        ("initrd", 1004.0, 1011.0),
        ("userspace before kboot", 1011.0, 1020.0),
    ] == [(s.name, s.start_unix_s, s.end_unix_s) for s in spans]
    assert {"machine"} == {s.lane for s in spans}


def test_a_virtual_machine_has_what_its_systemd_knows() -> None:
    """0 means that there was no such stage."""
    values = {**BARE_METAL, "FirmwareTimestampMonotonic": "0", "LoaderTimestampMonotonic": "0"}
    spans = machine_spans({**values, "InitRDTimestampMonotonic": "0"}, 1000.0, 1020.0)

    assert ["kernel", "userspace before kboot"] == [s.name for s in spans]


def test_without_systemd_all_of_it_is_the_kernel() -> None:
    """Only the kernel's start is known."""
    assert [("kernel", 20.0)] == [(s.name, s.seconds) for s in machine_spans({}, 1000.0, 1020.0)]


def test_a_machine_that_has_run_for_hours_was_not_on_its_way_to_kboot() -> None:
    """A first start of kboot long after power-on has no stages before it; nor has a clock that was set back."""
    assert () == machine_spans(BARE_METAL, 1000.0, 1000.0 + 7200)
    assert () == machine_spans(BARE_METAL, 1000.0, 990.0)
