"""What the kernel's words are taken for: faults of disks, file systems, file servers and processes."""

from __future__ import annotations

import pytest

from kboot.facts.health_types import KernelEvent
from kboot.facts.kernel_events import kernel_events


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

    assert [("server-silent", 9.5, gone)] == [(e.kind, e.at_s, e.text) for e in kernel_events(log)]
    assert () == kernel_events(f"{log}[ 12.0] {back}\n")


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


def test_numbers_that_no_kernel_writes_are_cut_or_none() -> None:
    """A log of a recorded tree says anything; reading it ends, and so does writing what was read."""
    long = "9" * 900
    log = (
        f"[{long}.1] I/O error, dev sda\n"
        f"NVRM: Xid (PCI:0000:01:00): {long}\n"
        f"INFO: task x:{long} blocked for more than 122 seconds.\n"
    )

    assert [("io-error", 0, None), ("xid", 999_999_999, None)] == [(e.kind, e.code, e.at_s) for e in kernel_events(log)]


def test_a_line_longer_than_the_kernel_writes_is_cut() -> None:
    """A recording may hold any: patterns are tried on what a line of the kernel can be, which bounds what they cost."""
    (event,) = kernel_events("[ 9.1] Out of memory: Killed process 7 " + "task " * 100_000)

    assert 2048 >= len(event.text)


@pytest.mark.parametrize("of", ["", " GPU-I:05", " GPU-I:01 GPU-CI:02"])
def test_an_xid_of_a_mig_slice_is_its_gpus(of: str) -> None:
    """kubernetes-sigs/dra-driver-nvidia-gpu#904: with MIG the slice stands behind the address."""
    line = f"[ 9.1] NVRM: Xid (PCI:0000:01:00{of}): 95, pid=7062, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"

    assert [("xid", "0000:01:00.0", 95)] == [(e.kind, e.bus_id, e.code) for e in kernel_events(line)]


def test_a_switchs_fault_is_told_once() -> None:
    """NVIDIA/nvtrust#124: three lines each, of which the first alone says whether it is fatal."""
    at = "nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 28006"
    log = (
        f"[ 38.1] {at}, Non-fatal, Link 46 MC TS crumbstore MCTO (First)\n"
        f"[ 38.2] {at}, Severity 0 Engine instance 46 Sub-engine instance 00\n"
        f"[ 38.3] {at}, Data {{0x00140004, 0x00100000, 0x00140004, 0x00000000}}\n"
    )

    assert [("sxid", 28006, True)] == [(e.kind, e.code, "Non-fatal" in e.text) for e in kernel_events(log)]
