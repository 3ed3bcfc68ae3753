"""Unit files are found where systemd looks for them, with the links that enable them."""

from __future__ import annotations

from pathlib import Path

from kboot.facts.boot_units import UnitFile, read_units
from kboot.host.image import ImageTree

UNIT = "[Unit]\nDescription=x\n\n[Install]\nWantedBy=multi-user.target graphical.target\n"


def test_units_of_an_image(tmp_path: Path) -> None:
    """Installed and half enabled, masked, absent."""
    units = tmp_path / "usr/lib/systemd/system"
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    units.mkdir(parents=True)
    wants.mkdir(parents=True)
    (units / "a.service").write_text(UNIT)
    (wants / "a.service").symlink_to("/usr/lib/systemd/system/a.service")
    (tmp_path / "etc/systemd/system/b.service").symlink_to("/dev/null")
    links = (
        ("etc/systemd/system/multi-user.target.wants/a.service", True),
        ("etc/systemd/system/graphical.target.wants/a.service", False),
    )
    expected = (
        UnitFile("a.service", "usr/lib/systemd/system", links),
        UnitFile("b.service", "etc/systemd/system", masked=True),
        UnitFile("c.service", ""),
    )

    assert expected == read_units(ImageTree(tmp_path), ("a.service", "b.service", "c.service"))


def test_an_old_layout_is_found_through_the_link_that_replaced_it(tmp_path: Path) -> None:
    """`/lib -> usr/lib` as on every system of today, or the other way round."""
    (tmp_path / "lib/systemd/system").mkdir(parents=True)
    (tmp_path / "lib/systemd/system/a.service").write_text(UNIT)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/lib").symlink_to("../lib")

    assert "usr/lib/systemd/system" == read_units(ImageTree(tmp_path), ("a.service",))[0].folder
