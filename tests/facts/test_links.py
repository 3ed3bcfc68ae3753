"""What lies between GPUs and network cards, read from recorded trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.facts.link_types import Bridge, Imex, LinkFacts
from kboot.facts.links import acs_redirects, below_shared, collect_links
from kboot.host.recorded import RecordedHost

GPU, NIC, FAR = "0000:44:00.0", "0000:45:00.0", "0000:81:00.0"
PORT, UP, DOWN, DOWN_2 = "0000:40:01.0", "0000:41:00.0", "0000:42:00.0", "0000:42:01.0"


def config(*capabilities: tuple[int, int]) -> bytes:
    """Return a configuration space with these extended capabilities: (id, the 16 bits at +6 of it)."""
    data = bytearray(4096)
    at = 0x100
    for place, (number, control) in enumerate(capabilities):
        following = at + 0x40 if place + 1 < len(capabilities) else 0
        data[at : at + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        data[at + 6 : at + 8] = control.to_bytes(2, "little")
        at = following
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "redirects"),
    [
        (config((0x0001, 0), (0x000D, 0b11100)), ("request", "completion", "upstream")),
        (config((0x000D, 0b00001)), ()),
        (config((0x0001, 0)), ()),
        (config((0x0001, 0), (0x000D, 0b00100))[:64], None),
        (None, None),
        (b"\xff" * 4096, ()),
    ],
    ids=["all", "source validation only", "no ACS", "unprivileged", "not readable", "off the bus"],
)
def test_redirects_are_read_from_the_acs_capability(data: bytes | None, redirects: tuple[str, ...] | None) -> None:
    """Bits 2 to 4 of the control register redirect; what cannot be read is not "none"."""
    assert redirects == acs_redirects(data)


def test_a_list_of_capabilities_that_is_a_circle_ends() -> None:
    """A capability that points at itself is followed a bounded number of times."""
    data = bytearray(config((0x0001, 0)))
    data[0x100:0x104] = (0x0001 | 0x100 << 20).to_bytes(4, "little")

    assert () == acs_redirects(bytes(data))


def test_only_bridges_below_a_shared_one_turn_traffic_round() -> None:
    """Two devices below one switch meet at its upstream port; a device of its own port meets nobody."""
    assert (UP, DOWN, DOWN_2) == below_shared([(PORT, UP, DOWN), (PORT, UP, DOWN_2), ("0000:80:01.0",)])
    assert () == below_shared([("0000:00:01.0", "0000:01:00.0"), ("0000:20:01.0", "0000:21:00.0")])


def link(root: Path, bus_id: str, *above: str) -> None:
    """Put a device into the tree, with the bridges above it."""
    folder = root / "sys/bus/pci/devices"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / bus_id).symlink_to("/".join(("../../../devices/pci0000:40", *above, bus_id)))
    (root / "sys/devices/pci0000:40" / "/".join(above) / bus_id).mkdir(parents=True)


def test_a_switch_with_a_gpu_and_a_card_is_found_in_sysfs(tmp_path: Path) -> None:
    """Bridges, their redirects, IMEX and confidential computing come from the tree and from NVML."""
    link(tmp_path, GPU, PORT, UP, DOWN)
    link(tmp_path, NIC, PORT, UP, DOWN_2)
    link(tmp_path, FAR, "0000:80:01.0")
    for bridge, above in ((UP, (PORT,)), (DOWN, (PORT, UP)), (DOWN_2, (PORT, UP))):
        at = tmp_path / "sys/devices/pci0000:40" / "/".join(above) / bridge
        (at / "config").write_bytes(config((0x000D, 0b00100 if bridge == DOWN else 0)))
        (tmp_path / "sys/bus/pci/devices" / bridge).symlink_to(
            f"../../../devices/pci0000:40/{'/'.join((*above, bridge))}"
        )
    (tmp_path / "etc/nvidia-imex").mkdir(parents=True)
    (tmp_path / "etc/nvidia-imex/nodes_config.cfg").write_text("# nodes\n10.0.0.1\n10.0.0.2\n\n")
    unit = tmp_path / "sys/fs/cgroup/system.slice/nvidia-imex.service"
    unit.mkdir(parents=True)
    (unit / "cgroup.procs").write_text("811\n")

    facts = collect_links(
        RecordedHost(tmp_path), {"confidential": {"feature": True, "ready": True, "devtools": True}}, (GPU,), (NIC, FAR)
    )

    assert {GPU: (PORT, UP, DOWN), NIC: (PORT, UP, DOWN_2), FAR: ("0000:80:01.0",)} == facts.path_of
    assert (Bridge(UP, ()), Bridge(DOWN, ("request",)), Bridge(DOWN_2, ())) == facts.bridges
    assert (Imex(running=True, nodes=2), "devtools") == (facts.imex, facts.confidential)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({"feature": False}, "off"),
        ({"feature": True, "ready": False, "devtools": False}, "not-ready"),
        ({"feature": True, "ready": None, "devtools": False}, "on"),
        ({"error": "NOT_SUPPORTED"}, None),
        (None, None),
    ],
)
def test_confidential_computing_is_told_by_nvml(tmp_path: Path, told: object, state: str | None) -> None:
    """An error, or a recording without it, tells nothing."""
    assert state == collect_links(RecordedHost(tmp_path), {"confidential": told}, (GPU,), ()).confidential


def test_a_machine_without_gpus_is_not_looked_at(tmp_path: Path) -> None:
    """Nothing is read where nothing could matter."""
    assert LinkFacts() == collect_links(RecordedHost(tmp_path), OSError("not asked"), (), (NIC,))
