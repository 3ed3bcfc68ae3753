"""What is kept of the kernel caches of each boot?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cache_samples import PLAIN, T0, later

from kboot.host.paths import Paths
from kboot.report.saved_caches import KEPT, load_manifest, load_manifests, save_manifest


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Folders of a node whose cache has the sample's key."""
    found = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    (found.cache / PLAIN.key).mkdir(parents=True)
    return found


def test_the_newest_come_first_and_the_last_lies_in_the_keys_folder(paths: Paths) -> None:
    """History and folder hold the same; a boot that becomes ready replaces what was written before its start."""
    save_manifest(PLAIN, paths)
    save_manifest(later(state="prepared"), paths)
    save_manifest(later(), paths)

    assert (later(), PLAIN) == load_manifests(paths)
    assert later() == load_manifest(paths.cache / PLAIN.key / "manifest.json")


def test_old_ones_are_let_go(paths: Paths) -> None:
    """The history has a bound."""
    for number in range(KEPT + 2):
        save_manifest(replace(PLAIN, started_unix_s=T0 + number), paths)

    assert [T0 + KEPT + 1, T0 + 2] == [m.started_unix_s for m in load_manifests(paths)][:: KEPT - 1]


def test_what_is_damaged_is_left_out(paths: Paths) -> None:
    """One torn file does not hide the others; no history is no boots."""
    assert () == load_manifests(paths)
    save_manifest(PLAIN, paths)
    (paths.history / "caches/20990101T000000.000000-kimi.json").write_text("{")

    assert (PLAIN,) == load_manifests(paths)
