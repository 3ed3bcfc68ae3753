"""What smartctl and nvme-cli print of a disk's health."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kboot.facts.reader import Reader
from kboot.facts.smart import collect_smart, of_nvme, of_smartctl
from kboot.facts.types import Disk
from kboot.facts.upkeep_types import DiskHealth
from kboot.host.recorded import RecordedHost

NVME = Disk("nvme0n1", "nvme", "SSD", 1 << 40, False, 128 << 10, 0)
SATA = Disk("sda", "disk", "HDD", 1 << 40, True, 128 << 10, None)
VIRTUAL = Disk("vda", "disk", "", 1 << 40, True, 128 << 10, None)
# The form of smartctl 7.4 on an NVMe disk.
SMARTCTL_NVME: dict[str, Any] = {
    "smartctl": {"version": [7, 4], "exit_status": 0},
    "device": {"name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe"},
    "smart_status": {"passed": True, "nvme": {"value": 0}},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "temperature": 38,
        "available_spare": 100,
        "available_spare_threshold": 10,
        "percentage_used": 3,
        "media_errors": 0,
        "num_err_log_entries": 12,
    },
}
# The form of nvme-cli 2.8.
NVME_CLI: dict[str, Any] = {
    "critical_warning": 4,
    "temperature": 311,
    "avail_spare": 5,
    "spare_thresh": 10,
    "percent_used": 104,
    "media_errors": "17",
}


def asked(tmp_path: Path, programs: dict[str, Any], *disks: Disk) -> tuple[str, tuple[DiskHealth, ...]]:
    """Return what is collected on a machine whose programs print this."""
    printed = {line: {"status": 0, "text": json.dumps(document)} for line, document in programs.items()}
    (tmp_path / "programs.json").write_text(json.dumps(printed))
    return collect_smart(Reader(RecordedHost(tmp_path)), disks, 1.0)


def test_smartctl_tells_of_an_nvme_disk(tmp_path: Path) -> None:
    """Its verdict, media errors and wear; one call for each disk, and none for a virtual one."""
    line = "smartctl --json --health --attributes --nocheck=standby /dev/nvme0n1"

    assert (
        "smartctl",
        (DiskHealth("nvme0n1", passed=True, media_errors=0, used_percent=3, spare_percent=100),),
    ) == asked(tmp_path, {line: SMARTCTL_NVME}, NVME, VIRTUAL)


def test_nvme_cli_is_asked_where_there_is_no_smartctl(tmp_path: Path) -> None:
    """Numbers may be texts; the bits of the critical warning become words."""
    line = "nvme smart-log --output-format=json /dev/nvme0n1"

    assert (
        "nvme",
        (
            DiskHealth(
                "nvme0n1",
                passed=False,
                warnings=("unreliable: too many media errors",),
                media_errors=17,
                used_percent=104,
                spare_percent=5,
            ),
        ),
    ) == asked(tmp_path, {line: NVME_CLI}, NVME, SATA)


def test_sectors_of_a_sata_disk_that_cannot_be_read() -> None:
    """Attribute 197 counts them."""
    table = [{"id": 9, "raw": {"value": 900}}, {"id": 197, "name": "Current_Pending_Sector", "raw": {"value": 8}}]
    found = of_smartctl("sda", {"smart_status": {"passed": True}, "ata_smart_attributes": {"table": table}})

    assert (True, 8, None) == (found.passed, found.pending_sectors, found.media_errors)


def test_without_a_program_nobody_is_asked(tmp_path: Path) -> None:
    """And so on a machine that has virtual disks only."""
    assert ("", ()) == asked(tmp_path, {}, NVME)
    assert ("", ()) == asked(tmp_path, {}, VIRTUAL)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"smartctl": {"messages": [{"string": "Smartctl open device: /dev/sda failed: Permission denied"}]}},
        {"smart_status": None, "nvme_smart_health_information_log": [1]},
        {"smart_status": {"passed": "yes"}},
    ],
)
def test_what_tells_nothing_is_refused_and_never_sound(document: dict[str, Any]) -> None:
    """The reason is the program's own where it gives one."""
    found = of_smartctl("sda", document)

    assert found.passed is None
    assert found.refused


@pytest.mark.parametrize(
    "document", [{"error": "Permission denied"}, {"critical_warning": {}}, {"critical_warning": []}]
)
def test_nvme_cli_that_tells_nothing_is_refused(document: dict[str, Any]) -> None:
    """As above."""
    assert of_nvme("nvme0n1", document).refused


def test_text_that_is_no_json_is_refused(tmp_path: Path) -> None:
    """An old smartctl knows no --json."""
    line = "smartctl --json --health --attributes --nocheck=standby /dev/sda"
    (tmp_path / "programs.json").write_text(json.dumps({line: {"status": 1, "text": "UNRECOGNIZED OPTION: json"}}))
    _, disks = collect_smart(Reader(RecordedHost(tmp_path)), (SATA,), 1.0)

    assert (DiskHealth("sda", refused="status 1, and what it printed is not JSON"),) == disks
