"""The collectors one by one, where a whole machine would hide the point."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from kboot import __version__
from kboot.facts.caches import collect_caches
from kboot.facts.cpu import collect_cpu
from kboot.facts.engine import collect_engine
from kboot.facts.gpu import collect_gpu, normal_bus_id
from kboot.facts.memory import collect_memory
from kboot.facts.mounts import MOUNTINFO
from kboot.facts.numa import collect_numa
from kboot.facts.os import collect_os
from kboot.facts.storage import collect_storage
from kboot.facts.tune import collect_tune, setting_value
from kboot.facts.types import NvmlState
from kboot.host.paths import find_paths
from kboot.host.recorded import RecordedHost
from kboot.host.types import DiskSpace


def tree(root: Path, files: dict[str, str]) -> RecordedHost:
    """Write the files and return a host that reads them."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return RecordedHost(root)


_BIND = "505 496 254:1 %s /etc/hosts rw,relatime - ext4 /dev/vda1 rw"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"/.dockerenv": ""}, "docker"),
        ({"/run/.containerenv": ""}, "podman"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"/proc/1/environ": "PATH=/bin\0container=lxc\0"}, "lxc"),
        ({"/proc/1/environ": "not_container=x\0"}, None),
        ({"/proc/self/cgroup": "0::/kubepods.slice/pod7", "/.dockerenv": ""}, "kubernetes"),
        # tidb#38659, mock#986: with a cgroup namespace the path is "/"
        ({"/proc/self/cgroup": "0::/", MOUNTINFO: f"{_BIND % '/var/lib/kubelet/pods/3f/etc-hosts'}"}, "kubernetes"),
        ({"/proc/self/cgroup": "0::/", MOUNTINFO: f"{_BIND % '/docker/containers/6682/hosts'}"}, "docker"),
        ({"/proc/self/cgroup": "0::/", MOUNTINFO: "9 1 0:5 / /var/lib/kubelet/pods/3f/x rw - tmpfs t rw"}, None),
    ],
)
def test_the_container_is_named(tmp_path: Path, files: dict[str, str], expected: str | None) -> None:
    """By what its manager leaves; a plain machine has none."""
    assert expected == collect_os(tree(tmp_path, files))[0].container


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", True),
        ("0::/system.slice/node1_slurmstepd.scope/job_7/step_0", True),  # treydock/cgroup_exporter#30
        ("0::/system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0", True),  # slurm-job-exporter#66: from 26.05 on
        ("9:devices:/slurm/uid_1000/job_7/step_0", True),
        ("9:devices:/slurm_node1/uid_1000/job_7/step_0", True),
        ("0::/system.slice/slurmd.service", False),
        ("0::/user.slice/user-1000.slice", False),
    ],
)
def test_a_job_of_slurm_is_told_by_its_cgroup(tmp_path: Path, path: str, expected: bool) -> None:
    """Not by the environment, which a service that was started in a job has too."""
    assert expected == collect_os(tree(tmp_path, {"/proc/self/cgroup": path}))[0].slurm_job


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/sys/kernel/arch": "aarch64\n"}, "aarch64"),
        ({"/proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\n"}, "x86_64"),
        ({"/proc/cpuinfo": "processor\t: 0\nCPU architecture: 8\n"}, "aarch64"),
        ({"/proc/cpuinfo": "cpu : POWER9\n"}, ""),
    ],
)
def test_the_architecture_is_told_or_a_gap(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    """Kernels before 6.1 do not say it in /proc/sys."""
    facts, gaps = collect_os(tree(tmp_path, files))

    assert (expected, expected == "") == (facts.machine, "os.machine" in {gap.fact for gap in gaps})


def test_huge_pages_of_every_size_count(tmp_path: Path) -> None:
    """B174: what huge pages hold is told apart; older kernels only say it for the default size."""
    new = collect_memory(tree(tmp_path / "new", {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 5 kB\nHugetlb: 4 kB"}))
    old = collect_memory(
        tree(
            tmp_path / "old",
            {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 5 kB\nHugePages_Total:     600\nHugepagesize: 2048 kB"},
        )
    )

    assert (4096, 600 * 2048 * 1024) == (new[0].hugepages_bytes, old[0].hugepages_bytes)


def test_memory_without_an_available_line_is_zero_and_a_gap(tmp_path: Path) -> None:
    """MemFree is not MemAvailable and does not stand in for it."""
    facts, gaps = collect_memory(tree(tmp_path, {"/proc/meminfo": "MemTotal: 9 kB\nMemFree: 5 kB"}))

    assert (9216, 0) == (facts.total_bytes, facts.available_bytes)
    assert {"memory.available_bytes", "memory.shm"} == {gap.fact for gap in gaps}


def test_the_mount_behind_a_link_is_the_one_that_counts(tmp_path: Path) -> None:
    """/var/lib/kboot may lead to another disk; escapes in mount points are read, the longest match wins."""
    host = tree(
        tmp_path,
        {
            "/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
            "2 1 9:1 / /mnt/big\\040disk ro,noatime - xfs /dev/md0 rw\n"
            "3 1 0:9 / /run rw - tmpfs tmpfs rw",
            "/disk_space.json": json.dumps({"/": {"total": 9, "free": 8, "inodes": 7}}),
            "/mnt/big disk/kboot/x": "",
        },
    )
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/kboot").symlink_to("../../mnt/big disk/kboot")

    mounts, gaps = collect_storage(host, find_paths(tmp_path, {}, 0))

    assert [
        ("state", "/mnt/big disk", "xfs", "/dev/md0", True),
        ("cache", "/mnt/big disk", "xfs", "/dev/md0", True),
        ("runtime", "/run", "tmpfs", "tmpfs", False),
    ] == [(m.role, m.mount_point, m.fs_type, m.device, m.read_only) for m in mounts]
    assert () == gaps


class _OnDemand(RecordedHost):
    """A machine whose disk is mounted when somebody first looks at it (x-systemd.automount)."""

    def disk_space(self, path: str) -> DiskSpace:
        behind = "3 2 259:9 / /var/lib/kboot rw - nfs4 server:/models rw\n"
        with (self.root / "proc/self/mountinfo").open("a") as file:
            file.write(behind)
        return super().disk_space(path)


def test_what_is_mounted_on_demand_is_seen_as_what_it_is(tmp_path: Path) -> None:
    """aws/efs-utils#13: before the first look there is autofs, and after it the file server."""
    tree(
        tmp_path,
        {
            "/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
            "2 1 0:9 / /var/lib/kboot rw - autofs systemd-1 rw\n",
            "/disk_space.json": json.dumps({"/": {"total": 9, "free": 8, "inodes": 7}}),
        },
    )

    state, *_ = collect_storage(_OnDemand(tmp_path), find_paths(tmp_path, {}, 0))[0]

    assert ("nfs4", "server:/models") == (state.fs_type, state.device)


def test_a_caches_factors_and_completeness_are_read(tmp_path: Path) -> None:
    """Folders without factors are not kboot's; a broken one is a gap and not a cache."""
    top = "/var/lib/kboot/cache"
    host = tree(
        tmp_path,
        {
            f"{top}/b/factors.json": '{"torch": "2.11", "engine": "vllm"}',
            f"{top}/b/complete": "",
            f"{top}/a/factors.json": "{}",
            f"{top}/torn/factors.json": '{"torch',
            f"{top}/typed/factors.json": '{"torch": 2}',
            f"{top}/other/x": "",
        },
    )

    facts, gaps = collect_caches(host, find_paths(tmp_path, {}, 0))

    assert ({"a": {}, "b": {"engine": "vllm", "torch": "2.11"}}, {"b"}) == (facts.factors_of, facts.complete)
    assert ["caches.torn", "caches.typed"] == [gap.fact for gap in gaps]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("always [madvise] never", "madvise"),
        ("60", "60"),
        ("4096\t131072\t6291456", "4096 131072 6291456"),
        ("", ""),
        ("[only]", "[only]"),
    ],
)
def test_a_settings_value_is_the_chosen_word(text: str, expected: str) -> None:
    """The kernel brackets the choice; everything else is its own value."""
    assert expected == setting_value(text)


def test_settings_this_kernel_does_not_have_are_left_out(tmp_path: Path) -> None:
    """Absent is no gap; asked twice is read once."""
    host = tree(tmp_path, {"/proc/sys/vm/swappiness": "60\n"})

    facts, gaps = collect_tune(host, ("/proc/sys/vm/swappiness", "/proc/sys/vm/no", "/proc/sys/vm/swappiness"))

    assert ({"/proc/sys/vm/swappiness": "60"}, ()) == (facts.value_of, gaps)


SITE = "/opt/vllm/lib/python3.12/site-packages"
INSTALLED = {
    "/opt/vllm/bin/python3": "",
    "/opt/vllm/bin/vllm": "#!/opt/vllm/bin/python3\nimport sys\n",
    f"{SITE}/vllm-0.26.0.dist-info/METADATA": "Name: vllm\nVersion: 0.26.0+cu130\n\nVersion: not this\n",
    f"{SITE}/torch-2.11.0+cu130.dist-info/METADATA": "",
    f"{SITE}/flashinfer_python-0.6.12.dist-info/METADATA": "",
    f"{SITE}/requests-2.32.0.dist-info/METADATA": "",
}


@pytest.mark.parametrize("name", [None, "vllm"])
def test_an_engine_is_found_by_its_commands_interpreter(tmp_path: Path, name: str | None) -> None:
    """Version from METADATA, packages that matter for caches from folder names, nothing imported."""
    facts, _ = collect_engine(tree(tmp_path, INSTALLED), name, None)

    assert ("vllm", "0.26.0+cu130", "/opt/vllm/bin/python3") == (facts.name, facts.version, facts.interpreter)
    assert {"vllm": "0.26.0+cu130", "torch": "2.11.0+cu130", "flashinfer-python": "0.6.12"} == facts.packages


@pytest.mark.parametrize(
    "script",
    [
        "#!/usr/bin/env python3\n",
        "#!/bin/sh\n'''exec' \"/opt/vllm/bin/python3\" \"$0\" \"$@\"\n' '''\n",
        "\x7fELF",
    ],
)
def test_every_kind_of_command_leads_to_its_interpreter(tmp_path: Path, script: str) -> None:
    """`env`, the long-path form of installers, and a binary with a Python beside it."""
    facts, _ = collect_engine(tree(tmp_path, INSTALLED | {"/opt/vllm/bin/vllm": script}), "vllm", None)

    assert ("0.26.0+cu130", "/opt/vllm/bin/python3") == (facts.version, facts.interpreter)


def test_an_interpreter_that_was_named_is_the_only_one_asked(tmp_path: Path) -> None:
    """The operator's choice without the engine is "not installed", not another environment's."""
    facts, gaps = collect_engine(tree(tmp_path, INSTALLED), "vllm", "/opt/other/bin/python")

    assert (None, "/opt/other/bin/python", ()) == (facts.version, facts.interpreter, gaps)


def test_packages_in_folders_that_a_pth_file_adds_are_the_environments(tmp_path: Path) -> None:
    """An environment that joins an engine of its own with the image's torch; Python takes the first of two."""
    lines = "# layers\nimport hook\n/srv/site\n\n../../../../torch/site\n"
    files = {
        "/opt/join/bin/vllm": "#!/opt/join/bin/python3\n",
        "/opt/join/lib/python3.12/site-packages/all.pth": lines,
        "/srv/site/vllm-0.26.0.dist-info/METADATA": "Version: 0.26.0\n",
        "/srv/site/triton-3.6.0.dist-info/METADATA": "Version: 3.6.0\n",
        "/opt/torch/site/torch-2.11.0.dist-info/RECORD": "torch/a.py,sha256=x,1\n",
        "/opt/torch/site/triton-3.5.0.dist-info/METADATA": "Version: 3.5.0\n",
    }
    facts, gaps = collect_engine(tree(tmp_path, files), None, None)

    assert ("vllm", "0.26.0", "/opt/join/bin/python3", ()) == (facts.name, facts.version, facts.interpreter, gaps)
    assert {"vllm": "0.26.0", "torch": "2.11.0", "triton": "3.6.0"} == facts.packages
    assert ["torch"] == list(facts.builds)


def test_engines_that_are_not_packages(tmp_path: Path) -> None:
    """The demo engine is kboot's own; a command line has no version; nothing installed is no error."""
    host = tree(tmp_path, {})

    assert __version__ == collect_engine(host, "demo", None)[0].version
    assert [None, None] == [collect_engine(host, name, None)[0].version for name in ("command", None)]


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("OK", "ok"),
        ("LIBRARY_NOT_FOUND", "no-library"),
        ("DRIVER_NOT_LOADED", "no-driver"),
        ("NVML_ERROR_LIB_RM_VERSION_MISMATCH", "mismatch"),
        ("TIMEOUT", "hung"),
        ("CRASHED", "error"),
        ("GPU_NOT_FOUND", "error"),
    ],
)
def test_each_answer_of_init_is_one_state(tmp_path: Path, init: str, expected: NvmlState) -> None:
    """Whatever the driver's state, it has a name and, unless all is well, a sentence."""
    facts, _ = collect_gpu(tree(tmp_path, {}), {"nvml_init": init, "gpus": []})

    assert (expected, expected == "ok") == (facts.nvml, facts.detail == "")


def test_a_hung_driver_beside_gpus_on_the_bus_is_a_gap(tmp_path: Path) -> None:
    """B155: GPUs that nobody can talk to are not "no GPU": the bus still lists them."""
    device = "/sys/bus/pci/devices/0000:31:00.0"
    host = tree(tmp_path, {f"{device}/vendor": "0x10de\n", f"{device}/class": "0x030200\n"})

    facts, gaps = collect_gpu(host, {"nvml_init": "TIMEOUT"})

    assert ("hung", ("0000:31:00.0",)) == (facts.nvml, facts.pci_bus_ids)
    assert ["TIMEOUT; the PCI bus lists 1 NVIDIA GPUs"] == [gap.reason for gap in gaps]


def test_nvml_that_could_not_be_asked_is_a_state_too(tmp_path: Path) -> None:
    """No process could be started, or the record is broken."""
    facts, gaps = collect_gpu(tree(tmp_path, {}), OSError(11, "Resource temporarily unavailable"))

    assert ("error", ["Resource temporarily unavailable"]) == (facts.nvml, [gap.reason for gap in gaps])


def test_every_value_may_be_an_error_or_absent(tmp_path: Path) -> None:
    """A GPU of errors is still a GPU, with a gap for each value."""
    keys = (
        "name",
        "uuid",
        "bus_id",
        "cc",
        "mem_total",
        "mem_used",
        "cpu_affinity",
        "numa_node_id",
        "procs",
        "instances",
    )
    errors = {key: {"error": "NVML_ERROR_UNKNOWN"} for key in keys}
    for entry in (errors, {}, {key: [1] for key in keys}, dict.fromkeys(keys, True)):
        facts, gaps = collect_gpu(tree(tmp_path, {}), {"gpus": [{"index": 3, **entry}]})

        (gpu,) = facts.gpus
        assert (3, "", None, None, None) == (
            gpu.index,
            gpu.name,
            gpu.memory_total_bytes,
            gpu.cpu_affinity,
            gpu.numa_node,
        )
        assert {"gpu.gpus.3.name", "gpu.gpus.3.memory_used_bytes", "gpu.gpus.3.numa_node"} <= {gap.fact for gap in gaps}


@pytest.mark.parametrize("gpus", [{"error": "UNKNOWN"}, "8", [None, 5], [{"index": 0, "error": "GPU_IS_LOST"}]])
def test_a_list_that_is_none_is_a_gap(tmp_path: Path, gpus: object) -> None:
    """No GPU is made of what is not one."""
    facts, gaps = collect_gpu(tree(tmp_path, {}), {"gpus": gpus})

    assert ((), True) == (facts.gpus, any(gap.fact.startswith("gpu.gpus") for gap in gaps))


def test_processes_are_pids_in_either_form(tmp_path: Path) -> None:
    """nvml.json lists numbers or objects with a pid."""
    entry = {"index": 0, "procs": [{"pid": 2202, "used": 75161927680}, 17]}

    assert (17, 2202) == collect_gpu(tree(tmp_path, {}), {"gpus": [entry]})[0].gpus[0].processes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3b:00.0", "0000:3b:00.0"),
        ("0000:0B:00", "0000:0b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_short_and_wide_bus_ids(text: str, expected: str) -> None:
    """Without domain or function, and a domain wider than four digits."""
    assert expected == normal_bus_id(text)


@pytest.mark.parametrize("text", ["", "GPU-1", "0000:3b:00.9", "zz:00.0"])
def test_what_is_no_bus_id_is_refused(text: str) -> None:
    """The text is shown."""
    with pytest.raises(ValueError, match="is not a PCI address"):
        normal_bus_id(text)


def test_a_file_that_may_not_be_read_is_a_gap(tmp_path: Path) -> None:
    """Permission is a reason, not an end. (A folder in place of the file: root may read every file.)"""
    host = tree(tmp_path, {"/proc/sys/vm/swappiness/x": ""})

    facts, gaps = collect_tune(host, ("/proc/sys/vm/swappiness",))

    assert stat.S_ISDIR((tmp_path / "proc/sys/vm/swappiness").stat().st_mode)
    assert ({}, ["Is a directory"]) == (facts.value_of, [gap.reason for gap in gaps])


def test_two_witnesses_that_disagree_about_a_gpus_place_are_a_gap(tmp_path: Path) -> None:
    """The PCI device is on node 0, the CPUs that NVML calls near are of node 1: both are told, neither is averaged."""
    host = tree(tmp_path, {"/sys/bus/pci/devices/0000:1a:00.0/numa_node": "0\n"})
    answers = {"gpus": [{"index": 0, "bus_id": "00000000:1A:00.0", "cpu_affinity": "4-7"}]}
    node_of = {cpu: cpu // 4 for cpu in range(8)}
    facts, gaps = collect_gpu(host, answers, node_of)

    assert (0, (4, 5, 6, 7)) == (facts.gpus[0].numa_node, facts.gpus[0].cpu_affinity)
    assert ["the PCI bus says node 0, NVML's CPUs are of node 1"] == [
        gap.reason for gap in gaps if gap.fact == "gpu.gpus.0.locality"
    ]
    assert not any(gap.fact.endswith(".locality") for gap in collect_gpu(host, answers, {4: 0})[1])


def test_processes_on_gpus_tell_their_cpus(tmp_path: Path) -> None:
    """One whose entry is not in this /proc (another pid namespace) is listed without CPUs."""
    host = tree(tmp_path, {"/proc/70/status": "Name:\tVLLM::Worker\nCpus_allowed_list:\t0-3,8\n"})
    facts, _ = collect_gpu(host, {"gpus": [{"index": 0, "procs": [{"pid": 70}, {"pid": 71}]}]})

    assert ((70, 71), {70: (0, 1, 2, 3, 8)}) == (facts.gpus[0].processes, facts.cpus_of_pid)


def test_cpus_switched_off_and_dies_are_told(tmp_path: Path) -> None:
    """Present and not online is off; dies come from the kernel's lists, and not at all where one is missing."""
    top = "/sys/devices/system/cpu"
    files = {f"{top}/online": "0-2", f"{top}/present": "0-3", f"{top}/possible": "0-7"}
    dies = {f"{top}/cpu{cpu}/topology/die_cpus_list": "0-1" if cpu < 2 else "2-3" for cpu in range(3)}
    facts, _ = collect_cpu(tree(tmp_path / "new", {**files, **dies}), ())
    older, _ = collect_cpu(tree(tmp_path / "old", files), ())

    assert ((3,), {0: 0, 1: 0, 2: 2}) == (facts.offline, facts.die_of)
    assert ((3,), {}) == (older.offline, older.die_of)


@pytest.mark.parametrize(
    ("line", "allowed"), [("Mems_allowed_list:\t1\n", [False, True]), ("Name:\tx\n", [True, True])]
)
def test_memory_that_a_cpuset_keeps_away_is_told(tmp_path: Path, line: str, allowed: list[bool]) -> None:
    """numactl#223: a node is there, and its memory is not for this process; without the line nothing is kept away."""
    nodes = "/sys/devices/system/node"
    host = tree(tmp_path, {f"{nodes}/online": "0-1\n", "/proc/self/status": line})

    assert allowed == [node.memory_allowed for node in collect_numa(host)[0]]


def test_an_engine_in_an_environment_of_conda_is_found(tmp_path: Path) -> None:
    """Images keep several below one installation; none of them is in the PATH of a service."""
    home = "/opt/conda/envs/serve"
    site = f"{home}/lib/python3.12/site-packages/vllm-0.33.0.dist-info/METADATA"
    found, _ = collect_engine(tree(tmp_path, {site: "Version: 0.33.0\n", f"{home}/bin/python3": ""}), "vllm", None)

    assert ("0.33.0", f"{home}/bin/python3") == (found.version, found.interpreter)
