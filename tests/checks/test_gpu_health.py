"""What is said of GPUs that had faults, of their fabric, and of parts that cannot have them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from good_node import CHECKPOINT, HEALTH, NODE, PROFILE, gpus, node, sick

from kboot.checks import (
    disk_errors,
    fabric_manager,
    fabric_state,
    gpu_ecc,
    gpu_persistence,
    gpu_row_remap,
    gpu_sxid,
    gpu_xid_recent,
    nvlink_links,
)
from kboot.checks.every import CHECKS
from kboot.checks.types import Finding
from kboot.facts.health_types import Fabric, FabricManager, GpuHealth, KernelEvent, RemappedRows
from kboot.facts.kernel_events import kernel_events
from kboot.facts.types import NodeFacts

ZERO = "00000000-0000-0000-0000-000000000000"
OFF_FABRIC = Fabric("not-supported", "SUCCESS", 0, ZERO)


def logged(text: str, **changes: object) -> NodeFacts:
    """The good node with this kernel log."""
    return node(health={"kernel_events": kernel_events(text), **changes})


def test_a_gpu_off_the_bus_is_found_in_both_forms() -> None:
    """B164: three lines without an Xid, or Xid 79; each GPU is one event."""
    log = (
        "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "               NVRM: fallen off the bus and is not responding to commands.\n"
        "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        "[ 1899.1] NVRM: Xid (PCI:0000:44:00): 79, pid=0, GPU has fallen off the bus.\n"
        "[ 1899.2] NVRM: GPU 0000:44:00.0: GPU has fallen off the bus.\n"
    )
    finding = gpu_xid_recent.run(logged(log), PROFILE, CHECKPOINT)

    assert ["0000:b3:00.0", "0000:44:00.0"] == [e.bus_id for e in kernel_events(log)]
    assert (
        "fail",
        "Xid 79 (GPU fell off the bus) on 0000:44:00.0, Xid 79 (GPU fell off the bus) on 0000:b3:00.0 since boot",
    ) == (finding.status, finding.seen)


def test_a_fabric_wide_fault_wants_a_reboot_even_where_the_driver_is_content() -> None:
    """B169: Xid 145 on two GPUs fails with "reboot the node", although no GPU asks for a recovery."""
    log = (
        "[ 500.0] NVRM: Xid (PCI:0000:01:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 03\n"
        "[ 500.0] NVRM: Xid (PCI:0000:02:00): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 05\n"
    )
    finding = gpu_xid_recent.run(logged(log), PROFILE, CHECKPOINT)

    assert ("fail", "reboot the node") == (finding.status, finding.hint)
    assert finding.seen.startswith("NVLink faults on 2 GPUs since boot: Xid 145 (NVLink RLW error) on 0000:01:00.0")


@pytest.mark.parametrize(
    ("code", "recovery", "wanted"),
    [
        (31, "none", "ok"),  # a program's page fault
        (48, "none", "warn"),  # reset since
        (48, "gpu-reset", "fail"),
        (48, None, "fail"),  # an older driver does not tell
        (64, "none", "fail"),  # no reset makes spare rows
        (63, None, "warn"),
        (39, None, "ok"),  # a copy engine of one program
        (135, None, "ok"),
        (46, None, "fail"),
        (136, None, "fail"),  # NVLink did not train
        (162, None, "ok"),  # power smoothing works again
        (163, None, "warn"),
        (167, None, "fail"),
        (172, "none", "warn"),  # the part of 48 that says where
        (999, None, "warn"),
    ],
)
def test_an_xid_is_judged_by_its_class(code: int, recovery: str | None, wanted: str) -> None:
    """A program's fault is none of the node's; a passing fault of a GPU that was reset since is history."""
    health = tuple(replace(each, recovery_action=recovery) for each in HEALTH)
    log = f"[ 9.0] NVRM: Xid (PCI:0000:01:00): {code}, pid=77, name=python3"

    assert wanted == gpu_xid_recent.run(logged(log, gpus=health), PROFILE, CHECKPOINT).status


def test_the_switch_says_which_of_its_faults_are_fatal() -> None:
    """An SXid is fatal unless its line says that it is not."""
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {}, Link 46 MC TS crumbstore MCTO"

    assert ("warn", "fail") == tuple(
        gpu_sxid.run(logged(line.format(words)), PROFILE, CHECKPOINT).status
        for words in ("28006, Non-fatal", "20034, Fatal")
    )


def test_a_kernel_log_that_may_not_be_read_is_unknown() -> None:
    """An unprivileged user sees no Xid, which is not the same as there being none."""
    blind = node(health={"kernel_events": None}, gpu={"nvml": "error"})

    assert "unknown" == gpu_xid_recent.run(blind, PROFILE, CHECKPOINT).status


def test_a_status_of_the_fabric_counts_as_much_as_its_state() -> None:
    """B159: Completed with Insufficient Resources fails; Completed with Success and a clique passes."""
    q0 = sick(8, fabric=Fabric("completed", "INSUFFICIENT_RESOURCES", 0, ZERO))
    q1 = sick(8, fabric=Fabric("completed", "SUCCESS", 32766, "11111111-2222-3333-4444-555555555555"))

    assert ("fail", "ok") == (
        fabric_state.run(q0, PROFILE, CHECKPOINT).status,
        fabric_state.run(q1, PROFILE, CHECKPOINT).status,
    )


def test_links_that_are_up_do_not_make_a_fabric() -> None:
    """B161: all links up and a fabric that has not started is a failure of the fabric alone."""
    facts = sick(fabric=Fabric("not-started", "NOT_SUPPORTED", 0, ZERO))

    assert ("fail", "ok") == (
        fabric_state.run(facts, PROFILE, CHECKPOINT).status,
        nvlink_links.run(facts, PROFILE, CHECKPOINT).status,
    )


def test_gpus_of_two_cliques_are_no_fabric() -> None:
    """Each is registered, but not with the others."""
    assert "fail" == fabric_state.run(sick(fabric=Fabric("completed", "SUCCESS", 7, ZERO)), PROFILE, CHECKPOINT).status


def test_the_odd_one_among_equal_gpus_is_named() -> None:
    """B163: all links of GPU 7 are inactive, those of its equals are up."""
    finding = nvlink_links.run(sick(nvlinks=(False,) * 18), PROFILE, CHECKPOINT)

    assert ("fail", "NVLinks up on GPU 7: 0 of 18") == (finding.status, finding.seen)


@pytest.mark.parametrize("links", [(), (False, False, False), None])
def test_a_pcie_part_has_no_link_that_is_down(links: tuple[bool, ...] | None) -> None:
    """No false alarm: where no GPU has a link up, none is missing; nor is a fabric."""
    facts = sick(8, nvlinks=links, fabric=OFF_FABRIC)
    quiet = replace(facts, health=replace(facts.health, fabric_manager=FabricManager(0, False, None)))

    assert {"skip"} == {
        check.run(quiet, PROFILE, CHECKPOINT).status for check in (nvlink_links, fabric_state, fabric_manager)
    }


def test_a_sliced_gpu_uses_no_nvlink() -> None:
    """No false alarm: MIG switches the links off."""
    sliced = (*gpus(7), replace(gpus(8)[7], mig=True))
    facts = replace(sick(nvlinks=(False,) * 18), gpu=replace(NODE.gpu, gpus=sliced))

    assert "ok" == nvlink_links.run(facts, PROFILE, CHECKPOINT).status


def test_an_absent_fabric_manager_is_named_with_the_driver() -> None:
    """B156: NVSwitches on the bus, the unit inactive, GPUs not registered."""
    facts = node(health={"fabric_manager": FabricManager(4, running=False, versions=None), "gpus": ()})
    finding = fabric_manager.run(facts, PROFILE, CHECKPOINT)

    assert ("fail", True) == (finding.status, "driver 580.95.05" in finding.seen)


def test_a_fabric_manager_of_another_version_is_named_with_both() -> None:
    """B157: the log's complaint gives both versions."""
    manager = FabricManager(4, running=True, versions=("550.90.07", "550.54.15"))
    facts = node(health={"fabric_manager": manager, "gpus": ()})
    finding = fabric_manager.run(facts, PROFILE, CHECKPOINT)

    assert "fail" == finding.status
    assert "the fabric manager refuses: driver interface 550.90.07, driver 550.54.15" == finding.seen


