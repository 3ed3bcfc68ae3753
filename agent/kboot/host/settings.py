"""Reads and writes single kernel settings under /sys and /proc/sys."""

from __future__ import annotations

from pathlib import Path

from kboot.errors import ActionFailed
from kboot.host.os_errors import explain_os_error

_ROOTS = ("/sys/", "/proc/sys/")


def read_setting(path: str) -> str:
    """Return the value of a setting.

    Raises:
        ActionFailed: the file cannot be read, or lies outside /sys and /proc/sys.
    """
    try:
        return _checked(path).read_text().strip()
    except OSError as exc:
        raise explain_os_error(exc, "read the kernel setting", path) from exc


def write_setting(path: str, value: str) -> None:
    """Write a setting; the kernel may still choose another value, so read it back.

    Raises:
        ActionFailed: the kernel refuses, or the file lies outside /sys and /proc/sys.
    """
    try:
        _checked(path).write_text(value)
    except OSError as exc:
        raise explain_os_error(exc, f"write {value!r} to the kernel setting", path) from exc


def _checked(path: str) -> Path:
    if not path.startswith(_ROOTS) or ".." in path.split("/"):
        raise ActionFailed(
            "not-a-kernel-setting",
            f"{path} is not below /sys or /proc/sys",
            hint="name a file below /sys or /proc/sys in the profile's [tune] settings",
        )
    return Path(path)
