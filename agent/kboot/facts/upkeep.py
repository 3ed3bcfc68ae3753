"""What does doctor look at that a boot does not need: the disks' health, the clock, services, doors left open?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from posixpath import basename
from threading import Thread
from typing import TYPE_CHECKING

from kboot.facts.blocked import collect_blocked
from kboot.facts.doctor_types import UpkeepFacts
from kboot.facts.env_files import assignments, odd_lines
from kboot.facts.mounts import MOUNTINFO, parse_mountinfo, real_path, unescape
from kboot.facts.process import ENGINE_UNIT, Unit, pids_of
from kboot.facts.reader import Reader, whole_number
from kboot.facts.secrets import collect_identity, collect_readable
from kboot.facts.smart import collect_smart
from kboot.facts.upkeep_types import (
    CdiSpec,
    Discard,
    DiskHealth,
    EnvLine,
    EnvSetting,
    PortState,
    Services,
    UnitState,
)
from kboot.host.environs import pids_with
from kboot.host.listeners import listeners
from kboot.sources.secrets import mask

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.facts.types import Disk, NodeFacts
    from kboot.host.kernel_clock import KernelClock
    from kboot.host.paths import Paths
    from kboot.host.types import Host

_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_LOCKDOWN = "/sys/kernel/security/lockdown"
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_CDI_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)")
_TIMER_LINKS = (
    "/etc/systemd/system/timers.target.wants/fstrim.timer",
    "/usr/lib/systemd/system/timers.target.wants/fstrim.timer",
)
FAILED_UNITS = ("systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager")
OUR_UNITS = (
    *("systemctl", "show", "--property=Id,LoadState,ActiveState,Result,NRestarts"),
    *("kboot.service", "kboot-engine.service", "kboot-scrub.service"),
)
_UNITS = "/etc/systemd/system"
_WHERE = re.compile(r"^\s*Where\s*=\s*(/.*?)\s*$", re.MULTILINE)
_ENV_FILES = ("env", "engine.env")
_VARIABLES = re.compile(
    r"(?:HF|HUGGINGFACE|VLLM|SGLANG|TORCH|TORCHINDUCTOR|TRITON|FLASHINFER|CUDA|NCCL|OMP|MKL)_\w+"
    r"|(?:https?|all|no)_proxy|TMPDIR|XDG_CACHE_HOME|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE",
    re.IGNORECASE,
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY", re.IGNORECASE)
_LONGEST_VALUE = 300


def collect_upkeep(
    host: Host,
    paths: Paths,
    facts: NodeFacts,
    port: int | None,
    token_file: str,
    program_s: float,
    look_s: float | None,
) -> tuple[UpkeepFacts, tuple[Gap, ...]]:
    """Read what only doctor asks for. What many sound machines do not have is no Gap.

    port: that the engine is to serve on; None without a profile. token_file: of the configuration. program_s: the
    longest that a program may take. look_s: how long a process that is stuck is watched; None = nobody looks.
    """
    reader = Reader(host)
    asking = _Programs(host, facts.disks, program_s)
    asking.start()
    blocked = None if look_s is None else collect_blocked(reader, look_s)
    env, odd = _environment(reader, host.machine_path(paths.config))
    upkeep = UpkeepFacts(
        discard=_discard(reader, facts),
        lost_mounts=_lost_mounts(reader, tuple(m.path for m in facts.mounts)),
        clock=_clock(reader),
        secure_boot=_secure_boot(reader),
        lockdown=_lockdown(reader),
        nvidia_module=host.exists("/sys/module/nvidia") if reader.names("/sys/module") else None,
        cdi=_cdi(reader),
        blocked=blocked,
        port=None if port is None else _port(reader, port, str(paths.cache)),
        environ=env,
        env_files=odd,
        readable=collect_readable(host, paths, token_file),
        identity=collect_identity(host, paths),
    )
    asking.join()
    for gap in asking.gaps:
        reader.gap(gap.fact, gap.source, gap.reason)
    tool, disks = asking.smart
    return replace(upkeep, smart_tool=tool, disks=disks, services=asking.services), reader.gaps


class _Programs(Thread):
    """Asks other programs meanwhile; each of them has its own deadline."""

    def __init__(self, host: Host, disks: tuple[Disk, ...], timeout_s: float) -> None:
        super().__init__(name="programs", daemon=True)
        self._reader = Reader(host)
        self._disks = disks
        self._timeout_s = timeout_s
        self.smart: tuple[str, tuple[DiskHealth, ...]] = "", ()
        self.services: Services | None = None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        return self._reader.gaps

    def run(self) -> None:
        self.services = _services(self._reader, self._timeout_s)
        self.smart = collect_smart(self._reader, self._disks, self._timeout_s)


def _services(reader: Reader, timeout_s: float) -> Services | None:
    """Return what systemd says of its units; None where it is not the init of this machine."""
    if not reader.host.exists("/run/systemd/system"):
        return None
    listed = _printed(reader, FAILED_UNITS, timeout_s)
    if listed is None:
        return None
    shown = _printed(reader, OUR_UNITS, timeout_s)
    failed = tuple(sorted(line.split()[0] for line in listed.splitlines() if line.strip()))
    return Services(failed, tuple(_unit_states(shown or "")))


def _unit_states(text: str) -> list[UnitState]:
    found = []
    for block in text.split("\n\n"):
        values = dict(line.partition("=")[::2] for line in block.splitlines())
        if values.get("LoadState") == "loaded":
            name, active, result = (values.get(key, "") for key in ("Id", "ActiveState", "Result"))
            found.append(UnitState(name, active, result, whole_number(values.get("NRestarts", "")) or 0))
    return found


def _printed(reader: Reader, argv: tuple[str, ...], timeout_s: float) -> str | None:
    try:
        return reader.host.program(argv, timeout_s).text
    except FileNotFoundError:  # a recording of before, or a machine without the program
        return None
    except OSError as exc:
        reader.gap("upkeep.services", argv[0], exc)
        return None


def _clock(reader: Reader) -> KernelClock | None:
    try:
        return reader.host.clock()
    except FileNotFoundError:
        return None
    except OSError as exc:
        reader.gap("upkeep.clock", "adjtimex", exc)
        return None


def _secure_boot(reader: Reader) -> bool | None:
    """Return the firmware's answer: four bytes of attributes, then 1 or 0; None on a machine without UEFI."""
    text = reader.optional(_SECURE_BOOT, 16)
    return ord(text[-1]) == 1 if text else None


