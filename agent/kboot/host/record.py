"""How is a machine written down, so that RecordedHost answers as it did?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from kboot.cpulist import format_cpu_list
from kboot.host.files import atomic_write, make_dirs, replace_link
from kboot.host.kernel_clock import KernelClock
from kboot.host.recorded import (
    CLOCK_FILE,
    DISK_SPACE_FILE,
    KERNEL_LOG_FILE,
    LIMIT_NAMES,
    NVML_FILE,
    PROGRAMS_FILE,
    RecordedHost,
)
from kboot.host.types import DiskSpace, Host, Printed
from kboot.secret_shapes import hide

_TOKEN = re.compile(r"hf_[A-Za-z0-9]{8,}")
_ENVIRON = re.compile(r"/proc/[^/]+/environ")
_ASSIGNED = re.compile(r"(\b\w*(?:token|secret|passw(?:or)?d|credentials?|api_?key)\w*\s*=)[^\s,]+", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_PACKAGE_FOLDERS = ("/site-packages", "/dist-packages")
_MADE_FILES = ("/proc/self/status", "/proc/self/limits")  # written from answers, not copied


def record(host: Host, out: Path, read: Callable[[Host], object]) -> int:
    """Write below `out` what `read` was answered when it asked the host; return the number of files.

    Secrets stay out: no environment is written (of a process's, only its `container=`), tokens are masked.

    Raises:
        KbootError: the tree cannot be written.
    """
    recorder = Recorder(host)
    read(recorder)
    return recorder.save(out)


class Recorder:
    """A Host that passes every question on and keeps the answer; the engine's folders are listed, not copied."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._lock = Lock()  # NVML is asked from a thread of its own
        self._texts: dict[str, str] = {}
        self._raw: dict[str, bytes] = {}
        self._present: set[str] = set()
        self._links: dict[str, str] = {}
        self._spaces: dict[str, DiskSpace] = {}
        self._nvml: Mapping[str, Any] | None = None
        self._programs: dict[str, Printed] = {}
        self._clock: KernelClock | None = None

    @property
    def live(self) -> bool:
        """Return what the machine behind says."""
        return self._host.live

    def machine_path(self, path: Path) -> str:
        """Pass on."""
        return self._host.machine_path(path)

    def read_text(self, path: str, limit_bytes: int = 1 << 20) -> str:
        """Pass on and keep, without secrets."""
        text = self._host.read_text(path, limit_bytes)
        with self._lock:
            if path not in _MADE_FILES and len(text) >= len(self._texts.get(path, "")):
                self._texts[path] = _clean(path, text)
        return text

    def read_bytes(self, path: str, limit_bytes: int) -> bytes:
        """Pass on and keep; what is read so is no text and holds no words."""
        data = self._host.read_bytes(path, limit_bytes)
        with self._lock:
            self._raw[path] = data
        return data

    def names(self, path: str) -> tuple[str, ...]:
        """Pass on; each name is kept as an empty file unless something below it is read."""
        names = self._host.names(path)
        packages = path.endswith(_PACKAGE_FOLDERS)  # thousands of names, of which these say what is installed
        with self._lock:
            self._present.update(
                f"{path.rstrip('/')}/{name}" for name in names if not packages or name.endswith(".dist-info")
            )
        return names

    def exists(self, path: str) -> bool:
        """Pass on and keep."""
        found = self._host.exists(path)
        if found:
            with self._lock:
                self._present.add(path)
        return found

    def link_target(self, path: str) -> str:
        """Pass on and keep."""
        target = self._host.link_target(path)
        with self._lock:
            self._links[path] = target
        return target

    def disk_space(self, path: str) -> DiskSpace:
        """Pass on and keep."""
        space = self._host.disk_space(path)
        with self._lock:
            self._spaces[path] = space
        return space

    def affinity(self) -> frozenset[int]:
        """Pass on; every record has it."""
        return self._host.affinity()

    def nvml(self, timeout_s: float) -> Mapping[str, Any]:
        """Pass on and keep."""
        answers = self._host.nvml(timeout_s)
        with self._lock:
            self._nvml = answers
        return answers

    def kernel_log(self) -> str:
        """Pass on and keep, without secrets."""
        text = self._host.kernel_log()
        with self._lock:
            self._texts[f"/{KERNEL_LOG_FILE}"] = _clean(KERNEL_LOG_FILE, text)
        return text

    def program(self, argv: Sequence[str], timeout_s: float) -> Printed:
        """Pass on and keep, without secrets."""
        printed = self._host.program(argv, timeout_s)
        with self._lock:
            self._programs[shlex.join(argv)] = Printed(printed.status, _clean("", printed.text))
        return printed

    def clock(self) -> KernelClock:
        """Pass on and keep."""
        clock = self._host.clock()
        with self._lock:
            self._clock = clock
        return clock

    def environ(self) -> Mapping[str, str]:
        """Pass on; never kept."""
        return self._host.environ()

    def uid(self) -> int:
        """Pass on; every record has it."""
        return self._host.uid()

    def hostname(self) -> str:
        """Pass on; every record has it."""
        return self._host.hostname()

    def limits(self) -> Mapping[str, tuple[int | None, int | None]]:
        """Pass on; every record has them."""
        return self._host.limits()

    def save(self, out: Path) -> int:
        """Write the tree; return the number of files and links."""
        make_dirs(out)
        for path, link in self._links.items():
            place = out / path.lstrip("/")  # a link that was met stands in a folder without links above it
            make_dirs(place.parent)
            replace_link(place, link)
        tree = RecordedHost(out)  # keeps what lies behind an absolute link inside the tree
        texts = {**self._texts, **self._made()}
        files = {path: f"{text}\n".encode() if text else b"" for path, text in texts.items()} | self._raw
        for path, data in files.items():
            place = tree.locate(path)
            make_dirs(place.parent)
            atomic_write(place, data)
        return len(files) + len(self._links) + self._save_names(tree)

    def _save_names(self, tree: RecordedHost) -> int:
        missing = [path for path in sorted(self._present, reverse=True) if not tree.exists(path)]  # deepest first
        for path in missing:
            if not tree.exists(path):
                place = tree.locate(path)
                make_dirs(place.parent)
                atomic_write(place, b"")
        return len(missing)

    def _made(self) -> dict[str, str]:
        made = {
            f"/{NVML_FILE}": json.dumps(self._nvml or {"nvml_init": "LIBRARY_NOT_FOUND"}, indent=1),
            f"/{DISK_SPACE_FILE}": json.dumps(
                {
                    p: {"total": s.total_bytes, "free": s.free_bytes, "inodes": s.free_inodes}
                    for p, s in self._spaces.items()
                },
                indent=1,
            ),
        }
        if self._programs:
            printed = {line: {"status": p.status, "text": p.text} for line, p in sorted(self._programs.items())}
            made[f"/{PROGRAMS_FILE}"] = json.dumps(printed, indent=1)
        if self._clock is not None:
            clock = {"synchronised": self._clock.synchronised, "error_s": self._clock.error_s}
            made[f"/{CLOCK_FILE}"] = json.dumps(clock)
        uid = self._host.uid()
        status = [f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}"]
        try:
            status.append(f"Cpus_allowed_list:\t{format_cpu_list(self._host.affinity())}")
            made["/etc/hostname"] = self._host.hostname()
            made["/proc/self/limits"] = _limits_text(self._host.limits())
        except OSError:  # a recorded machine recorded again: what it lacked stays absent
            pass
        with suppress(OSError):
            told = self._host.read_text("/proc/self/status").splitlines()
            status += [line for line in told if line.startswith("Mems_allowed_list:")]
        made["/proc/self/status"] = "\n".join(status)
        return made


def _clean(path: str, text: str) -> str:
    if _ENVIRON.fullmatch(path):
        text = "\0".join(entry for entry in text.split("\0") if entry.startswith("container="))
    if path == "/etc/machine-id" and text:
        text = "0" * 32  # its manual asks to keep it to oneself
    if path.startswith("/etc/"):
        text = _USER_INFO.sub("***@", _ASSIGNED.sub(r"\1***", text))
    return hide(_TOKEN.sub("hf_***", text), "***")


def _limits_text(limits: Mapping[str, tuple[int | None, int | None]]) -> str:
    lines = [f"{'Limit':<25} {'Soft Limit':<20} {'Hard Limit':<20}"]
    for name, pair in sorted(limits.items()):
        soft, hard = ("unlimited" if value is None else str(value) for value in pair)
        lines.append(f"{LIMIT_NAMES[name]:<25} {soft:<20} {hard:<20}")
    return "\n".join(lines)
