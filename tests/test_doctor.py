"""Doctor on recorded machines, on this one, and on machines that do not answer."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from kboot.checkpoint import Listing, RemoteFile
from kboot.checks.types import ON_A_NODE, Check, Finding
from kboot.doctor import (
    Answer,
    DoctorReport,
    bundle,
    run_doctor,
    select_checks,
    summary,
    to_json,
)
from kboot.errors import ExitStatus, UsageError
from kboot.events import Event, Notice, PhaseStarted
from kboot.host.paths import Paths, find_paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.probing import Budget
from kboot.profile.types import CheckpointAsk, LayoutAsk, ParallelAsk, Profile
from kboot.report.examinations import Examination, Since
from kboot.store.store import Store

CASES = Path(__file__).parent / "cases"
PROFILE = Profile(
    name="model",
    schema=1,
    checkpoint=CheckpointAsk(repo="org/model"),
    layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),),
)
EIGHT_GPUS = replace(
    PROFILE, layout=(LayoutAsk(name="8x", gpu="H200", gpus_per_node=8, parallel=ParallelAsk(data=8, expert=True)),)
)
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def quiet(_: Event) -> None:
    """Emit to nobody."""


def record(root: Path, files: Mapping[str, str], nvml: Mapping[str, Any] | None = None) -> RecordedHost:
    """Write a recorded machine."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    if nvml is not None:
        (root / "nvml.json").write_text(json.dumps(nvml))
    return RecordedHost(root)


def findings(
    host: RecordedHost, profile: Profile | None = None, only: tuple[str, ...] = ()
) -> dict[str, tuple[str, str]]:
    """Return status and sentence of each check on a recorded machine."""
    report = run_doctor(host, find_paths(host.root, {}, 0), profile, "quick", only, quiet)
    return {a.check.id: (a.finding.status, a.finding.seen) for a in report.findings}


def h200(index: int, bus: str, **more: Any) -> dict[str, Any]:
    """One GPU as nvml.json has it."""
    gpu = {"index": index, "name": "NVIDIA H200", "uuid": f"GPU-{index}", "bus_id": bus, "cc": "9.0"}
    return {**gpu, "mem_total": 150754820096, "mem_used": 0, "cpu_affinity": "0-31", **more}


def test_a_lost_gpu_does_not_hide_the_others(tmp_path: Path) -> None:
    """B095: one of four handles fails; the finding counts three and doctor fails."""
    buses = ("00000000:0A:00.0", None, "00000000:42:00.0", "00000000:43:00.0")
    gpus = [h200(i, b) if b else {"index": i, "error": "GPU_IS_LOST"} for i, b in enumerate(buses)]
    found = findings(record(tmp_path, {}, {"nvml_init": "OK", "driver": "580.95.05", "gpus": gpus}))

    assert ("fail", "3 of 4 GPUs answer; lost: GPU 1 (GPU_IS_LOST)") == found["gpu.count"]
    assert "ok" == found["gpu.nvml_responsive"][0]


