"""Which GPUs are there: what does NVML say, and what does the PCI bus say?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kboot.facts.memory import MEMINFO
from kboot.facts.reader import Reader, kib_lines, node_number, whole_number
from kboot.facts.types import Gpu, GpuFacts, MigSlice, NvmlState
from kboot.facts.visible import why_not_clear

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host

_PCI = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller; the device's own bridges are others
PARAVIRTUAL = "/dev/dxg"
"""How GPUs are reached in WSL: they are on the bus of Windows, whose driver it is."""
_MODULE_VERSION = "/proc/driver/nvidia/version"
_ERROR_PREFIX = "NVML_ERROR_"
_UNIFIED = re.compile(r"\b(GB10|Thor|Orin|Xavier)\b")  # parts without memory of their own
_STATE_OF: Mapping[str, NvmlState] = {
    "OK": "ok",
    "SUCCESS": "ok",
    "LIBRARY_NOT_FOUND": "no-library",
    "DRIVER_NOT_LOADED": "no-driver",
    "LIB_RM_VERSION_MISMATCH": "mismatch",
    "TIMEOUT": "hung",
}

Answers = Mapping[str, Any]


def collect_gpu(
    host: Host, answers: Answers | OSError, node_of: Mapping[int, int] | None = None
) -> tuple[GpuFacts, tuple[Gap, ...]]:
    """Join NVML's answers (`Host.nvml`, or the error of asking) with the PCI bus; each failure stays with its GPU.

    node_of: NUMA node by CPU, to compare where NVML and the PCI bus say that a GPU is.
    """
    reader = Reader(host)
    pci = _pci_bus_ids(reader)
    env = host.environ()
    visible, order = env.get("CUDA_VISIBLE_DEVICES"), env.get("CUDA_DEVICE_ORDER")
    if isinstance(answers, OSError):
        reader.gap("gpu", "NVML", answers)
        why = f"NVML could not be asked: {answers}"
        return GpuFacts("error", why, None, None, (), pci, visible, order), reader.gaps
    init = str(answers.get("nvml_init", "OK")).removeprefix(_ERROR_PREFIX)
    state = _STATE_OF.get(init, "error")
    module = _module_version(reader)
    gpus = _gpus(reader, answers) if state == "ok" else ()
    if state == "ok":
        _compare(reader, gpus, pci)
        _compare_nodes(reader, gpus, node_of or {})
        if visible is not None and (why := why_not_clear(visible, order, gpus)):
            reader.gap("gpu.visible", "CUDA_VISIBLE_DEVICES", why)
    elif pci or state != "no-library":  # no driver where there is no GPU is how a bake host should be
        reader.gap("gpu.gpus", "NVML", f"{init}; the PCI bus lists {len(pci)} NVIDIA GPUs")
    facts = GpuFacts(
        nvml=state,
        detail=_detail(state, init, answers, module),
        driver_version=_text(reader, "gpu.driver_version", answers, "driver") if state == "ok" else module,
        cuda_version=_text(reader, "gpu.cuda_version", answers, "cuda_version") if state == "ok" else None,
        gpus=gpus,
        pci_bus_ids=pci,
        visible=visible,
        device_order=order,
        cpus_of_pid=_cpus_of_pids(reader, gpus),
    )
    return facts, reader.gaps


def normal_bus_id(text: str) -> str:
    """Return a PCI address as sysfs names it: "00000000:3B:00.0" is "0000:3b:00.0", "0000000F:01:00" "000f:01:00.0".

    Raises:
        ValueError: not a PCI address.
    """
    match = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a PCI address")
    domain, bus, device, function = match.groups(default="0")
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def nvidia_bus_ids(host: Host) -> tuple[str, ...]:
    """Return where NVIDIA GPUs are on the PCI bus; asks no driver."""
    return _pci_bus_ids(Reader(host))


def _pci_bus_ids(reader: Reader) -> tuple[str, ...]:
    found = []
    for name in reader.names(_PCI):
        vendor = reader.optional(f"{_PCI}/{name}/vendor")
        if vendor is None or vendor.strip() != _NVIDIA:
            continue
        kind = reader.text(f"gpu.pci.{name}", f"{_PCI}/{name}/class")
        if kind is not None and kind.startswith(_DISPLAY_CLASSES):
            found.append(name)
    return tuple(found)


def _gpus(reader: Reader, answers: Answers) -> tuple[Gpu, ...]:
    listed = answers.get("gpus", [])
    if not isinstance(listed, list):
        reader.gap("gpu.gpus", "NVML", _error(listed) or "not a list")
        return ()
    found = []
    for place, entry in enumerate(listed):
        if not isinstance(entry, dict) or "error" in entry:
            index = entry.get("index", place) if isinstance(entry, dict) else place
            reader.gap(f"gpu.gpus.{index}", "NVML", _error(entry) or "not an object")
        else:
            found.append(_gpu(reader, place, entry))
    return tuple(found)


def _gpu(reader: Reader, place: int, entry: Answers) -> Gpu:
    listed = _whole(entry.get("index"))
    index = place if listed is None else listed
    fact = f"gpu.gpus.{index}"
    name = _text(reader, f"{fact}.name", entry, "name") or ""
    bus_id = _bus_id(reader, fact, entry)
    unified = _UNIFIED.search(name) is not None and _memory_refused(entry)
    total, used = _host_memory(reader) if unified else _own_memory(reader, fact, entry)
    return Gpu(
        index=index,
        name=name,
        uuid=_text(reader, f"{fact}.uuid", entry, "uuid") or "",
        bus_id=bus_id,
        memory_total_bytes=total,
        memory_used_bytes=used,
        compute_capability=_capability(reader, fact, entry),
        numa_node=_numa_node(reader, fact, bus_id, entry),
        cpu_affinity=_affinity(reader, fact, entry),
        mig=_mig(reader, fact, entry),
        unified=unified,
        processes=_processes(reader, fact, entry),
        mig_slices=_slices(reader, fact, entry),
    )


def _bus_id(reader: Reader, fact: str, entry: Answers) -> str:
    text = _text(reader, f"{fact}.bus_id", entry, "bus_id")
    try:
        return normal_bus_id(text) if text else ""
    except ValueError as exc:
        reader.gap(f"{fact}.bus_id", "NVML", str(exc))
        return ""


def _memory_refused(entry: Answers) -> bool:
    return any(_error(entry.get(key)) == "NOT_SUPPORTED" for key in ("mem", "mem_total"))


def _own_memory(reader: Reader, fact: str, entry: Answers) -> tuple[int | None, int | None]:
    """Return total and used bytes; used counts what the driver keeps for itself, so that the rest is free."""
    if error := _error(entry.get("mem")):
        reader.gap(f"{fact}.memory_total_bytes", "NVML", error)
        reader.gap(f"{fact}.memory_used_bytes", "NVML", error)
        return None, None
    return (
        _number(reader, f"{fact}.memory_total_bytes", entry, "mem_total"),
        _number(reader, f"{fact}.memory_used_bytes", entry, "mem_used"),
    )


def _host_memory(reader: Reader) -> tuple[int | None, int | None]:
    """Return the machine's memory for a GPU that has none of its own: what is not available is used."""
    found = kib_lines(reader.text("gpu.unified_memory", MEMINFO) or "")
    total, available = found.get("MemTotal"), found.get("MemAvailable")
    return total, None if total is None or available is None else total - available