def test_a_pending_remap_warns_and_repaired_rows_do_not() -> None:
    """B165: pending is "reset soon"; four uncorrectable rows that were replaced are repaired."""
    pending = sick(remapped=RemappedRows(0, 4, pending=True, failure=False))
    repaired = sick(remapped=RemappedRows(0, 4, pending=False, failure=False))

    assert ("warn", "ok") == (
        gpu_row_remap.run(pending, PROFILE, CHECKPOINT).status,
        gpu_row_remap.run(repaired, PROFILE, CHECKPOINT).status,
    )


def test_a_failed_remap_fails_and_parts_without_the_feature_do_not() -> None:
    """B167: Yes fails; parts that say N/A have nothing to tell."""
    failed = sick(remapped=RemappedRows(0, 9, pending=False, failure=True))

    assert ("fail", "skip") == (
        gpu_row_remap.run(failed, PROFILE, CHECKPOINT).status,
        gpu_row_remap.run(sick(8, remapped=None), PROFILE, CHECKPOINT).status,
    )


def test_persistence_that_is_off_warns_with_the_measured_time() -> None:
    """B172: off on all, and the first query took 30 s."""
    facts = sick(8, persistence=False)
    facts = replace(facts, health=replace(facts.health, nvml_seconds=30.2))
    finding = gpu_persistence.run(facts, PROFILE, CHECKPOINT)

    assert ("warn", "persistence mode is off on GPU 0-7; asking NVML took 30.2 s") == (finding.status, finding.seen)