def test_a_replaced_library_is_told_from_a_broken_driver(tmp_path: Path) -> None:
    """B097: module 550.90.07 beside a newer library is one finding, with what to do."""
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n"
    answers = {"nvml_init": "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "library": "550.107"}
    host = record(tmp_path, {"proc/driver/nvidia/version": version}, answers)
    found = findings(host)

    status, seen = found["gpu.driver_lib_match"]
    assert ("fail", True, True) == (status, "550.90.07" in seen, "550.107" in seen)
    assert ("skip", "unknown") == (found["gpu.nvml_responsive"][0], found["gpu.count"][0])


def test_a_driver_too_old_for_a_gpu_is_not_no_gpu(tmp_path: Path) -> None:
    """B155: NVML lists nothing, the bus has one; the PCI id and the driver are named."""
    device = "sys/bus/pci/devices/0000:31:00.0"
    files = {f"{device}/vendor": "0x10de\n", f"{device}/class": "0x030200\n"}
    found = findings(record(tmp_path, files, {"nvml_init": "OK", "driver": "570.86.15", "gpus": []}))

    status, seen = found["gpu.count"]
    assert ("fail", True, True) == (status, "0000:31:00.0" in seen, "570.86.15" in seen)


def test_a_small_shm_fails_for_eight_workers(tmp_path: Path) -> None:
    """B170: /dev/shm of 64 MiB on a node with eight GPUs."""
    files = {
        "proc/self/mountinfo": "60 1 0:55 / /dev/shm rw - tmpfs shm rw,size=65536k\n",
        "proc/meminfo": "MemTotal: 2000000000 kB\nMemAvailable: 1900000000 kB\n",
        "disk_space.json": json.dumps({"/dev/shm": {"total": 64 << 20, "free": 64 << 20, "inodes": 1000}}),
    }
    gpus = [h200(i, f"00000000:{i + 10}:00.0") for i in range(8)]
    found = findings(record(tmp_path, files, {"nvml_init": "OK", "driver": "580.95.05", "gpus": gpus}), EIGHT_GPUS)

    assert ("fail", "64 MiB of 64 MiB free in /dev/shm; 8 workers need 512 MiB (64 MiB each)") == found["fit.shm"]


def test_a_small_shm_fails_without_profile_and_statvfs_too(tmp_path: Path) -> None:
    """B170: the mount options tell 64 MiB; eight GPUs, or a layout for eight where none is listed, need 512."""
    root = tmp_path / "case"
    shutil.copytree(CASES / "B170" / "fs", root)
    wanted = json.loads((CASES / "B170" / "plan.json").read_text())["tp"]
    seen = ("fail", "64 MiB of 64 MiB free in /dev/shm; 8 workers need 512 MiB (64 MiB each)")
    layout = replace(EIGHT_GPUS.layout[0], parallel=ParallelAsk(tensor=wanted))
    assert seen == findings(RecordedHost(root), replace(EIGHT_GPUS, layout=(layout,)), ("fit.shm",))["fit.shm"]

    gpus = [h200(i, f"00000000:{i + 10}:00.0") for i in range(8)]
    (root / "nvml.json").write_text(json.dumps({"nvml_init": "OK", "driver": "580.95.05", "gpus": gpus}))
    assert seen == findings(RecordedHost(root), None, ("fit.shm",))["fit.shm"]


def paravirtual(**health: Any) -> dict[str, Any]:
    """A GPU as a machine that only borrows it sees it: most of its health is not told."""
    refused = {"error": "NOT_SUPPORTED"}
    return {
        "persistence": refused,
        "ecc": refused,
        "fabric": refused,
        "nvlinks": [],
        "virtualization": "none",
        **health,
    }


@pytest.mark.parametrize(
    ("devices", "files", "health"),
    [
        (("dxg",), {}, paravirtual()),
        (
            ("nvidia0", "nvidiactl", "nvidia-uvm"),
            {"vendor": "0x10de\n", "class": "0x030200\n", "numa_node": "-1\n"},
            paravirtual(virtualization="vgpu", power_w={"error": "NOT_SUPPORTED"}),
        ),
    ],
    ids=["WSL", "vGPU"],
)
def test_a_machine_that_borrows_its_gpu_has_no_gpu_finding(
    tmp_path: Path, devices: tuple[str, ...], files: Mapping[str, str], health: Mapping[str, Any]
) -> None:
    """What WSL and a virtual GPU do not show is no fault: no bus, no device files, memory that the lender uses."""
    tree = {f"dev/{name}": "" for name in devices}
    tree |= {f"sys/bus/pci/devices/0000:06:00.0/{name}": text for name, text in files.items()}
    gpu = h200(0, "00000000:06:00.0", mem_used=0 if files else 9 << 30, health=health)
    found = findings(record(tmp_path, tree, {"nvml_init": "OK", "driver": "580.95.05", "gpus": [gpu]}))

    wrong = {id_: answer for id_, answer in found.items() if answer[0] not in ("ok", "skip")}
    assert {} == {
        id_: answer for id_, answer in wrong.items() if id_.startswith(("gpu.", "pci.", "nvlink.", "fabric."))
    }
    assert "gpu.pci" not in found["facts.gaps"][1]


def test_reserved_huge_pages_are_shown(tmp_path: Path) -> None:
    """B174: both numbers are in the finding, pool and available."""
    meminfo = (
        "MemTotal:       16000000 kB\nMemAvailable:    2140000 kB\n"
        "HugePages_Total:    6000\nHugePages_Free:     6000\nHugepagesize:       2048 kB\n"
    )
    found = findings(record(tmp_path, {"proc/meminfo": meminfo}))

    assert ("warn", "11.7 GiB of 15.3 GiB reserved as huge pages, 2.04 GiB available") == found["mem.hugepages"]


def test_limits_are_those_of_this_process(tmp_path: Path) -> None:
    """B175: a service that limits.conf does not reach; both limits are findings."""
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         65536                65536                bytes     \n"
        "Max open files            1024                 4096                 files     \n"
    )
    nvml = {"nvml_init": "OK", "driver": "580.95.05", "gpus": [h200(0, "00000000:0A:00.0")]}
    found = findings(record(tmp_path, {"proc/self/limits": limits}, nvml))

    assert ("warn", "warn") == (found["limits.nofile"][0], found["limits.memlock"][0])


