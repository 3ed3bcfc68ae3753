"""What is said of disks, time, services, secrets, ports and environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from good_node import BLIND, CHECKPOINT, NODE, NOW_S, PROFILE, node

from kboot.checks import (
    disk_health,
    disk_lazy_snapshot,
    disk_mount_kind,
    disk_mounted,
    disk_trim_cap,
    engine_port,
    env_files,
    env_settings,
    sec_clear_text,
    sec_machine_id_bake,
    sec_token_perm,
    sys_container_toolkit,
    sys_dstate,
    sys_failed_units,
    sys_oom,
    sys_secureboot,
    time_sync,
)
from kboot.checks.types import Check
from kboot.facts.doctor_types import UpkeepFacts
from kboot.facts.health_types import KernelEvent
from kboot.facts.measured_types import FirstReads
from kboot.facts.types import Disk, Gap
from kboot.facts.upkeep_types import (
    Blocked,
    Discard,
    DiskHealth,
    EnvLine,
    EnvSetting,
    PortState,
    Readable,
    Services,
    UnitState,
)
from kboot.host.kernel_clock import KernelClock

UNREAD = replace(BLIND, gaps=(Gap("upkeep", "this machine", "no answer in 4 s"),))
VIRTUAL = Disk("vda", "disk", "", 1 << 40, True, 128 << 10, None)


@pytest.mark.parametrize(
    "check",
    [
        *(disk_mounted.CHECK, disk_trim_cap.CHECK, time_sync.CHECK, sys_failed_units.CHECK, sys_dstate.CHECK),
        *(sec_token_perm.CHECK, sec_clear_text.CHECK, sec_machine_id_bake.CHECK, engine_port.CHECK),
        *(env_files.CHECK, env_settings.CHECK),
    ],
    ids=lambda check: check.id,
)
def test_what_could_not_be_looked_at_is_unknown(check: Check) -> None:
    """The child that looks gave no answer in time."""
    facts = replace(UNREAD, gaps=(*UNREAD.gaps, *(Gap(f"upkeep.{n}", "-", "EPERM") for n in ("clock", "services"))))

    assert "unknown" == check.run(facts, PROFILE, None).status


@pytest.mark.parametrize(
    ("health", "status", "says"),
    [
        ({"warnings": ("read-only",)}, "fail", "read-only"),
        ({"passed": False}, "fail", "its own verdict is FAILED"),
        ({"media_errors": 17}, "warn", "17 media errors"),
        ({"pending_sectors": 8}, "warn", "8 sectors cannot be read"),
        ({"used_percent": 104}, "warn", "104 % of its life used"),
        ({"spare_percent": 5}, "warn", "5 % of its spare blocks left"),
        ({"refused": "no answer in 1 s"}, "unknown", "no answer in 1 s"),
    ],
)
def test_a_disk_that_fails_is_told_from_one_that_ages(health: dict[str, Any], status: str, says: str) -> None:
    """The disk is named, and so is what it says."""
    finding = disk_health.run(node(upkeep={"disks": (DiskHealth("nvme1n1", **health),)}), None, None)

    assert (status, True) == (finding.status, f"nvme1n1: {says}" in finding.seen)


def test_disks_of_a_cloud_that_tell_nothing_are_no_finding() -> None:
    """The controller refuses the log; those that do tell are judged."""
    mute = DiskHealth("nvme1n1", refused="Read NVMe SMART/Health Information failed")
    told = DiskHealth("nvme0n1", passed=True, used_percent=3)

    assert "skip" == disk_health.run(node(upkeep={"disks": (mute,)}), None, None).status
    assert "skip" == disk_health.run(node(upkeep={"disks": ()}), None, None).status
    finding = disk_health.run(node(upkeep={"disks": (told, mute)}), None, None)
    assert ("ok", "1 disk sound, the most worn has used 3 % of its life") == (finding.status, finding.seen)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"disks": (VIRTUAL,)}, "no disk with a controller"),
        ({"os": {"uid": 1000}}, "root only"),
        ({"os": {"container": "docker"}}, "belong to the host"),
        ({}, "neither smartctl nor nvme is installed"),
    ],
)
def test_a_disk_that_nobody_can_ask_is_no_finding(changes: dict[str, Any], why: str) -> None:
    """Virtual machines, containers, other users and images without the program: silent, with the reason."""
    finding = disk_health.run(node(upkeep={"smart_tool": "", "disks": ()}, **changes), None, None)

    assert ("skip", True) == (finding.status, why in finding.seen)


@pytest.mark.parametrize(
    ("sample", "status"),
    [
        (FirstReads(24, 0.060, 0.001), "warn"),  # filled from an object store
        (FirstReads(24, 0.060, 0.050), "ok"),  # a slow disk, but not for this reason
        (FirstReads(24, 0.002, 0.0001), "ok"),  # a network volume that is whole
        (FirstReads(2, 0.060, 0.001), "ok"),  # too few to say
    ],
)
def test_a_volume_that_fetches_its_blocks_is_told_from_a_slow_one(sample: FirstReads, status: str) -> None:
    """By how much longer the first read takes."""
    assert status == disk_lazy_snapshot.run(node(measured={"first_reads": sample}), None, CHECKPOINT).status


@pytest.mark.parametrize(
    ("discard", "free_share", "status"),
    [
        (Discard(True, False, True), 0.10, "ok"),
        (Discard(True, False, True), 0.02, "warn"),
        (Discard(True, False, False), 0.10, "warn"),
        (Discard(True, False, False), 0.50, "ok"),
        (Discard(False, False, False), 0.10, "ok"),
    ],
)
def test_a_full_disk_matters_more_where_nobody_tells_it_what_is_free(
    discard: Discard, free_share: float, status: str
) -> None:
    """A disk that takes no hint is judged by its room alone."""
    total = NODE.mounts[0].total_bytes or 0
    mounts = (replace(NODE.mounts[0], free_bytes=int(total * free_share)),)

    assert status == disk_trim_cap.run(node(upkeep={"discard": discard}, mounts=mounts), None, None).status


def test_an_empty_mount_point_is_named_with_what_is_there_instead() -> None:
    """B145: the checkpoint would go to the root disk."""
    finding = disk_mounted.run(node(upkeep={"lost_mounts": ("/var/lib/kboot",)}), None, None)

    assert (
        "/var/lib/kboot is not mounted, as /etc/fstab or a unit asks; /var/lib/kboot is on / (/dev/nvme0n1p1) instead"
        == finding.seen
    )


@pytest.mark.parametrize("fs_type", ["lustre", "nfs4", "fuse.glusterfs", "9p", "virtiofs", "gpfs"])
def test_a_network_file_system_says_what_it_does_to_mapped_loading_and_caches(fs_type: str) -> None:
    """B105, B107, B111: the kind is recognised without a measurement, and both consequences are said."""
    finding = disk_mount_kind.run(node(mounts=tuple(replace(m, fs_type=fs_type) for m in NODE.mounts)), None, None)

    assert "warn" == finding.status
    assert "29 MB/s" in finding.why
    assert "kernel caches rely" in finding.why


def test_a_clock_that_nothing_keeps_right_is_a_warning_but_where_the_host_keeps_it() -> None:
    """In a container and in WSL it is the host's matter."""
    adrift = {"clock": KernelClock(synchronised=False, error_s=16.0)}

    assert "warn" == time_sync.run(node(upkeep=adrift), None, None).status
    assert "skip" == time_sync.run(node(upkeep=adrift, os={"container": "docker"}), None, None).status
    assert "skip" == time_sync.run(node(upkeep={"clock": None}), None, None).status
    wsl = {"kernel_release": "6.6.87.2-microsoft-standard-WSL2"}
    assert "skip" == time_sync.run(node(upkeep=adrift, os=wsl), None, None).status


