"""The unit files, read as systemd reads them. Nothing is started."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
UNITS = tuple(sorted((REPOSITORY / "systemd").glob("*.service")))

# Units of other packages that ours are ordered after, with who ships them.
FOREIGN = {
    "nvidia-persistenced.service": "NVIDIA driver packages",
    "nvidia-fabricmanager.service": "NVIDIA fabric manager packages (NVSwitch machines)",
    "nvidia-mig-manager.service": "NVIDIA mig-parted",
}
NEVER = ("network-online.target", "network.target", "time-sync.target", "nvidia-smi.service")

needs_systemd_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")


def values(unit: Path, key: str) -> list[str]:
    """Return every word assigned to a key, in order."""
    return [
        word
        for line in unit.read_text().splitlines()
        if line.startswith(f"{key}=")
        for word in line.removeprefix(f"{key}=").split()
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with our units, the targets they hang on, and the programs they start."""
    folder = tmp_path / "usr/lib/systemd/system"
    folder.mkdir(parents=True)
    for path in (REPOSITORY / "systemd").iterdir():
        if path.suffix in (".service", ".timer"):
            shutil.copy(path, folder)
    for name in ("basic", "sysinit", "shutdown", "local-fs", "multi-user", "timers"):
        shutil.copy(f"/usr/lib/systemd/system/{name}.target", folder)
    for program in ("opt/kboot/env/bin/kboot", "bin/kill"):
        (tmp_path / program).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    return tmp_path


@needs_systemd_analyze
def test_systemd_understands_every_line(root: Path) -> None:
    """`systemd-analyze verify` finds nothing to say: unknown keys and types go to stderr with status 0."""
    names = [path.name for path in (root / "usr/lib/systemd/system").glob("kboot*")]
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"--root={root}", *names], capture_output=True, text=True, check=False
    )

    assert ("", "", 0) == (result.stdout, result.stderr, result.returncode)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_every_name_it_is_ordered_after_exists(unit: Path) -> None:
    """A typing error in After= is silent, so each name must be ours, systemd's, or a known foreign one."""
    known = {path.name for path in (REPOSITORY / "systemd").iterdir()} | set(FOREIGN)
    for key in ("After", "Before", "Wants", "Requires"):
        for name in values(unit, key):
            assert name in known or Path("/usr/lib/systemd/system", name).exists()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_every_ordering_is_explained(unit: Path) -> None:
    """A comment stands directly above each ordering or dependency, or above the group it belongs to."""
    lines = unit.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("After=", "Before=", "Wants=", "Requires=", "RequiresMountsFor=")):
            above = lines[number - 1]
            assert above.startswith(("#", "Wants=")), f"{unit.name}:{number + 1}: {line}"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_no_unit_waits_for_the_network(unit: Path) -> None:
    """A prepared node boots with no network: nothing is after network-online, nor after time-sync, which needs one."""
    for key in ("After", "Wants", "Requires", "BindsTo"):
        assert not set(NEVER) & set(values(unit, key))


def test_kboot_waits_for_the_gpus_to_be_final() -> None:
    """B128, B130, B131, B156: after persistence daemon, fabric manager and MIG manager, and without a race on nodes."""
    unit = REPOSITORY / "systemd" / "kboot.service"

    assert list(FOREIGN) == values(unit, "After")
    assert ["nvidia-persistenced.service"] == values(unit, "Wants")
    assert [] == values(unit, "ConditionPathExists")
    assert ["/var/lib/kboot"] == values(unit, "RequiresMountsFor")  # B145


def test_permanent_errors_are_not_tried_again() -> None:
    """B137: usage, profile, fit and licence end it for good, and restarts of other failures are counted."""
    for name in ("kboot.service", "kboot-engine.service"):
        unit = REPOSITORY / "systemd" / name
        assert ["2", "10", "15", "16"] == values(unit, "RestartPreventExitStatus")
        assert ["on-failure"] == values(unit, "Restart")
        assert values(unit, "StartLimitBurst") and values(unit, "StartLimitIntervalSec") != ["0"]


def test_the_engine_survives_kboot() -> None:
    """The engine wants kboot and is ordered after it; Requires= and BindsTo= would tie their lives together."""
    unit = REPOSITORY / "systemd" / "kboot-engine.service"

    assert ["kboot.service"] == values(unit, "Wants") == values(unit, "After")
    assert [] == values(unit, "Requires") + values(unit, "BindsTo") + values(unit, "PartOf")
    assert ["control-group"] == values(unit, "KillMode")  # B139


@pytest.mark.parametrize("name", ["kboot.service", "kboot-engine.service"])
def test_limits_are_set_in_the_unit(name: str) -> None:
    """B175, B049: limits.conf does not reach services; and no memory limit evicts the warmed page cache."""
    unit = REPOSITORY / "systemd" / name

    assert ["1048576"] == values(unit, "LimitNOFILE")
    assert ["infinity"] == values(unit, "LimitMEMLOCK")
    assert ["infinity"] == values(unit, "TasksMax")
    assert [] == values(unit, "MemoryMax") + values(unit, "MemoryHigh")


def test_the_daemon_talks_to_systemd() -> None:
    """Type=notify, not notify-reload, which systemd before 253 takes for Type=simple."""
    unit = REPOSITORY / "systemd" / "kboot.service"

    assert ["notify"] == values(unit, "Type")
    assert ["main"] == values(unit, "NotifyAccess")  # B141
    assert values(unit, "WatchdogSec") and values(unit, "TimeoutStartSec")


@needs_systemd_analyze
@pytest.mark.parametrize(("name", "at_most"), [("kboot", 3.0), ("kboot-engine", 4.8), ("kboot-scrub", 1.5)])
def test_exposure_does_not_grow(name: str, at_most: float) -> None:
    """`systemd-analyze security` gives no worse a score than when the unit was written."""
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", f"{REPOSITORY}/systemd/{name}.service"],
        capture_output=True,
        text=True,
        check=True,
    )
    score = float(result.stdout.strip().splitlines()[-1].rpartition(":")[2].split()[0])

    assert at_most >= score


@needs_systemd_analyze
def test_each_gap_in_the_sandbox_has_its_reason_in_the_unit() -> None:
    """What systemd-analyze counts against kboot.service is named in the unit, where the reason stands."""
    unit = REPOSITORY / "systemd" / "kboot.service"
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--json=short", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=True,
    )
    open_points = {
        point["name"].split("=")[0].split("_")[0]
        for point in json.loads(result.stdout)
        if point["exposure"] and float(point["exposure"]) > 0
    }
    text = unit.read_text()

    assert set() == {point for point in open_points if point not in text and point != "RootDirectory"}


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers")
def test_the_user_can_be_created(tmp_path: Path) -> None:
    """systemd-sysusers takes the file."""
    result = subprocess.run(
        ["systemd-sysusers", "--dry-run", REPOSITORY / "systemd" / "kboot.sysusers"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == result.returncode
    assert "kboot" in result.stderr + result.stdout or Path("/etc/passwd").read_text().count("kboot")
