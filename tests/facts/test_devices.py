"""Networks, disks and programs of a node."""

from __future__ import annotations

from pathlib import Path

from kboot.facts.disks import collect_disks
from kboot.facts.network import collect_network
from kboot.facts.programs import collect_programs
from kboot.facts.types import Disk, Nic, RdmaPort
from kboot.host.record import Recorder
from kboot.host.recorded import RecordedHost

NET, RDMA, PCI = "/sys/class/net", "/sys/class/infiniband", "/sys/devices/pci0000:17/0000:18:00.0"


def tree(root: Path, files: dict[str, str], links: dict[str, str] | None = None) -> RecordedHost:
    """Write files and links, and return a host that reads them."""
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n")
    for path, target in (links or {}).items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return RecordedHost(root)


def a_node(root: Path) -> RecordedHost:
    """One InfiniBand card with its interface, an interface without a link, and one that is no device."""
    return tree(
        root,
        {
            f"{PCI}/numa_node": "1",
            f"{PCI}/net/ib0/operstate": "up",
            f"{PCI}/net/ib0/speed": "400000",
            f"{PCI}/net/ib0/mtu": "4092",
            f"{PCI}/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
            f"{PCI}/infiniband/mlx5_0/ports/1/phys_state": "5: LinkUp",
            f"{PCI}/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
            f"{PCI}/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
            f"{NET}/eth9/operstate": "down",
            f"{NET}/eth9/device/numa_node": "-1",
            f"{NET}/docker0/operstate": "down",
        },
        {
            f"{NET}/ib0": "../../devices/pci0000:17/0000:18:00.0/net/ib0",
            f"{RDMA}/mlx5_0": "../../devices/pci0000:17/0000:18:00.0/infiniband/mlx5_0",
            f"{PCI}/net/ib0/device": "../../../0000:18:00.0",
            f"{PCI}/infiniband/mlx5_0/device": "../../../0000:18:00.0",
        },
    )


def test_interfaces_and_rdma_ports_tell_their_node(tmp_path: Path) -> None:
    """A card's node and address come from its PCI device; -1 is "not known"; a bridge is no device."""
    nics, ports, gaps = collect_network(a_node(tmp_path))

    assert (
        Nic("eth9", "down", None, None, None, ""),
        Nic("ib0", "up", 400000, 4092, 1, "0000:18:00.0"),
    ) == nics
    assert (RdmaPort("mlx5_0", 1, "ACTIVE", "LinkUp", 400.0, "InfiniBand", 1, "0000:18:00.0"),) == ports
    assert () == gaps


def test_what_was_read_can_be_recorded(tmp_path: Path) -> None:
    """A recorded tree gives the same devices again."""
    recorder = Recorder(a_node(tmp_path / "machine"))
    found = collect_network(recorder)
    recorder.save(tmp_path / "record")

    assert found == collect_network(RecordedHost(tmp_path / "record"))


def test_disks_and_raids(tmp_path: Path) -> None:
    """A RAID names its members and how many it lacks; loops are no disks; an NVMe's node is its controller's."""
    block = "/sys/block"
    host = tree(
        tmp_path,
        {
            f"{block}/loop0/size": "0",
            f"{block}/nvme1n1/size": "7501476528",
            f"{block}/nvme1n1/device/model": "Amazon EC2 NVMe Instance Storage        ",
            f"{block}/nvme1n1/device/numa_node": "1",
            f"{block}/nvme1n1/queue/rotational": "0",
            f"{block}/nvme1n1/queue/read_ahead_kb": "128",
            f"{block}/md0/size": "15002690560",
            f"{block}/md0/md/level": "raid0",
            f"{block}/md0/md/degraded": "1",
            f"{block}/md0/slaves/nvme1n1/x": "",
            f"{block}/md0/slaves/nvme2n1/x": "",
        },
    )
    disks, gaps = collect_disks(host)

    assert (
        Disk("md0", "raid", "", 15002690560 * 512, None, None, None, ("nvme1n1", "nvme2n1"), "raid0", 1),
        Disk("nvme1n1", "nvme", "Amazon EC2 NVMe Instance Storage", 7501476528 * 512, False, 131072, 1),
    ) == disks
    assert () == gaps


def test_programs_are_looked_for_in_path(tmp_path: Path) -> None:
    """The first folder that has one wins; what is not there is not named."""
    host = tree(tmp_path, {"/usr/bin/numactl": "", "/usr/local/bin/numactl": "", "/opt/x/ninja": ""})

    assert {"numactl": "/usr/local/bin/numactl"} == collect_programs(host)