def test_errors_of_the_past_are_not_errors_of_today() -> None:
    """Only what was not corrected since the driver was loaded fails."""
    assert ("ok", "fail", "warn") == (
        gpu_ecc.run(sick(ecc_uncorrected=(0, 5)), PROFILE, CHECKPOINT).status,
        gpu_ecc.run(sick(sram_threshold=True), PROFILE, CHECKPOINT).status,
        gpu_ecc.run(sick(ecc=False), PROFILE, CHECKPOINT).status,
    )


def test_a_value_that_nvml_refuses_is_unknown_and_names_the_gpu() -> None:
    """One GPU of eight that does not answer is not ok; one that is bad is found even so."""
    facts = sick(temperature_c=None, persistence=None, refused={"temperature_c": "GPU_IS_LOST", "persistence": "GONE"})
    answers: dict[str, Finding] = {c.id: c.run(facts, PROFILE, CHECKPOINT) for c in CHECKS}

    assert ("unknown", "not readable (GPU 7: GPU_IS_LOST)") == (answers["gpu.temp"].status, answers["gpu.temp"].seen)
    bad = replace(facts.health.gpus[0], persistence=False)
    both = node(health={"gpus": (bad, *facts.health.gpus[1:])})
    assert "warn" == gpu_persistence.run(both, PROFILE, CHECKPOINT).status


def test_what_was_not_asked_is_skipped() -> None:
    """A recording of before these questions gives no finding, and says why."""
    old = node(
        health={
            "gpus": (),
            "pci": (),
            "kernel_events": None,
            "device_nodes": None,
            "open_module": None,
            "fabric_manager": None,
        }
    )
    statuses = {c.id: c.run(old, PROFILE, CHECKPOINT).status for c in CHECKS}

    assert {"ok", "skip"} == set(statuses.values())


def test_a_gpu_that_the_driver_could_not_start_is_named() -> None:
    """gpu-operator#1146, open-gpu-kernel-modules#1230: no Xid is written; a GPU that is listed now came up later."""
    log = (
        "[  885.2] NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM\n"
        "[  885.3] NVRM: GPU {}: RmInitAdapter failed! (0x62:0x40:2168)\n"
        "[  885.4] NVRM: GPU {}: rm_init_adapter failed, device minor number 6\n"
    )
    dead = gpu_xid_recent.run(logged(log.format("0000:a1:00.0", "0000:a1:00.0")), PROFILE, CHECKPOINT)
    alive = NODE.gpu.gpus[0].bus_id

    assert ("fail", "the driver could not start GPU 0000:a1:00.0: NVRM: GPU 0000:a1:00.0: RmInitAdapter failed!") == (
        dead.status,
        dead.seen.partition(" (0x")[0],
    )
    assert "ok" == gpu_xid_recent.run(logged(log.format(alive, alive)), PROFILE, CHECKPOINT).status


