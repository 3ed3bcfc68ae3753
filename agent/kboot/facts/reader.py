"""How does a collector read, so that what is absent becomes a Gap and never an exception?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kboot.cpulist import parse_cpu_list
from kboot.facts.basic_types import Gap

if TYPE_CHECKING:
    from kboot.host.types import Host

_CPUINFO_BYTES = 4096


class Reader:
    """Reads of one collector; `gaps` are those it met, in order."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._gaps: list[Gap] = []

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Return the gaps so far."""
        return tuple(self._gaps)

    def gap(self, fact: str, source: str, reason: str | Exception) -> None:
        """Note that a fact could not be read."""
        self._gaps.append(Gap(fact, source, said(reason) if isinstance(reason, Exception) else reason))

    def text(self, fact: str, path: str, limit_bytes: int = 1 << 20) -> str | None:
        """Return a file's text; None and a Gap where it cannot be read."""
        try:
            return self.host.read_text(path, limit_bytes)
        except OSError as exc:
            self.gap(fact, path, exc)
            return None

    def optional(self, path: str, limit_bytes: int = 1 << 20) -> str | None:
        """Return a file's text; None without a Gap, for files that many machines do not have."""
        try:
            return self.host.read_text(path, limit_bytes)
        except OSError:
            return None

    def names(self, path: str) -> tuple[str, ...]:
        """Return the names in a folder; none where there is no such folder."""
        try:
            return self.host.names(path)
        except OSError:
            return ()

    def first_cpuinfo(self) -> str:
        """Return the first CPU's lines of /proc/cpuinfo; the rest says the same again, and costs the kernel time."""
        try:
            return self.host.read_text("/proc/cpuinfo", _CPUINFO_BYTES)
        except OSError:
            return ""

    def cpu_list(self, fact: str, path: str) -> tuple[int, ...] | None:
        """Return a kernel list; None and a Gap where there is none or it is malformed."""
        text = self.text(fact, path)
        return None if text is None else self.parsed_list(fact, path, text)

    def parsed_list(self, fact: str, source: str, text: str) -> tuple[int, ...] | None:
        """Return the numbers of a list; None and a Gap where it is malformed."""
        try:
            return parse_cpu_list(text)
        except ValueError as exc:
            self.gap(fact, source, str(exc))
            return None


def said(exc: Exception) -> str:
    """Return what an error says, without its path."""
    if isinstance(exc, OSError) and exc.errno:
        return exc.strerror or f"errno {exc.errno}"
    return str(exc) or type(exc).__name__


def whole_number(text: str) -> int | None:
    """Return a decimal whole number, or None for any other text, and one longer than any that a kernel writes."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,40}", text.strip()) else None


def node_number(reader: Reader, path: str) -> int | None:
    """Return the NUMA node a device's file names; None where it is absent or says -1, which is "not known"."""
    node = whole_number(reader.optional(path) or "")
    return node if node is not None and node >= 0 else None


def kib_lines(text: str) -> Mapping[str, int]:
    """Return bytes by name of the lines `Name: 12 kB`, as meminfo writes them (a node's lead with "Node 0 ")."""
    found = re.findall(r"^(?:Node \d+ )?\s*([\w()]+):\s+(\d{1,20}) kB$", text, re.MULTILINE)
    return {name: int(kib) * 1024 for name, kib in found}
