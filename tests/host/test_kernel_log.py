"""The kernel's messages, in the form in which a console shows them."""

from __future__ import annotations

import pytest

from kboot.host.kernel_log import message, read_kernel_log


def test_a_record_becomes_a_line_with_its_time() -> None:
    """The header gives microseconds since boot; the tags in later lines are left out."""
    record = "4,1204,99100000,-;NVRM: Xid (PCI:0000:44:00): 79\n SUBSYSTEM=pci\n DEVICE=+pci:0000:44:00.0\n"

    assert "[   99.100000] NVRM: Xid (PCI:0000:44:00): 79" == message(record)
    assert "no header" == message("no header")


def test_a_message_of_several_lines_is_one_line() -> None:
    """The kernel escapes what stands between them."""
    record = r"3,71,9000000,-;NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)\x0aNVRM: installed in this system"

    assert (
        "[    9.000000] NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5) NVRM: installed in this system"
        == message(record)
    )


def test_reading_this_machines_log_ends() -> None:
    """It never waits for the next message; where the log may not be read, an OSError says so."""
    try:
        text = read_kernel_log()
    except OSError as exc:
        pytest.skip(f"this machine does not show its kernel log: {exc}")
    assert isinstance(text, str)
