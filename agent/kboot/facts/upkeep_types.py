"""What of the machine doctor looks at and a boot does not need. Frozen values only."""

from __future__ import annotations

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class DiskHealth:
    """What one disk's controller says of it (SMART); None where it does not tell.

    passed: its own verdict. warnings: NVMe's critical warnings in words. media_errors: data it could not read back.
    used_percent: of the wear its maker promises; may pass 100. spare_percent: blocks left to replace bad ones.
    pending_sectors: of a disk without NVMe, that wait to be rewritten. refused: why it was not read.
    """

    name: str
    passed: bool | None = None
    warnings: tuple[str, ...] = ()
    media_errors: int | None = None
    used_percent: int | None = None
    spare_percent: int | None = None
    pending_sectors: int | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Discard:
    """Is a disk told of blocks that became free? supported: it can be. mounted, timer: by mount option, by fstrim."""

    supported: bool
    mounted: bool
    timer: bool


@dataclass(frozen=True, slots=True)
class UnitState:
    """A systemd unit: "kboot.service", "active", "success", restarts since it was loaded."""

    name: str
    active: str
    result: str
    restarts: int


@dataclass(frozen=True, slots=True)
class Services:
    """failed: units that systemd gave up. kboot: kboot's own that are loaded."""

    failed: tuple[str, ...]
    kboot: tuple[UnitState, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A file that tells container runtimes what to mount for a GPU. driver: version of the libraries that it names."""

    path: str
    driver: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """A process in uninterruptible sleep that did not run once for waited_s, where: the kernel function it waits in."""

    pid: int
    name: str
    waited_s: float
    where: str


@dataclass(frozen=True, slots=True)
class PortState:
    """The port the engine is to serve on. holders: processes that listen there, as far as they can be seen.

    ours: one of them is an engine that kboot started.
    """

    number: int
    listened: bool
    holders: tuple[int, ...] = ()
    ours: bool = False


@dataclass(frozen=True, slots=True)
class EnvSetting:
    """A variable, and who sets it: "this environment" or a file of kboot's units."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class EnvLine:
    """A line of an environment file that systemd reads otherwise than a shell. name: "" where it sets nothing."""

    path: str
    line: int
    name: str
    says: str


@dataclass(frozen=True, slots=True)
class Readable:
    """Something secret that others can read. what: "token", "key", "token in the command line"…. where: path or pid."""

    what: str
    where: str
    says: str