def test_a_clock_behind_the_nodes_own_records_fails() -> None:
    """Whatever the kernel thinks of it: every certificate and signed link is for another time."""
    finding = time_sync.run(node(kept={"newest_unix_s": NOW_S + 86400}), None, None)

    assert ("fail", "the clock is 24 h behind what this node itself wrote down") == (finding.status, finding.seen)


@pytest.mark.parametrize(
    ("unit", "status"),
    [
        ("nvidia-persistenced.service", "warn"),
        ("var-lib-kboot.mount", "warn"),
        ("kboot-scrub.service", "warn"),
        ("chrony.service", "warn"),
        ("apt-daily.service", "ok"),
        ("nvidia-powerd.service", "ok"),  # fails on servers, where it has nothing to do
        ("snap-core24-1225.mount", "ok"),
        ("snapd.service", "ok"),
    ],
)
def test_only_units_that_a_boot_needs_are_findings(unit: str, status: str) -> None:
    """The others are named, and no more."""
    finding = sys_failed_units.run(node(upkeep={"services": Services((unit,))}), None, None)

    assert (status, True) == (finding.status, unit in finding.seen)
    assert "skip" == sys_failed_units.run(node(upkeep={"services": None}), None, None).status


def test_a_module_that_the_kernel_refused_is_told_from_one_that_nobody_installed() -> None:
    """Secure boot alone proves nothing, and neither does a machine without it; the kernel's own words do."""
    refused = (KernelEvent("module-refused", "Loading of unsigned module is rejected"),)
    absent = {"nvidia_module": False}

    assert "fail" == sys_secureboot.run(node(upkeep={**absent, "secure_boot": True}), None, None).status
    assert "fail" == sys_secureboot.run(node(upkeep=absent, health={"kernel_events": refused}), None, None).status
    assert "ok" == sys_secureboot.run(node(upkeep=absent), None, None).status
    assert "ok" == sys_secureboot.run(node(upkeep={"secure_boot": True, "lockdown": "integrity"}), None, None).status
    assert "skip" == sys_secureboot.run(node(gpu={"pci_bus_ids": ()}), None, None).status