def test_locality_that_a_virtual_machine_hides_is_said(tmp_path: Path) -> None:
    """B077: numa_node -1 for two GPUs, two CPU nodes."""
    files = {
        "sys/devices/system/node/online": "0,1\n",
        "sys/devices/system/node/node0/cpulist": "0-15\n",
        "sys/devices/system/node/node1/cpulist": "16-31\n",
        "sys/devices/system/cpu/online": "0-31\n",
    }
    for device in ("0000:00:04.0", "0000:00:05.0"):
        folder = f"sys/bus/pci/devices/{device}"
        files |= {f"{folder}/numa_node": "-1\n", f"{folder}/vendor": "0x10de\n", f"{folder}/class": "0x030200\n"}
    gpus = [h200(i, f"00000000:00:0{4 + i}.0", cpu_affinity="0-31") for i in range(2)]
    found = findings(record(tmp_path, files, {"nvml_init": "OK", "driver": "580.95.05", "gpus": gpus}))

    assert ("warn", "locality unknown: GPU 0-1 tells no NUMA node, and CPUs are on nodes 0-1") == found["numa.gpu_node"]


def test_a_unified_part_is_judged_by_the_hosts_memory(tmp_path: Path) -> None:
    """B093: GB10 refuses memory calls; nothing crashes and nothing is called held or unknown for it."""
    gpus = [{"index": 0, "name": "NVIDIA GB10", "bus_id": "0000000F:01:00.0", "mem": {"error": "NOT_SUPPORTED"}}]
    files = {"proc/meminfo": "MemTotal:       127600748 kB\nMemAvailable:   118566368 kB\n"}
    found = findings(record(tmp_path, files, {"nvml_init": "OK", "driver": "580.95.05", "gpus": gpus}))

    assert ("ok", "ok") == (found["gpu.count"][0], found["gpu.idle_clean"][0])


@pytest.mark.parametrize("name", ["hgx-h100", "b300", "gb200", "adjacent-offline", "no-gpu"])
def test_a_healthy_machine_has_no_finding(machine: Callable[[str], Path], name: str) -> None:
    """Nothing on these machines is wrong: no false alarm on Grace, without GPUs, or with CPUs offline."""
    found = findings(RecordedHost(machine(name)))

    assert {} == {id_: answer for id_, answer in found.items() if answer[0] not in ("ok", "skip")}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("epyc-nps4-a100", {"cpu.governor": "warn"}),
        ("vm-no-locality", {"numa.gpu_node": "warn"}),
        ("container-cpuset", {"cpu.quota": "warn", "cpu.smt_layout": "warn"}),
        ("h200x2", {"limits.nofile": "warn", "cache.toolchain": "warn", "facts.gaps": "unknown"}),
    ],
)
def test_a_machine_with_one_fault_has_one_finding(
    machine: Callable[[str], Path], name: str, wanted: dict[str, str]
) -> None:
    """What is wrong is found, and nothing else."""
    found = findings(RecordedHost(machine(name)))

    assert wanted == {id_: status for id_, (status, _) in found.items() if status not in ("ok", "skip")}


def test_a_machine_that_tells_nothing_is_unknown_not_ok(tmp_path: Path) -> None:
    """An empty tree gives no ok but for what holds of an empty state folder, and doctor does not end with 0."""
    host = record(tmp_path, {"proc/nothing": ""})
    report = run_doctor(host, find_paths(tmp_path, {}, 0), EIGHT_GPUS, "quick", (), quiet)

    held = {"agent.self", "ckpt.license", "ckpt.stale_locks", "sec.token_perm"}
    assert held == {a.check.id for a in report.findings if a.finding.status == "ok"}
    assert ExitStatus.DOCTOR_FAILED == report.exit_status


