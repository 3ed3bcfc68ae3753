"""Which lines of the kernel log tell of a fault? Pure: text in, events out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kboot.facts.health_types import KernelEvent

_TIME = re.compile(r"^(?:kern\s*:\w+\s*:\s*)?\[\s*(\d{1,12}\.\d{1,9})\]\s*")
_ADDRESS = r"(?:PCI:)?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}(?: GPU-C?I:\d{{1,4}}){{0,2}}\): (\d{{1,9}})", re.IGNORECASE)
# Two more lines say of the same fault where it was and its registers.
_SXID = re.compile(rf"SXid \({_ADDRESS}\): (\d{{1,9}})\b(?!, (?:Severity|Data) )", re.IGNORECASE)
_GPU_AT = re.compile(rf"NVRM: (?:The NVIDIA GPU|GPU(?: at)?) {_ADDRESS}", re.IGNORECASE)
_OFF_BUS = re.compile(r"fallen off the bus", re.IGNORECASE)
_REFUSED = re.compile(r"installed in this system (?:requires use of|is not supported by)")
_NOT_STARTED = re.compile(rf"NVRM:(?: GPU {_ADDRESS}:)? RmInitAdapter failed", re.IGNORECASE)
_OTHERS = (
    ("oom", re.compile(r"Out of memory: Killed process|Memory cgroup out of memory: Killed process")),
    (
        "read-only",
        re.compile(
            r"Remounting filesystem read-only|metadata I/O error|(?:Metadata corruption|Corruption(?: of \S+ data)?)"
            r"(?: \(\w+\))? detected|Filesystem has been shut down|log I/O error|EXT4-fs error \(device"
            r"|Aborting journal on device|BTRFS \w+ \(device [^)]+\)(?:: state \w+)?: forced readonly"
            r"|F2FS-fs \([^)]+\): Stopped filesystem|Pool '[^']+' has encountered an uncorrectable I/O failure"
            r"|fs-verity .*FILE CORRUPTED|verity: \S+ (?:data|metadata) block \d+ is corrupted"
        ),
    ),
    (
        "module-refused",
        re.compile(
            r"Loading of (?:unsigned module|module with unavailable key|module with unsupported crypto) is rejected"
            r"|Lockdown: \S+ unsigned module loading is restricted"
        ),
    ),
    (
        "io-error",
        # An empty floppy or disc drive of a virtual machine is no disk, what a loop device reads has a line of its
        # own, and a disk that knows no discard or zeroing refuses each once ("critical target error").
        re.compile(
            r"(?:critical \w+|I/O) error(?:,| on) dev (?!fd\d|sr\d|loop\d)\w+(?!.*:\((?:DISCARD|WRITE_ZEROES)\))"
            r"|nvme \S+: (?:.* timeout, |controller is down|Disabling device|Device not ready|Removing after probe)"
            r"|md/raid\S*: Disk failure|md: \S+: raid0 array has \d+ failed devices|Unrecovered Read Error"
            r"|BTRFS (?:error|warning) \(device [^)]+\).*: (?:csum failed|bdev \S+ errs:)"
        ),
    ),
)
_HUNG = re.compile(r"task .+:(\d{1,9}) blocked (?:in I/O wait )?for more than \d+ seconds")
# Only of servers whose return is told: not of CIFS, nor of NFS mounted `soft`, which times out instead. Lustre skips
# lines that resemble the last one, so that its targets cannot be told apart.
_SILENT = re.compile(r"nfs: server (\S+) not responding, still trying|(Lustre): \S+: Connection to .* was lost")
_BACK = re.compile(r"nfs: server (\S+) OK|(Lustre): \S+: Connection restored to")
_LINE_CHARS = 2048  # printk cuts at 1,024 bytes; what is longer was not said by the kernel, and is not searched
_JOINED = 3
"""A GPU off the bus, or one that the module does not take, is said in three lines: which, its PCI id, why."""

OFF_BUS_XID = 79


def kernel_events(text: str) -> tuple[KernelEvent, ...]:
    """Return the faults in the order of the log; a GPU off the bus once, in whichever form the driver says it."""
    events = []
    gone: set[str] = set()
    lines = _timed(text)
    for event in _events(lines):
        if event.kind == "off-bus" or (event.kind == "xid" and event.code == OFF_BUS_XID):
            if event.bus_id in gone:
                continue
            gone.add(event.bus_id)
        events.append(event)
    return (*events, *_silent_servers(lines))


def _timed(text: str) -> list[tuple[float | None, str]]:
    """Return each line with its time taken off."""
    lines: list[tuple[float | None, str]] = []
    for whole in text.splitlines():
        line = whole[:_LINE_CHARS]
        time = _TIME.match(line)
        lines.append((float(time.group(1)), line[time.end() :]) if time else (None, line.strip()))
    return lines


def _silent_servers(lines: list[tuple[float | None, str]]) -> Iterator[KernelEvent]:
    """Yield the last line of each file server that had not come back by the end of the log."""
    last: dict[str, KernelEvent] = {}
    for at_s, line in lines:
        if match := _SILENT.search(line):
            last[match[match.lastindex or 0]] = KernelEvent("server-silent", line, at_s=at_s)
        elif match := _BACK.search(line):
            last.pop(match[match.lastindex or 0], None)
    yield from last.values()


def _events(lines: list[tuple[float | None, str]]) -> Iterator[KernelEvent]:
    for number, (at_s, line) in enumerate(lines):
        if match := _XID.search(line):
            yield KernelEvent("xid", line, bus_address(match.group(1)), int(match.group(2)), at_s)
        elif match := _SXID.search(line):
            yield KernelEvent("sxid", line, bus_address(match.group(1)), int(match.group(2)), at_s)
        elif match := _HUNG.search(line):
            yield KernelEvent("hung-task", line, code=int(match.group(1)), at_s=at_s)
        elif match := _NOT_STARTED.search(line):
            yield KernelEvent("gpu-not-started", line, bus_address(match.group(1)) if match.group(1) else "", at_s=at_s)
        elif match := _GPU_AT.search(line):
            told = " ".join(said.strip() for _, said in lines[number : number + _JOINED])
            if _REFUSED.search(told):
                yield KernelEvent("gpu-refused", told, bus_address(match.group(1)), at_s=at_s)
            elif _OFF_BUS.search(told):
                yield KernelEvent("off-bus", told, bus_address(match.group(1)), OFF_BUS_XID, at_s)
        else:
            for kind, pattern in _OTHERS:
                if pattern.search(line):
                    yield KernelEvent(kind, line, at_s=at_s)
                    break


def bus_address(text: str) -> str:
    """Return an address of the log as sysfs names it: "0000:44:00" is "0000:44:00.0", "44:00.0" "0000:44:00.0"."""
    head, _, function = text.lower().partition(".")
    parts = head.split(":")
    domain = parts[0] if len(parts) > 2 else "0"
    return f"{int(domain, 16):04x}:{parts[-2]}:{parts[-1]}.{function or 0}"
