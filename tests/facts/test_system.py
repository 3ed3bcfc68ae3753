"""Settings and counters of the kernel become values; what this kernel lacks is absent, not wrong."""

from __future__ import annotations

from pathlib import Path

from kboot.facts.system import collect_system
from kboot.facts.system_types import SystemFacts
from kboot.facts.types import Mount
from kboot.host.recorded import RecordedHost

MOUNTS = (Mount("state", "/data/kboot", "/data", "ext4", "/dev/md0", False, 1, 1, 1),)
FILES = {
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise never",
    "proc/sys/kernel/numa_balancing": "1",
    "proc/sys/vm/overcommit_memory": "2",
    "proc/sys/vm/max_map_count": "65530",
    "sys/devices/system/edac/mc/mc0/ce_count": "3",
    "sys/devices/system/edac/mc/mc0/ue_count": "0",
    "sys/devices/system/edac/mc/mc1/ce_count": "4",
    "sys/devices/system/edac/mc/mc1/ue_count": "1",
    "sys/devices/system/edac/mc/power/control": "auto",
    "proc/self/cgroup": "0::/system.slice/kboot.service",
    "sys/fs/cgroup/system.slice/kboot.service/pids.current": "40",
    "sys/fs/cgroup/system.slice/kboot.service/pids.max": "max",
    "sys/fs/cgroup/system.slice/pids.current": "900",
    "sys/fs/cgroup/system.slice/pids.max": "1000",
    "proc/pressure/io": "some avg60=8.00 total=5\nfull avg10=0.00 avg60=12.50 avg300=1.00 total=5",
    "proc/cmdline": "ro numa=off",
    "proc/self/mountinfo": "1 0 9:0 / /data rw,noexec - ext4 /dev/md0 rw\n2 0 9:1 / /srv rw,noexec - ext4 /dev/md1 rw",
    "sys/module/nvidia_peermem/refcnt": "0",
    "proc/sys/net/netfilter/nf_conntrack_count": "12",
    "proc/sys/net/netfilter/nf_conntrack_max": "1024",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456",
}


def tree(root: Path, files: dict[str, str]) -> RecordedHost:
    """Write a recorded machine."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    return RecordedHost(root)


def test_every_setting_is_read(tmp_path: Path) -> None:
    """Sums over memory controllers, the cgroup with the fewest pids left, the noexec mounts that are ours."""
    facts, gaps = collect_system(tree(tmp_path, FILES), MOUNTS)

    assert (
        SystemFacts(
            thp={"enabled": "madvise", "defrag": "always"},
            numa_balancing=1,
            overcommit=2,
            max_map_count=65530,
            edac={"corrected": 7, "uncorrected": 1},
            pids=(900, 1000),
            stalled_percent={"io": 12.5},
            command_line=("ro", "numa=off"),
            noexec=("/data",),
            modules=frozenset({"nvidia_peermem"}),
            conntrack=(12, 1024),
            tcp_receive_bytes=6291456,
        )
        == facts
    )
    assert () == gaps


def test_a_machine_that_tells_nothing_has_no_value_and_no_gap(tmp_path: Path) -> None:
    """Containers and recordings lack most of these files."""
    assert (SystemFacts(), ()) == collect_system(tree(tmp_path, {"proc/x": ""}), MOUNTS)


def test_a_thread_limit_nobody_set_is_no_limit(tmp_path: Path) -> None:
    """Where every level says max, the innermost count is told."""
    folder = "sys/fs/cgroup/system.slice/kboot.service"
    files = {"proc/self/cgroup": FILES["proc/self/cgroup"], f"{folder}/pids.current": "40", f"{folder}/pids.max": "max"}
    facts, _ = collect_system(tree(tmp_path, files), ())

    assert (40, None) == facts.pids