def test_containers_without_a_list_of_libraries_are_no_finding() -> None:
    """Many nodes run none, or get GPUs another way."""
    assert "skip" == sys_container_toolkit.run(node(upkeep={"cdi": ()}), None, None).status
    assert "unknown" == sys_container_toolkit.run(node(gpu={"driver_version": None}), None, None).status


def test_a_process_that_waits_for_a_moment_is_not_stuck() -> None:
    """Reading a disk is waiting; not running for seconds, or the kernel's complaint, is more."""
    moment, hung = Blocked(71, "cat", 0.3, "folio_wait"), KernelEvent("hung-task", "INFO: task cat:71 blocked", code=71)

    assert "ok" == sys_dstate.run(node(upkeep={"blocked": (moment,)}), None, None).status
    complained = node(upkeep={"blocked": (moment,)}, health={"kernel_events": (hung,)})
    assert "in state D: cat (pid 71, in folio_wait)" == sys_dstate.run(complained, None, None).seen
    assert "ok" == sys_dstate.run(node(upkeep={"blocked": ()}, health={"kernel_events": (hung,)}), None, None).status


def test_disks_that_hold_all_tasks_up_are_told_from_too_little_memory() -> None:
    """A minute after 18 GiB were copied, 19 % of the time was spent waiting for the disks; nothing was killed."""
    copied = sys_oom.run(node(system={"stalled_percent": {"memory": 0.0, "io": 19.0}}), None, None)
    short = sys_oom.run(node(system={"stalled_percent": {"memory": 19.0, "io": 19.0}}), None, None)

    assert ("warn", "all tasks waited 19 % of the last minute for io") == (copied.status, copied.seen)
    assert "nothing is wrong if a boot or a copy just ran" in copied.why
    assert "an engine that is killed while it loads starts again from nothing" == short.why