def _numa_node(reader: Reader, fact: str, bus_id: str, entry: Answers) -> int | None:
    """Return the node of the PCI device; where sysfs does not know, the node of the GPU's memory that NVML tells.

    The latter may be a node without CPUs (Grace). -1 in sysfs is "not known", not a node.
    """
    source = f"{_PCI}/{bus_id}/numa_node"
    node = node_number(reader, source) if bus_id else None
    if node is not None:
        return node
    told = _whole(entry.get("numa_node_id"))
    if told is not None and told >= 0:
        return told
    text = reader.optional(source) if bus_id else None
    why = "-1: the machine does not say" if text is not None and whole_number(text) is not None else "not readable"
    reader.gap(f"{fact}.numa_node", source if bus_id else "NVML", why)
    return None


def _affinity(reader: Reader, fact: str, entry: Answers) -> tuple[int, ...] | None:
    """Return the CPUs near the GPU; an empty list (all of them outside a cpuset) is an answer, None is none."""
    text = _text(reader, f"{fact}.cpu_affinity", entry, "cpu_affinity")
    return None if text is None else reader.parsed_list(f"{fact}.cpu_affinity", "NVML", text)


def _capability(reader: Reader, fact: str, entry: Answers) -> tuple[int, int] | None:
    text = _text(reader, f"{fact}.compute_capability", entry, "cc")
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", text)
    if match is None:
        reader.gap(f"{fact}.compute_capability", "NVML", f"{text!r} is not major.minor")
        return None
    return int(match.group(1)), int(match.group(2))


def _processes(reader: Reader, fact: str, entry: Answers) -> tuple[int, ...]:
    listed = entry.get("procs", [])
    if not isinstance(listed, list):
        reader.gap(f"{fact}.processes", "NVML", _error(listed) or "not a list")
        return ()
    pids = (p.get("pid") if isinstance(p, dict) else p for p in listed)
    return tuple(sorted(pid for pid in map(_whole, pids) if pid is not None))


def _mig(reader: Reader, fact: str, entry: Answers) -> bool:
    error = _error(entry.get("mig"))
    if error is not None and error != "NOT_SUPPORTED":  # a part without MIG says so
        reader.gap(f"{fact}.mig", "NVML", error)
    return entry.get("mig") is True


