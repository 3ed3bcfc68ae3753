"""What does a recorded machine answer? A tree of `sys/ proc/ etc/ …` with nvml.json and disk_space.json beside them."""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from kboot.cpulist import parse_cpu_list
from kboot.host.kernel_clock import KernelClock
from kboot.host.real import read_limited, read_raw, text_names
from kboot.host.types import DiskSpace, Printed
from kboot.jsontext import parse_json

NVML_FILE = "nvml.json"
DISK_SPACE_FILE = "disk_space.json"
KERNEL_LOG_FILE = "dmesg.txt"
PROGRAMS_FILE = "programs.json"
CLOCK_FILE = "clock.json"
LIMIT_NAMES = {
    "nofile": "Max open files",
    "memlock": "Max locked memory",
    "nproc": "Max processes",
    "stack": "Max stack size",
}
_MAX_LINKS = 40
_JSON_LIMIT_BYTES = 16 << 20


class RecordedHost:
    """A tree below `root`; nothing outside it can be reached, whatever its links say."""

    live = False

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._folders: dict[str, str] = {}

    def machine_path(self, path: Path) -> str:
        """Return the path without the root; one outside the root as it is."""
        whole = path.absolute()
        return "/" + str(whole.relative_to(self.root)) if whole.is_relative_to(self.root) else str(path)

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """Return the file's text, stripped of trailing newlines; no more than the limit is read."""
        return read_limited(self.locate(path), limit_bytes)

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """Return the file's bytes as they are; no more than the limit is read."""
        return read_raw(self.locate(path), limit_bytes)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return text_names(self.locate(path))

    def exists(self, path: str) -> bool:
        """Return whether the path exists in the tree (links followed inside it)."""
        try:
            return os.path.lexists(self.locate(path))
        except OSError:
            return False

    def link_target(self, path: str) -> str:
        """Return what a symbolic link says, not resolved."""
        parent, name = os.path.split(_absolute(path))
        return os.readlink(self.locate(parent) / name)

    def disk_space(self, path: str) -> DiskSpace:
        """Return what disk_space.json says of the path or of its nearest parent in it.

        Raises:
            OSError: there is no disk_space.json, or it does not say.
        """
        table = self._json(DISK_SPACE_FILE)
        for candidate in (PurePosixPath(_absolute(path)), *PurePosixPath(_absolute(path)).parents):
            entry = table.get(str(candidate)) if isinstance(table, dict) else None
            if isinstance(entry, dict):
                try:
                    return DiskSpace(int(entry["total"]), int(entry["free"]), int(entry["inodes"]))
                except (KeyError, TypeError, ValueError, OverflowError) as exc:
                    raise OSError(errno.EINVAL, f"{candidate}: wants numbers total, free, inodes") from exc
        raise OSError(errno.ENODATA, "not in disk_space.json", path)

    def affinity(self) -> frozenset[int]:
        """Return Cpus_allowed_list of /proc/self/status."""
        return frozenset(_parsed_list(self._status("Cpus_allowed_list")))

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:  # noqa: ARG002 - a file answers at once
        """Return nvml.json; LIBRARY_NOT_FOUND where the tree has none."""
        try:
            answers = self._json(NVML_FILE)
        except FileNotFoundError:
            return {"nvml_init": "LIBRARY_NOT_FOUND"}
        if not isinstance(answers, dict):
            raise OSError(errno.EINVAL, "wants one JSON object", NVML_FILE)
        return answers

    def kernel_log(self) -> str:
        """Return dmesg.txt of the tree."""
        return read_limited(self.locate(f"/{KERNEL_LOG_FILE}"), _JSON_LIMIT_BYTES)

    def program(self, argv: Sequence[str], timeout_s: float) -> Printed:  # noqa: ARG002 - a file answers at once
        """Return what programs.json has for this command line.

        Raises:
            OSError: it has nothing.
        """
        entry = self._entry(PROGRAMS_FILE, shlex.join(argv))
        try:
            return Printed(int(entry["status"]), str(entry["text"]))
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise OSError(errno.EINVAL, f"{argv[0]}: wants a number status and a text", PROGRAMS_FILE) from exc

    def clock(self) -> KernelClock:
        """Return what clock.json says.

        Raises:
            OSError: there is none, or it does not say.
        """
        try:
            return KernelClock(
                self._entry(CLOCK_FILE, "synchronised") is True, float(self._entry(CLOCK_FILE, "error_s"))
            )
        except (TypeError, ValueError) as exc:
            raise OSError(errno.EINVAL, "wants a number error_s", CLOCK_FILE) from exc

    def environ(self) -> Mapping[str, str]:
        """Return nothing: an environment may hold secrets and is not recorded."""
        return {}

    def uid(self) -> int:
        """Return the effective user of /proc/self/status; 0, as kboot runs on a node, where the tree does not say."""
        try:
            return int(self._status("Uid").split()[1])
        except (OSError, ValueError, IndexError):
            return 0

    def hostname(self) -> str:
        """Return /etc/hostname, or the kernel's name where there is none."""
        try:
            return self.read_text("/etc/hostname").strip()
        except FileNotFoundError:
            return self.read_text("/proc/sys/kernel/hostname").strip()

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """Return the limits that /proc/self/limits of the tree lists."""
        text = self.read_text("/proc/self/limits")
        found: dict[str, tuple[int | None, int | None]] = {}
        for name, title in LIMIT_NAMES.items():
            if match := re.search(rf"^{title}\s+(\d{{1,20}}|unlimited)\s+(\d{{1,20}}|unlimited)", text, re.MULTILINE):
                soft, hard = (None if value == "unlimited" else int(value) for value in match.groups())
                found[name] = (soft, hard)
        return found

    def locate(self, path: str) -> Path:
        """Return where a path of the machine lies, links resolved inside the root; it need not exist."""
        folder, name = os.path.split(_absolute(path))
        if folder not in self._folders:
            self._folders[folder] = self._resolve(folder)
        return Path(f"{self.root}{self._resolve(name, self._folders[folder]) if name else '/'}")

    def _status(self, key: str) -> str:
        for line in self.read_text("/proc/self/status").splitlines():
            if line.startswith(f"{key}:"):
                return line.partition(":")[2].strip()
        raise OSError(errno.ENODATA, f"no {key} in it", "/proc/self/status")

    def _entry(self, name: str, key: str) -> Any:
        document = self._json(name)
        if not isinstance(document, dict) or key not in document:
            raise FileNotFoundError(errno.ENOENT, f"nothing of {key!r} was recorded", name)
        return document[key]

    def _json(self, name: str) -> Any:
        try:
            return parse_json(read_limited(self.locate(f"/{name}"), _JSON_LIMIT_BYTES))
        except ValueError as exc:
            raise OSError(errno.EINVAL, f"not JSON: {exc}", name) from exc

    def _resolve(self, path: str, start: str = "") -> str:
        parts = [p for p in path.split("/") if p][::-1]
        at = [p for p in start.split("/") if p]
        links = 0
        while parts:
            part = parts.pop()
            if part == ".":
                continue
            if part == "..":
                at = at[:-1]
                continue
            at.append(part)
            try:
                target = os.readlink("/".join((str(self.root), *at)))
            except OSError:  # not a link, or absent: the caller's open will say
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            at = [] if target.startswith("/") else at[:-1]
            parts += [p for p in target.split("/") if p][::-1]
        return "/" + "/".join(at)


def _absolute(path: str) -> str:
    return "/" + path.lstrip("/")


def _parsed_list(text: str) -> tuple[int, ...]:
    try:
        return parse_cpu_list(text)
    except ValueError as exc:
        raise OSError(errno.EINVAL, str(exc), "/proc/self/status") from exc
