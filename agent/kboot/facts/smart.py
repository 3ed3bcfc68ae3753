"""What do the disks' controllers say of their health? SMART, as smartctl or nvme-cli print it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from kboot.facts.reader import Reader, said
from kboot.facts.upkeep_types import DiskHealth
from kboot.jsontext import parse_json

if TYPE_CHECKING:
    from kboot.facts.types import Disk
    from kboot.host.types import Host, Printed

_WARNINGS = (
    (0x01, "spare blocks below the threshold"),
    (0x02, "too hot"),
    (0x04, "unreliable: too many media errors"),
    (0x08, "read-only"),
    (0x10, "the backup of its volatile memory failed"),
)
_PENDING_SECTORS = 197
_ASLEEP = "STANDBY"  # smartctl's word for a disk that it was told not to wake
_MOST_DISKS = 32
_AT_ONCE = 8


def collect_smart(reader: Reader, disks: Iterable[Disk], timeout_s: float) -> tuple[str, tuple[DiskHealth, ...]]:
    """Return the program that answers, and what it says of each disk; "" where none is installed.

    Virtual disks, RAIDs and mappings have no controller to ask.
    """
    names = sorted({d.name for d in disks if d.kind in ("nvme", "disk") and not d.name.startswith(("vd", "xvd"))})
    names = names[:_MOST_DISKS]
    if not names or reader.host.uid() != 0:
        return "", ()
    for tool, ask in (("smartctl", _smartctl), ("nvme", _nvme)):
        wanted = names if tool == "smartctl" else [n for n in names if n.startswith("nvme")]
        found = _all(reader.host, ask, wanted, timeout_s)
        if found is not None:
            return tool, found
    return "", ()


def _all(
    host: Host, ask: Callable[[Host, str, float], DiskHealth], names: list[str], timeout_s: float
) -> tuple[DiskHealth, ...] | None:
    """Ask about several disks at once, those that sleep left out; None where the program is not installed."""
    if not names:
        return None
    try:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="smart") as pool:
            found = tuple(pool.map(lambda name: ask(host, name, timeout_s), names))
    except FileNotFoundError:
        return None
    return tuple(disk for disk in found if _ASLEEP not in disk.refused)


def _smartctl(host: Host, name: str, timeout_s: float) -> DiskHealth:
    argv = ("smartctl", "--json", "--health", "--attributes", "--nocheck=standby", f"/dev/{name}")
    return _read(name, lambda: host.program(argv, timeout_s), of_smartctl)


def _nvme(host: Host, name: str, timeout_s: float) -> DiskHealth:
    argv = ("nvme", "smart-log", "--output-format=json", f"/dev/{name}")
    return _read(name, lambda: host.program(argv, timeout_s), of_nvme)


def _read(name: str, run: Callable[[], Printed], form: Callable[[str, Mapping[str, Any]], DiskHealth]) -> DiskHealth:
    try:
        printed = run()
    except FileNotFoundError:
        raise
    except OSError as exc:
        return DiskHealth(name, refused=said(exc))
    try:
        document = parse_json(printed.text)
    except ValueError:
        return DiskHealth(name, refused=f"status {printed.status}, and what it printed is not JSON")
    return form(name, document) if isinstance(document, dict) else DiskHealth(name, refused="not an object")


def of_smartctl(name: str, document: Mapping[str, Any]) -> DiskHealth:
    """Return what `smartctl --json --health --attributes` says of an NVMe, SATA or SAS disk."""
    log = document.get("nvme_smart_health_information_log")
    log = log if isinstance(log, dict) else {}
    passed = _table(document, "smart_status").get("passed")
    found = DiskHealth(
        name=name,
        passed=passed if isinstance(passed, bool) else None,
        warnings=_warnings(log.get("critical_warning")),
        media_errors=_number(log.get("media_errors")),
        used_percent=_number(log.get("percentage_used")),
        spare_percent=_number(log.get("available_spare")),
        pending_sectors=_pending(document),
    )
    if found == DiskHealth(name):
        return DiskHealth(name, refused=_messages(document) or "it tells nothing of its health")
    return found


def of_nvme(name: str, document: Mapping[str, Any]) -> DiskHealth:
    """Return what `nvme smart-log --output-format=json` says."""
    warning = document.get("critical_warning")
    warning = warning.get("value") if isinstance(warning, dict) else warning  # since 2.0 with --verbose
    if _number(warning) is None:
        return DiskHealth(name, refused=str(document.get("error") or "it tells nothing of its health"))
    return DiskHealth(
        name=name,
        passed=warning == 0,
        warnings=_warnings(warning),
        media_errors=_number(document.get("media_errors")),
        used_percent=_number(document.get("percent_used", document.get("percentage_used"))),
        spare_percent=_number(document.get("avail_spare")),
    )


def _warnings(bits: object) -> tuple[str, ...]:
    number = _number(bits)
    return () if number is None else tuple(word for bit, word in _WARNINGS if number & bit)


def _pending(document: Mapping[str, Any]) -> int | None:
    table = _table(document, "ata_smart_attributes").get("table")
    for row in table if isinstance(table, list) else ():
        if isinstance(row, dict) and row.get("id") == _PENDING_SECTORS:
            return _number(_table(row, "raw").get("value"))
    return None


def _messages(document: Mapping[str, Any]) -> str:
    messages = _table(document, "smartctl").get("messages")
    texts = [str(m.get("string", "")) for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    return "; ".join(text for text in texts if text)[:200]


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: object) -> int | None:
    """Return a whole number; nvme-cli writes large ones as text."""
    if isinstance(value, str) and value.isdecimal():
        return int(value[:20])
    return value if isinstance(value, int) and not isinstance(value, bool) else None