def _lockdown(reader: Reader) -> str:
    match = re.search(r"\[(\w+)\]", reader.optional(_LOCKDOWN) or "")
    return match.group(1) if match else ""


def _cdi(reader: Reader) -> tuple[CdiSpec, ...]:
    found = []
    for folder in _CDI_FOLDERS:
        for name in reader.names(folder):
            if name.endswith((".yaml", ".json")):
                match = _CDI_DRIVER.search(reader.optional(f"{folder}/{name}") or "")
                if match:
                    found.append(CdiSpec(f"{folder}/{name}", match.group(1)))
    return tuple(found)


def _discard(reader: Reader, facts: NodeFacts) -> Discard | None:
    """Return how the disk below the state folder learns of free blocks; None where its device is not known."""
    mount = next((m for m in facts.mounts if m.role == "state"), None)
    names = [d.name for d in facts.disks]
    device = basename(real_path(reader, mount.device)) if mount else ""
    disk = max((n for n in names if device == n or re.fullmatch(rf"{re.escape(n)}p?\d+", device)), key=len, default="")
    most = whole_number(reader.optional(f"/sys/block/{disk}/queue/discard_max_bytes") or "") if disk else None
    if mount is None or most is None:
        return None
    lines = parse_mountinfo(reader.optional(MOUNTINFO) or "")
    options = [line.options | line.super_options for line in lines if line.mount_point == mount.mount_point]
    mounted = any(option == "discard" or option.startswith("discard=") for each in options for option in each)
    timer = any(_is_link(reader, path) for path in _TIMER_LINKS)
    return Discard(most > 0, mounted, timer)