def test_a_gpu_that_was_not_given_is_not_called_dead() -> None:
    """A container reads the kernel log of the whole node: the GPU may be another's, and answer there by now."""
    facts = logged("[  885.3] NVRM: GPU 0000:a1:00.0: RmInitAdapter failed! (0x62:0x40:2168)\n")

    for seen in ({"container": "docker"}, {"slurm_job": True}):
        assert "ok" == gpu_xid_recent.run(replace(facts, os=replace(facts.os, **seen)), PROFILE, CHECKPOINT).status


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",  # xcp-ng#311
        "nvme nvme0: Disabling device after reset failure: -19",  # gpud#999
        "nvme nvme0: I/O 900 (I/O Cmd) QID 2 timeout, aborting",  # propolis#1156
        "Buffer I/O error on dev nvme0n1, logical block 0, async page read",
        "blk_update_request: critical target error, dev nvme0n1, sector 5 op 0x0:(READ)",
        "md/raid1:md0: Disk failure on nvme2n1, disabling device.",
        "md: md0: raid0 array has 1 failed devices - failing it",
        "BTRFS warning (device sda2): csum failed root 5 ino 257 off 0 csum 0x1 expected csum 0x2 mirror 1",
    ],
)
def test_a_disk_that_stops_answering_is_an_error_of_a_disk(line: str) -> None:
    """A controller that is reset or given up, a member that leaves its array."""
    assert ["io-error"] == [e.kind for e in kernel_events(f"[ 9.1] {line}")]


@pytest.mark.parametrize(
    "line",
    [
        "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)",  # drives of virtual machines, empty
        "Buffer I/O error on dev sr0, logical block 0, async page read",
        "I/O error, dev loop3, sector 0 op 0x0:(READ) flags 0x80700",  # a snap that is replaced
        "critical target error, dev nvme0n1, sector 2048 op 0x9:(WRITE_ZEROES) flags 0x0",  # asked once, not known
        "blk_update_request: critical target error, dev sdb, sector 0 op 0x3:(DISCARD) flags 0x800 phys_seg 1",
        "nvme nvme0: Shutdown timeout set to 10 seconds",
        "nvme nvme0: 127/0/0 default/read/poll queues",
        "BTRFS info (device sda2): bdev /dev/sda2 errs: wr 0, rd 0, flush 0, corrupt 1, gen 0",
        "EXT4-fs (nvme0n1p1): recovery complete",
        "XFS (nvme1n1): Ending clean mount",
    ],
)
def test_what_healthy_disks_say_is_no_error(line: str) -> None:
    """A warning at every boot would be read by nobody."""
    assert () == kernel_events(f"[ 9.1] {line}")


def test_a_file_system_that_was_shut_down_is_damaged() -> None:
    """XFS does not turn read-only, it stops."""
    log = "[ 9.1] XFS (nvme1n1): Filesystem has been shut down due to log error (0x2).\n"
    log += "[ 9.2] EXT4-fs error (device sda1): ext4_find_entry:1463: inode #2\n"

    assert ["read-only", "read-only"] == [e.kind for e in kernel_events(log)]


@pytest.mark.parametrize(
    "line",
    [
        "Aborting journal on device dm-0-8.",  # kubernetes#12905
        "XFS (nvme1n1): Metadata corruption detected at xfs_inode_buf_verify+0x8e/0xf0 [xfs], xfs_inode block 0x80",
        "XFS (nvme1n1): Corruption of in-memory data (0x8) detected at xfs_trans_cancel+0x1a (fs/xfs/xfs_trans.c:1).",
        "BTRFS info (device sda2): forced readonly",
        "BTRFS info (device sda2: state E): forced readonly",
        "F2FS-fs (sda1): Stopped filesystem due to reason: 3",
        "WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended.",
        "device-mapper: verity: 254:0: data block 7 is corrupted",
    ],
)
def test_a_file_system_that_its_kernel_stopped_is_damaged(line: str) -> None:
    """Each file system has words of its own for it."""
    assert ["read-only"] == [e.kind for e in kernel_events(f"[ 9.1] {line}")]