def test_this_machine_ends_with_a_documented_status(tmp_path: Path) -> None:
    """On any machine doctor ends with 0, 3 or 4, writes nothing and answers every check."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    report = run_doctor(RealHost(), paths, PROFILE, "quick", (), quiet)

    assert report.exit_status in (ExitStatus.DONE, ExitStatus.DEGRADED, ExitStatus.DOCTOR_FAILED)
    assert [c.id for c in select_checks("quick", ())] == [a.check.id for a in report.findings]
    assert [] == list(tmp_path.iterdir())


class HangingHost(RealHost):
    """A machine whose state folder is on a file server that died: every look at it blocks."""

    def disk_space(self, path: str) -> Any:
        """Never answer."""
        time.sleep(3600)


def test_a_machine_that_hangs_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    """A probe that never answers is given up at its deadline; every check is unknown and names it."""
    seen: list[Event] = []
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    report = run_doctor(HangingHost(), paths, PROFILE, "quick", (), seen.append, Budget(0.2, 0.4, 0.4))

    assert len(report.findings) == report.counts["unknown"]
    assert "the node's facts could not be read: no answer in 0.4 s" == report.findings[0].finding.seen
    assert ["probe.failed"] == [e.event for e in seen if isinstance(e, Notice)]


def test_a_checkpoint_on_this_disk_is_judged_without_network(tmp_path: Path) -> None:
    """A listing on disk and one proven file of two: one is missing, and none that is here is unproven."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    listing, profile = _half_a_checkpoint(paths)
    report = run_doctor(RealHost(), paths, profile, "quick", ("ckpt.complete", "ckpt.verified"), quiet)
    complete, verified = (a.finding for a in report.findings)

    assert ("warn", "ok") == (complete.status, verified.status)
    assert f"1 of 2 files of org/model@{listing.commit[:12]} are not here yet, 7 B to fetch" == complete.seen


def _half_a_checkpoint(paths: Paths) -> tuple[Listing, Profile]:
    """Put a listing of two files and the first of them on a disk."""
    here = RemoteFile("model-1.safetensors", 0, EMPTY_SHA256, EMPTY_SHA256)
    missing = RemoteFile("model-2.safetensors", 7, "b" * 64, "b" * 64)
    listing = Listing("org/model", "a" * 40, "a" * 40, (here, missing), (), "test")
    store = Store(paths)
    store.remember(listing)
    part = store.part_path(listing.repo, here.blob_id)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(b"")
    store.admit(listing, here, part, "hub")
    return listing, replace(PROFILE, checkpoint=CheckpointAsk(repo="org/model", revision="a" * 40))


def test_checks_can_be_chosen_by_id_and_pattern() -> None:
    """`--check gpu.count` and `--check 'fit.*'` give these and keep the order of all."""
    assert ["gpu.count", "fit.vram", "fit.ram", "fit.disk", "fit.shm"] == [
        c.id for c in select_checks("quick", ("fit.*", "gpu.count"))
    ]


def test_faults_that_a_machine_tells_of_are_found_from_its_files(tmp_path: Path) -> None:
    """B156, B157, B164, B165, B169, B172: lines of the kernel log, NVML's values, a switch and its manager's log."""
    switch, bus = "sys/bus/pci/devices/0000:05:00.0", "sys/bus/pci/devices/0000:44:00.0"
    log = (
        "[ 99.1] NVRM: Xid (PCI:0000:44:00): 79, pid=0, GPU has fallen off the bus.\n"
        "[ 99.2] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
        "[ 99.3] I/O error, dev nvme1n1, sector 8\n"
    )
    files = {
        "dmesg.txt": log,
        f"{switch}/vendor": "0x10de\n",
        f"{switch}/class": "0x068000\n",
        f"{bus}/vendor": "0x10de\n",
        f"{bus}/class": "0x030200\n",
        "var/log/fabricmanager.log": "NVIDIA GPU driver interface version 550.90.07 don't match with driver version "
        "550.54.15. Please update with matching NVIDIA driver package.\n",
        "dev/nvidiactl": "",
    }
    sick = {
        "persistence": False,
        "remapped": [0, 4, True, False],
        "recovery_action": "node-reboot",
        "temperature_c": {"error": "GPU_IS_LOST"},
    }
    gpu = h200(0, "00000000:44:00.0", health=sick)
    found = findings(
        record(tmp_path, files, {"nvml_init": "OK", "driver": "550.54.15", "seconds": 30.0, "gpus": [gpu]})
    )

    assert {
        "gpu.xid_recent": "fail",
        "gpu.sxid": "fail",
        "gpu.recovery_action": "fail",
        "gpu.devnodes": "fail",
        "fabric.manager": "fail",
        "gpu.row_remap": "warn",
        "gpu.persistence": "warn",
        "disk.errors": "warn",
        "gpu.temp": "unknown",
        "gpu.ecc": "skip",
    } == {
        id_: found[id_][0]
        for id_ in (
            *("gpu.xid_recent", "gpu.sxid", "gpu.recovery_action", "gpu.devnodes", "fabric.manager"),
            *("gpu.row_remap", "gpu.persistence", "disk.errors", "gpu.temp", "gpu.ecc"),
        )
    }
    assert "550.90.07" in found["fabric.manager"][1]
    assert "30.0 s" in found["gpu.persistence"][1]