def _slices(reader: Reader, fact: str, entry: Answers) -> tuple[MigSlice, ...]:
    listed = entry.get("instances", [])
    if not isinstance(listed, list):
        reader.gap(f"{fact}.mig_slices", "NVML", _error(listed) or "not a list")
        return ()
    return tuple(_slice(reader, f"{fact}.mig_slices.{n}", s) for n, s in enumerate(listed) if isinstance(s, dict))


def _slice(reader: Reader, fact: str, entry: Answers) -> MigSlice:
    return MigSlice(
        uuid=_text(reader, f"{fact}.uuid", entry, "uuid") or "",
        profile=_text(reader, f"{fact}.profile", entry, "name") or "",
        memory_total_bytes=_number(reader, f"{fact}.memory_total_bytes", entry, "mem_total"),
        gpu_instance=_whole(entry.get("gi")),
        compute_instance=_whole(entry.get("ci")),
    )


def _compare(reader: Reader, gpus: Iterable[Gpu], pci: tuple[str, ...]) -> None:
    """Note every GPU that only one of the two witnesses knows: one off the bus is seen by neither or by one."""
    listed = {gpu.bus_id for gpu in gpus if gpu.bus_id}
    for bus_id in pci:
        if bus_id not in listed:
            reader.gap(f"gpu.pci.{bus_id}", "NVML", f"on the PCI bus, but not among the {len(listed)} GPUs of NVML")
    if not pci and reader.host.exists(PARAVIRTUAL):
        return
    for bus_id in sorted(listed - set(pci)):
        reader.gap(f"gpu.pci.{bus_id}", _PCI, "NVML lists it, sysfs does not")


def _compare_nodes(reader: Reader, gpus: Iterable[Gpu], node_of: Mapping[int, int]) -> None:
    """Note every GPU that NVML calls near to CPUs of other nodes than the one its PCI device is on."""
    for gpu in gpus:
        near = {node_of[cpu] for cpu in gpu.cpu_affinity or () if cpu in node_of}
        with_cpus = gpu.numa_node in set(node_of.values())
        if near and with_cpus and gpu.numa_node not in near:
            nodes = ", ".join(map(str, sorted(near)))
            why = f"the PCI bus says node {gpu.numa_node}, NVML's CPUs are of node {nodes}"
            reader.gap(f"gpu.gpus.{gpu.index}.locality", "NVML and sysfs", why)


def _cpus_of_pids(reader: Reader, gpus: Iterable[Gpu]) -> Mapping[int, tuple[int, ...]]:
    """Return the CPUs of each process that NVML lists; none for one of another pid namespace."""
    found: dict[int, tuple[int, ...]] = {}
    for pid in sorted({pid for gpu in gpus for pid in gpu.processes}):
        match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", reader.optional(f"/proc/{pid}/status") or "", re.MULTILINE)
        cpus = reader.parsed_list(f"gpu.cpus_of_pid.{pid}", f"/proc/{pid}/status", match.group(1)) if match else None
        if cpus:
            found[pid] = cpus
    return found


def _module_version(reader: Reader) -> str | None:
    text = reader.optional(_MODULE_VERSION) or ""
    match = re.search(r"^NVRM version:.*?\s(\d+(?:\.\d+)+)\s", text, re.MULTILINE)
    return match.group(1) if match else None


def _detail(state: NvmlState, init: str, answers: Answers, module: str | None) -> str:
    told = answers.get("detail")
    match state:
        case "ok":
            return ""
        case "no-library":
            return "libnvidia-ml.so.1 is not installed"
        case "no-driver":
            return "the library is installed, the kernel module is not loaded"
        case "mismatch":
            library = answers.get("library")
            return (
                f"loaded module {module or 'of unknown version'}, "
                f"library {library if isinstance(library, str) and library else 'of another version'}: "
                "reload the driver or reboot"
            )
        case "hung":
            return f"NVML does not answer{f': {told}' if isinstance(told, str) else ''}"
        case "error":
            return f"NVML says {init}{f': {told}' if isinstance(told, str) else ''}"


def _text(reader: Reader, fact: str, entry: Answers, key: str) -> str | None:
    value = entry.get(key)
    if isinstance(value, str):
        return value
    reader.gap(fact, "NVML", _error(value) or ("no answer" if value is None else f"{value!r} is not a text"))
    return None


def _number(reader: Reader, fact: str, entry: Answers, key: str) -> int | None:
    value = entry.get(key)
    if (number := _whole(value)) is not None:
        return number
    reader.gap(fact, "NVML", _error(value) or ("no answer" if value is None else f"{value!r} is not a number"))
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error(value: object) -> str | None:
    """Return NAME of {"error": NAME}; None for any other value."""
    if isinstance(value, dict) and "error" in value:
        return str(value["error"]).removeprefix(_ERROR_PREFIX)
    return None