def _is_link(reader: Reader, path: str) -> bool:
    try:
        return bool(reader.host.link_target(path))
    except OSError:
        return reader.host.exists(path)


def _lost_mounts(reader: Reader, folders: tuple[str, ...]) -> tuple[str, ...]:
    """Return the mount points of /etc/fstab and mount units on the way to kboot's folders that hold no mount now."""
    mounted = {line.mount_point for line in parse_mountinfo(reader.optional(MOUNTINFO) or "")}
    wanted = {point.rstrip("/") or "/" for point in (*_in_fstab(reader), *_in_units(reader))}
    ways = {real_path(reader, folder) for folder in folders}
    lost = {p for p in wanted - mounted if p != "/" and any(w == p or w.startswith(f"{p}/") for w in ways)}
    return tuple(sorted(lost)) if mounted else ()


def _in_fstab(reader: Reader) -> Iterator[str]:
    for line in (reader.optional("/etc/fstab") or "").splitlines():
        words = line.split()
        if len(words) >= 4 and words[0][:1] != "#" and words[1].startswith("/") and "noauto" not in words[3].split(","):
            yield unescape(words[1])


def _in_units(reader: Reader) -> Iterator[str]:
    """Yield where the administrator's mount units mount that something wants; a unit's name is not read."""
    for folder in reader.names(_UNITS):
        if folder.endswith((".wants", ".requires")):
            for name in reader.names(f"{_UNITS}/{folder}"):
                if name.endswith(".mount") and (
                    at := _WHERE.search(reader.optional(f"{_UNITS}/{folder}/{name}") or "")
                ):
                    yield at[1]


def _port(reader: Reader, number: int, cache: str) -> PortState | None:
    tables = [text for table in ("tcp", "tcp6") if (text := reader.optional(f"/proc/net/{table}", 8 << 20)) is not None]
    if not tables:
        return None
    listened = any(_listens(table, number) for table in tables)
    if not listened or not reader.host.live:
        return PortState(number, listened)
    holders = listeners(number)
    return PortState(number, listened, holders, ours=not _started_by_kboot(reader.host, cache).isdisjoint(holders))


def _started_by_kboot(host: Host, cache: str) -> frozenset[int]:
    """Return the processes of the engine's service, and those that were given kernel caches of this node."""
    return frozenset((*pids_of(host, Unit(ENGINE_UNIT)), *pids_with(f"={cache}/")))


def _listens(table: str, port: int) -> bool:
    """Return whether a line of /proc/net/tcp is a socket in state LISTEN (0A) on the port."""
    return re.search(rf"^\s*\d+: [0-9A-F]+:{port:04X} [0-9A-F]+:0000 0A ", table, re.MULTILINE) is not None


def _environment(reader: Reader, config: str) -> tuple[tuple[EnvSetting, ...] | None, tuple[EnvLine, ...] | None]:
    """Return what is set, and the odd lines; None for a recording without such a file: no environment is recorded."""
    found: dict[str, EnvSetting] = {}
    odd: list[EnvLine] = []
    told = reader.host.live
    _keep(found, reader.host.environ(), "this environment")
    for name in _ENV_FILES:
        path = f"{config}/{name}"
        text = reader.optional(path)
        if text is not None:
            told = True
            odd += odd_lines(path, text)
            _keep(found, {a.key: a.value for a in assignments(text) if a.counts}, path)
    return (tuple(found[name] for name in sorted(found)), tuple(odd)) if told else (None, None)


def _keep(found: dict[str, EnvSetting], values: Mapping[str, str], origin: str) -> None:
    for name, value in values.items():
        if _VARIABLES.fullmatch(name) and not _SECRET.search(name):
            found[name] = EnvSetting(name, mask(value)[:_LONGEST_VALUE], origin)