def test_full_mode_measures_real_shards_and_quick_mode_reads_none(tmp_path: Path) -> None:
    """The rate comes from files of the checkpoint, read past the page cache; quick mode does not ask."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    file = RemoteFile("tokens.bin", 7, "b" * 64, "b" * 64)
    listing = Listing("org/model", "a" * 40, "a" * 40, (file,), (), "test")
    store = Store(paths)
    store.remember(listing)
    blob = store.blob_path(listing.repo, file.blob_id)
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(b"7 bytes")
    profile = replace(PROFILE, checkpoint=CheckpointAsk(repo="org/model", revision="a" * 40))
    seen: list[Event] = []
    report = run_doctor(RealHost(), paths, profile, "full", ("disk.rate",), seen.append, Budget(0.2, 20, 20, 20))

    assert report.facts is not None
    assert report.facts.measured.disk is not None
    assert 7 == report.facts.measured.disk.size_bytes
    assert "ok" == report.findings[0].finding.status
    assert ["doctor", "facts", "files", "cuda", "sources", "upkeep", "disk"] == [
        event.phase for event in seen if isinstance(event, PhaseStarted)
    ]
    assert "disk.rate" not in {c.id for c in select_checks("quick", ())}


def test_checks_can_be_left_out_by_id_and_pattern() -> None:
    """`--skip 'fit.*'` takes them out of all or of those asked for; a misspelt one is a usage error."""
    left = {c.id.split(".")[0] for c in select_checks("quick", (), ("fit.*", "gpu.*"))}

    assert ({"fit", "gpu"} & left, "cpu" in left) == (set(), True)
    assert ["fit.vram"] == [c.id for c in select_checks("quick", ("fit.*",), ("fit.[rds]*",))]
    with pytest.raises(UsageError, match=r"no check 'gpu\.nope'"):
        select_checks("quick", (), ("gpu.nope",))


def test_the_evidence_has_findings_and_facts_without_the_nodes_name(tmp_path: Path) -> None:
    """What leaves the node: doctor.json, doctor.txt and facts.json; the host's name and tokens are replaced."""
    files = {"etc/hostname": "gpu-node-17.example.net\n", "proc/cmdline": "ro ip=10.1.2.3 api_key=topsecret\n"}
    host = record(tmp_path, files, {"nvml_init": "OK", "driver": "580.95.05", "gpus": [h200(0, "00000000:0A:00.0")]})
    report = run_doctor(host, find_paths(tmp_path, {}, 0), None, "quick", (), quiet)
    data = bundle(report, "on gpu-node-17: hf_abcdefghijkl")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        read = {m.name: (f.read().decode() if (f := tar.extractfile(m)) else "") for m in tar.getmembers()}

    assert ["kboot-doctor/doctor.json", "kboot-doctor/doctor.txt", "kboot-doctor/facts.json"] == sorted(read)
    assert "on <host>: <secret>" == read["kboot-doctor/doctor.txt"]
    everything = "".join(read.values())
    assert [] == [word for word in ("gpu-node-17", "10.1.2.3", "topsecret", "hf_abc") if word in everything]
    assert "0000:0a:00.0" in everything
    assert data == bundle(report, "on gpu-node-17: hf_abcdefghijkl")


