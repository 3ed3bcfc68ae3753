"""`kboot cache`: which kernel caches are kept on this node, and what would be let go?"""

from __future__ import annotations

import json
import os
import time

from cli_run import Kboot
from report_samples import demo_boot

from fakes.caches import make_cache
from kboot.host.locks import lock_file
from kboot.host.paths import Paths
from kboot.report.saved import save_report


def test_folders_are_shown_with_size_factors_and_last_use(kboot: Kboot) -> None:
    """`cache status` lists what the engine has on the disk; -v adds the factors."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    place = paths.cache / "demo-1"
    place.mkdir(parents=True)
    (place / "factors.json").write_text(json.dumps({"driver": "580.82"}))
    (place / "kernel.bin").write_bytes(b"x" * 5000)
    save_report(demo_boot(), paths)
    (found,) = kboot("cache", "status", "--json").doc["folders"]

    assert ("demo-1", False, 1, 5000) == tuple(found[key] for key in ("key", "complete", "files", "size_bytes"))
    assert demo_boot().started_unix_s == found["last_used_unix_s"]
    assert "580.82" in kboot("cache", "status", "-v").out


def test_a_node_without_caches_says_so(kboot: Kboot) -> None:
    """No cache yet is no error."""
    assert "no kernel cache" in kboot("cache", "status").out
    assert "nothing would be removed\n" == kboot("cache", "gc", "--dry-run").out
    assert "nothing to remove\n" == kboot("cache", "gc").out
    assert [] == kboot("cache", "gc", "--dry-run", "--json").doc["remove"]


def test_a_clean_up_removes_what_no_boot_uses(kboot: Kboot) -> None:
    """Old incomplete folders go, the key of the last boot stays; --dry-run says the same and removes nothing."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    save_report(demo_boot(), paths)
    for key, age_s in (("demo-1", 9e6), ("old", 9e6), ("young", 60)):
        folder = make_cache(paths.cache, key, {"a": b"x"}, complete=False)
        os.utime(folder / "factors.json", times=(time.time() - age_s,) * 2)
    dry = kboot("cache", "gc", "--dry-run", "--json").doc
    before = sorted(p.name for p in paths.cache.iterdir())
    ran = kboot("cache", "gc")

    assert [("old", "no boot with it reached ready")] == [(f["key"], f["why"]) for f in dry["remove"]]
    assert ["demo-1", "old", "young"] == before
    assert (0, True) == (ran.status, "removed" in ran.out)
    assert {"demo-1", "young"} == {p.name for p in paths.cache.iterdir() if not p.name.startswith(".")}


def test_a_clean_up_waits_for_no_boot(kboot: Kboot) -> None:
    """While a boot runs, which may be about to use an old key, nothing is removed: status 13, with who holds it."""
    with lock_file(kboot.folder / "run/boot.lock", 1.0):
        ran = kboot("cache", "gc", "--json")

    assert (13, "locked") == (ran.status, ran.doc["code"])