@pytest.mark.parametrize(
    ("gone", "back"),
    [
        ("nfs: server filer not responding, still trying", "nfs: server filer OK"),
        (
            "Lustre: fs-OST0001-osc: Connection to fs-OST0001 (at 10.0.0.9@tcp) was lost; in progress operations wait",
            # "Skipped 3 previous similar messages": OST0001's own may be one of them
            "Lustre: fs-OST0004-osc: Connection restored to 10.0.0.9@tcp (at 10.0.0.9@tcp)",
        ),
    ],
)
def test_a_file_server_that_fell_silent_is_told_until_it_is_back(gone: str, back: str) -> None:
    """The reader hangs meanwhile, and no error tells it."""
    log = f"[ 9.1] {gone}\n[ 9.5] {gone}\n"
    silent = disk_errors.run(logged(log), PROFILE, CHECKPOINT)

    assert [("server-silent", 9.5)] == [(e.kind, e.at_s) for e in kernel_events(log)]
    assert ("warn", gone) == (silent.status, silent.seen)
    assert "ok" == disk_errors.run(logged(f"{log}[ 12.0] {back}\n"), PROFILE, CHECKPOINT).status


@pytest.mark.parametrize(
    "line",
    [
        "nfs: server filer not responding, timed out",  # mounted `soft`: nobody waits, and no OK follows
        "CIFS: VFS: \\\\filer has not responded in 180 seconds. Reconnecting...",  # nor here
    ],
)
def test_a_server_whose_return_is_not_told_is_not_called_silent(line: str) -> None:
    """The warning would last until the next reboot."""
    assert () == kernel_events(f"[ 9.1] {line}")


def test_a_hung_task_is_told_in_every_kernels_words() -> None:
    """gpud#405: names have blanks, some lines no "INFO", later kernels tell what is waited for."""
    log = (
        "[ 1.0] INFO: task Thread-1 (run):41 blocked for more than 122 seconds.\n"
        "[ 2.0] task jfsmount:136986 blocked for more than 120 seconds.\n"
        "[ 3.0] INFO: task nvidia-smi:71 blocked in I/O wait for more than 122 seconds.\n"
    )

    assert [41, 136986, 71] == [e.code for e in kernel_events(log)]


def test_events_of_other_kinds_do_not_become_xids() -> None:
    """Killed processes and file systems that turned read-only are events of their own."""
    log = (
        "[ 1.0] Out of memory: Killed process 4711 (python3) total-vm:1kB\n"
        "[ 2.0] EXT4-fs (nvme0n1p1): Remounting filesystem read-only\n"
        "kern  :err   : [ 3.5] I/O error, dev nvme1n1, sector 8\n"
    )

    assert [("oom", 1.0), ("read-only", 2.0), ("io-error", 3.5)] == [(e.kind, e.at_s) for e in kernel_events(log)]
    assert (
        KernelEvent("oom", "Out of memory: Killed process 4711 (python3) total-vm:1kB", at_s=1.0)
        == kernel_events(log)[0]
    )
    assert "ok" == gpu_xid_recent.run(logged(log), PROFILE, CHECKPOINT).status


def test_units_that_cannot_be_seen_are_unknown_and_a_recording_that_was_not_asked_is_skipped() -> None:
    """In a container the host's fabric manager is invisible; that is not a fabric manager that does not run."""
    hidden = FabricManager(4, running=None, versions=None)
    asked = tuple(replace(each, fabric=None) for each in HEALTH)
    old = tuple(GpuHealth(index) for index in range(8))

    assert ("unknown", "skip") == tuple(
        fabric_manager.run(node(health={"fabric_manager": hidden, "gpus": each}), PROFILE, CHECKPOINT).status
        for each in (asked, old)
    )