def test_a_check_that_does_not_exist_is_a_usage_error() -> None:
    """A misspelt id is answered with the near ones."""
    with pytest.raises(UsageError, match=r"no check 'gpu\.cuont'") as caught:
        select_checks("quick", ("gpu.cuont",))
    assert "near: gpu.count, gpu.cuda_init, cpu.quota" == caught.value.hint
    with pytest.raises(UsageError) as lost:
        select_checks("full", ("xyzzy",))
    assert "`kboot doctor --mode full --list` shows those there are" == lost.value.hint


def test_a_check_of_another_mode_is_a_usage_error() -> None:
    """Asking a bake host for its GPUs is refused, not answered with nothing."""
    with pytest.raises(UsageError, match="not part of mode bake") as caught:
        select_checks("bake", ("gpu.count",))
    assert "its modes: deep, full, quick" == caught.value.hint


def report_of(*statuses: Any) -> DoctorReport:
    """A report with these statuses."""
    checks = [
        Check(f"gpu.{n}", "Is it?", "/proc", ON_A_NODE, lambda *_: Finding("ok", "")) for n in range(len(statuses))
    ]
    answers = tuple(Answer(check, Finding(status, "seen")) for check, status in zip(checks, statuses))
    return DoctorReport("quick", "model", "node7", 1.8e9, 0.42, answers)


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        (("ok", "skip"), ExitStatus.DONE),
        (("ok", "warn"), ExitStatus.DEGRADED),
        (("ok", "unknown"), ExitStatus.DEGRADED),
        (("warn", "unknown", "fail"), ExitStatus.DOCTOR_FAILED),
    ],
)
def test_the_exit_status_is_that_of_the_worst(statuses: tuple[str, ...], wanted: ExitStatus) -> None:
    """0 only with nothing but ok and skip; unknown is never ok."""
    assert wanted == report_of(*statuses).exit_status


def test_the_summary_fits_in_a_ticket() -> None:
    """One line names what is not ok and counts the rest."""
    report = report_of("ok", "warn", "fail", "unknown", "skip", "ok")

    assert "doctor quick on node7: 1 fail (gpu.2), 1 warn (gpu.1), 1 unknown (gpu.3), 2 ok, 1 skip; 0.4 s" == summary(
        report
    )


def test_the_summary_says_what_is_new_since_a_boot() -> None:
    """And what is as before, and what is gone."""
    then = Examination("1ae15283-605f", "quick", 1.0, {})
    since = Since(then, {"gpu.0": ""}, 2, ("cpu.quota",))

    assert (
        "doctor quick on node7: 1 warn (gpu.0) new since boot 1ae15283, 2 as before; gone since: cpu.quota; 0.4 s"
        == summary(report_of("warn"), since)
    )
    assert "doctor quick on node7: nothing new since boot 1ae15283, 0 as before; 0.4 s" == summary(
        report_of(), Since(then, {}, 0, ())
    )
    foreign = Since(Examination("", "quick", 1.0, {}), {}, 0, ())
    assert "nothing new since 1970-01-01 00:00:01Z, 0 as before" in summary(report_of(), foreign)
    assert {
        "boot_id": "1ae15283-605f",
        "mode": "quick",
        "started_unix_s": 1.0,
        "as_before": 2,
        "gone": ["cpu.quota"],
    } == to_json(report_of("warn"), since)["since"]


def test_the_json_form_is_stable() -> None:
    """Every finding has all keys, and its source is the check's where it has none of its own."""
    document = to_json(report_of("fail"))

    assert json.loads(json.dumps(document)) == document
    assert {"ok": 0, "warn": 0, "fail": 1, "skip": 0, "unknown": 0} == document["counts"]
    assert [
        {
            "id": "gpu.0",
            "status": "fail",
            "asks": "Is it?",
            "seen": "seen",
            "wanted": "",
            "source": "/proc",
            "why": "",
            "hint": "",
            "fixes": [],
            "before": "",
        }
    ] == document["findings"]
    assert document["since"] is None
    assert (1, "doctor", 4) == (document["schema"], document["kind"], document["exit_status"])


def test_no_child_is_left(tmp_path: Path) -> None:
    """Every probe's process is gone when doctor returns."""
    before = psutil.Process().children()
    run_doctor(RealHost(), Paths(tmp_path, tmp_path, tmp_path), None, "quick", (), quiet)

    assert before == psutil.Process().children()
