"""Injects faults into the tree of a machine, so that what doctor says of them can be seen without a sick machine.

As a program: `python tests/nodes/faults.py TREE FAULT…` changes a tree that `kboot facts --record` or these tests
wrote; `kboot doctor --root TREE` then finds it. Without a fault it lists those there are.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNITS = "sys/fs/cgroup/system.slice"
_FABRIC = {"clique_id": 0, "cluster_uuid": "00000000-0000-0000-0000-000000000000"}


def kernel_says(root: Path, *lines: str) -> None:
    """Add lines to the kernel log."""
    log = root / "dmesg.txt"
    before = log.read_text() if log.exists() else ""
    log.write_text(before + "".join(f"[{4000 + n:5d}.000000] {line}\n" for n, line in enumerate(lines)))


def change_nvml(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change NVML's answers."""
    file = root / "nvml.json"
    answers = json.loads(file.read_text())
    change(answers)
    file.write_text(json.dumps(answers))


def change_file(root: Path, path: str, change: Callable[[str], str]) -> None:
    """Change a file of the tree; one that is not there is empty."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(change(file.read_text() if file.exists() else ""))


def bus_of(root: Path, index: int) -> str:
    """Return a GPU's address as the kernel log has it: "PCI:0000:1a:00"."""
    bus = json.loads((root / "nvml.json").read_text())["gpus"][index]["bus_id"].lower()
    return f"PCI:{bus[-12:].rpartition('.')[0]}"


def xid(root: Path, code: int = 79, says: str = "GPU has fallen off the bus.") -> None:
    """The driver reports a fault of the last GPU."""
    kernel_says(root, f"NVRM: Xid ({bus_of(root, -1)}): {code}, pid='<unknown>', name=<unknown>, {says}")


def sxid(root: Path) -> None:
    """A switch reports a fatal fault of a link."""
    kernel_says(root, "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")


def lost_gpu(root: Path) -> None:
    """The last GPU does not answer any more, although the bus lists it."""
    change_nvml(root, lambda a: a["gpus"].__setitem__(-1, {"index": len(a["gpus"]) - 1, "error": "GPU_IS_LOST"}))


def hung_nvml(root: Path) -> None:
    """The driver gives no answer within any deadline."""
    (root / "nvml.json").write_text('{"nvml_init": "TIMEOUT", "detail": "no answer in 10 s"}')


def read_only(root: Path) -> None:
    """The kernel met errors on the root file system and switched it to read-only."""
    kernel_says(root, "EXT4-fs (nvme0n1p2): Remounting filesystem read-only")
    change_file(
        root, "proc/self/mountinfo", lambda t: re.sub(r" / / rw(\S*) - (\S+) (\S+) rw", r" / / ro\1 - \2 \3 ro", t)
    )


def full_disk(root: Path) -> None:
    """Nothing can be written on the root file system any more."""
    space = json.loads((root / "disk_space.json").read_text())
    space["/"] |= {"free": 0}
    (root / "disk_space.json").write_text(json.dumps(space))


def no_inodes(root: Path) -> None:
    """There is room, but no file can be made."""
    space = json.loads((root / "disk_space.json").read_text())
    space["/"] |= {"inodes": 3}
    (root / "disk_space.json").write_text(json.dumps(space))


def dead_fabric_manager(root: Path) -> None:
    """Its unit has failed, and no GPU of this NVSwitch machine is registered."""

    def change(answers: dict[str, Any]) -> None:
        for gpu in answers["gpus"]:
            fabric = {"state": "not-started", "status": "SYSTEM_NOT_READY", **_FABRIC}
            gpu["health"] = {**gpu.get("health", {}), "fabric": fabric, "persistence": True}

    change_nvml(root, change)
    change_file(root, f"{_UNITS}/nvidia-fabricmanager.service/cgroup.procs", lambda _: "")


def cuda_refused(root: Path) -> None:
    """NVML lists every GPU, and no program can start CUDA: the fabric is not set up yet."""
    (root / "cuda.json").write_text('{"cuda_init": "SYSTEM_NOT_READY", "code": 802}')