def test_a_key_that_everybody_may_read_fails_and_a_token_warns() -> None:
    """With the key anybody could start another engine as this node."""
    key = Readable("key that signs hand-offs", "/var/lib/kboot/node.key", "mode 0644: every user may read it")
    token = Readable("token in the command line", "process 71", "")

    assert "fail" == sec_token_perm.run(node(upkeep={"readable": (key,)}), None, None).status
    finding = sec_token_perm.run(node(upkeep={"readable": (token,)}), None, None)
    assert ("warn", True) == (finding.status, "LoadCredential=" in finding.hint)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://mirror.example", "warn"),
        ("http://127.0.0.1.example", "warn"),
        ("https://mirror.example", "ok"),
        ("http://127.0.0.1:8080", "ok"),
        ("http://localhost", "ok"),
        ("http://[::1]:80/", "ok"),
    ],
)
def test_a_hub_without_encryption_is_a_warning_unless_it_is_this_machine(url: str, status: str) -> None:
    """B031: HF_ENDPOINT=http://mirror.example; no token is sent there, and doctor says so."""
    facts = node(upkeep={"environ": (EnvSetting("HF_ENDPOINT", url, "/etc/kboot/env"),)})

    assert status == sec_clear_text.run(facts, None, None).status


def test_a_port_of_kboots_own_engine_is_not_taken() -> None:
    """Doctor on a node that serves has no finding; a stranger's listener fails, by pid where it can be seen."""
    ours, unseen = PortState(8000, True, (71,), ours=True), PortState(8000, True)

    assert "ok" == engine_port.run(node(upkeep={"port": ours}), PROFILE, None).status
    finding = engine_port.run(node(upkeep={"port": unseen}), PROFILE, None)
    assert ("fail", "port 8000 is taken by a process that this user cannot see") == (finding.status, finding.seen)
    assert "skip" == engine_port.run(NODE, None, None).status
    service = Services((), (UnitState("kboot-engine.service", "active", "success", 0),))
    assert "ok" == engine_port.run(node(upkeep={"port": unseen, "services": service}), PROFILE, None).status


def test_a_line_that_systemd_reads_otherwise_is_named_with_its_place() -> None:
    """B133, B135: file, line and what happens."""
    line = EnvLine("/etc/kboot/env", 3, "A", "A: the variable reference is not expanded, its value is '$A --debug'")
    finding = env_files.run(node(upkeep={"env_files": (line,)}), None, None)

    assert ("warn", f"/etc/kboot/env:3: {line.says}") == (finding.status, finding.seen)


def test_a_flag_that_the_hubs_client_ignores_is_named() -> None:
    """B040: hf_transfer was switched on by a variable that does nothing any more; switched off it is no finding."""
    on = node(upkeep={"environ": (EnvSetting("HF_HUB_ENABLE_HF_TRANSFER", "1", "this environment"),)})
    off = node(upkeep={"environ": (EnvSetting("HF_HUB_ENABLE_HF_TRANSFER", "0", "this environment"),)})
    finding = env_settings.run(on, None, None)

    assert ("warn", True) == (finding.status, "ignored by huggingface_hub since 1.0" in finding.seen)
    assert "ok" == env_settings.run(off, None, None).status


@pytest.mark.parametrize("checkpoint", [CHECKPOINT, None], ids=["known launch", "unknown launch"])
def test_an_address_that_names_caches_is_named(checkpoint: Any) -> None:
    """B108: vLLM hashes it, so that a cache on a persistent volume is never hit again."""
    setting = EnvSetting("VLLM_NIXL_SIDE_CHANNEL_HOST", "10.0.0.5", "/etc/kboot/engine.env")
    facts = node(upkeep={"environ": (setting,)}, engine={"version": "0.25.0", "packages": {"vllm": "0.25.0"}})
    finding = env_settings.run(facts, PROFILE, checkpoint)

    assert "warn" == finding.status
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in finding.seen
    assert "/etc/kboot/engine.env" in finding.seen


def test_a_recording_has_no_environment_to_judge() -> None:
    """It may hold secrets and is not recorded."""
    facts = node(upkeep=UpkeepFacts())

    assert {"skip"} == {check.run(facts, None, None).status for check in (env_files, env_settings, sec_clear_text)}


def test_what_is_of_this_machine_alone_is_counted_and_named() -> None:
    """An image that is made on a machine: how many paths, and which."""
    finding = sec_machine_id_bake.run(node(upkeep={"identity": ("/etc/machine-id", "/etc/ssh/k")}), PROFILE, None)

    assert "2 paths of this machine alone: /etc/machine-id, /etc/ssh/k" == finding.seen
    assert "`kboot bake --finish --this-machine`" in (finding.hint or "")