def cut_peers(root: Path) -> None:
    """All NVLinks are up, and the first GPU reaches no other."""
    buses = [gpu["bus_id"][-12:].lower() for gpu in json.loads((root / "nvml.json").read_text())["gpus"]]
    devices = [{"bus_id": b, "peers": {o: buses[0] not in (b, o) for o in buses if o != b}} for b in buses]
    (root / "cuda.json").write_text(json.dumps({"cuda_init": "OK", "devices": devices}))

    def change(answers: dict[str, Any]) -> None:
        for gpu in answers["gpus"]:
            gpu["health"] = {**gpu.get("health", {}), "nvlinks": [True] * 18}

    change_nvml(root, change)


def other_fabric_manager(root: Path) -> None:
    """The fabric manager was upgraded and the driver was not; systemd starts it again and again."""
    unit = "systemctl show nvidia-fabricmanager.service --property=ActiveState,NRestarts"
    printed = {
        "nv-fabricmanager --version": "Fabric Manager version is : 999.1\n",
        unit: "ActiveState=failed\nNRestarts=5\n",
    }
    file = root / "programs.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | {line: {"status": 0, "text": text} for line, text in printed.items()}))
    dead_fabric_manager(root)


def mismatched_library(root: Path) -> None:
    """The driver's library was upgraded under the loaded module."""
    (root / "nvml.json").write_text('{"nvml_init": "LIB_RM_VERSION_MISMATCH", "library": "590.44.01"}')


def io_errors(root: Path) -> None:
    """A disk cannot read some of its blocks."""
    kernel_says(root, "critical medium error, dev nvme1n1, sector 123456 op 0x0:(READ) flags 0x80700")


def killed_for_memory(root: Path) -> None:
    """The kernel ended a process to get memory back."""
    kernel_says(root, "Out of memory: Killed process 4711 (python3) total-vm:900000000kB, anon-rss:700000000kB")


def refused_module(root: Path) -> None:
    """Secure boot is on, and the driver is not signed with a key that this machine knows."""
    kernel_says(root, "Loading of unsigned module is rejected")
    (root / "nvml.json").write_text('{"nvml_init": "DRIVER_NOT_LOADED"}')
    change_file(root, "sys/module/ext4/refcnt", lambda _: "1")
    variable = root / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    variable.parent.mkdir(parents=True, exist_ok=True)
    variable.write_bytes(b"\x06\x00\x00\x00\x01")


def lost_mount(root: Path) -> None:
    """A disk of /etc/fstab was not there in time; its mount point is a folder on the root disk."""
    change_file(root, "etc/fstab", lambda text: f"{text}UUID=1 /var/lib/kboot xfs nofail 0 2\n")


def stuck_process(root: Path) -> None:
    """A process waits for a file server that does not answer, and the kernel says so."""
    rest = " ".join(str(n) for n in range(3, 52))
    change_file(root, "proc/4711/stat", lambda _: f"4711 (vllm) D {rest}\n")
    change_file(root, "proc/4711/wchan", lambda _: "rpc_wait_bit_killable")
    kernel_says(root, "INFO: task vllm:4711 blocked for more than 122 seconds.")


FAULTS: dict[str, Callable[[Path], None]] = {
    "cuda-refused": cuda_refused,
    "cut-peers": cut_peers,
    "dead-fabric-manager": dead_fabric_manager,
    "full-disk": full_disk,
    "hung-nvml": hung_nvml,
    "io-errors": io_errors,
    "killed-for-memory": killed_for_memory,
    "lost-gpu": lost_gpu,
    "lost-mount": lost_mount,
    "mismatched-library": mismatched_library,
    "no-inodes": no_inodes,
    "other-fabric-manager": other_fabric_manager,
    "read-only": read_only,
    "refused-module": refused_module,
    "stuck-process": stuck_process,
    "sxid": sxid,
    "xid": xid,
}


def main(argv: list[str]) -> int:
    """Inject the faults that are named into a tree."""
    if len(argv) < 2 or not set(argv[1:]) <= set(FAULTS):
        print(f"usage: faults.py TREE FAULT…\nfaults: {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    for name in argv[1:]:
        FAULTS[name](Path(argv[0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
