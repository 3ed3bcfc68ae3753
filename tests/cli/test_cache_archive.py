"""`kboot cache export` and `import`: how do kernel caches travel to another node?"""

from __future__ import annotations

import json
from pathlib import Path

from cli_run import Kboot

from fakes.caches import KEY, content, make_cache
from kboot.engines.common import node_factors
from kboot.facts.collect import collect
from kboot.host.paths import Paths
from kboot.host.real import RealHost


def test_a_cache_travels_from_one_folder_to_another(kboot: Kboot, tmp_path: Path) -> None:
    """Exported under its key, imported on a node with the same factors; there, it is refused unless it may replace."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    folder = make_cache(paths.cache)
    factors = {**node_factors(collect(RealHost(), paths, "demo"), "demo"), "commit": "c" * 40}
    (folder / "factors.json").write_text(json.dumps(factors))
    before = content(folder)
    out = kboot("cache", "export", str(tmp_path / "a.tar.zst"), "--json")
    refused = kboot("cache", "import", str(tmp_path / "a.tar.zst"), "--json")
    taken = kboot("cache", "import", str(tmp_path / "a.tar.zst"), "--replace")

    assert (0, KEY, True) == (out.status, out.doc["key"], out.doc["complete"])
    assert (13, "cache-exists") == (refused.status, refused.doc["code"])
    (aside,) = [line.removeprefix("  put aside  ") for line in taken.out.splitlines() if "put aside" in line]
    assert (0, True) == (taken.status, Path(aside).is_dir())
    assert ["  holds      ", "  took       ", "  put aside  "] == [line[:13] for line in taken.out.splitlines()[1:]]
    assert before == content(folder)


def test_an_archive_of_another_node_is_refused_with_the_factor(kboot: Kboot, tmp_path: Path) -> None:
    """Status 13; the driver it was made for and the one that is here are named."""
    make_cache(kboot.folder / "state/cache")
    assert "triton" not in kboot("cache", "export", str(tmp_path / "a")).err
    refused = kboot("cache", "import", str(tmp_path / "a"))

    assert 13 == refused.status
    assert "580.82 in it, none here" in " ".join(refused.err.split())


def test_without_a_cache_there_is_nothing_to_export(kboot: Kboot, tmp_path: Path) -> None:
    """Status 11, and what would make one."""
    ran = kboot("cache", "export", str(tmp_path / "a"), "--json")

    assert (11, "no-cache") == (ran.status, ran.doc["code"])
    assert not (tmp_path / "a").exists()


def test_an_export_shows_how_far_it_is_on_a_terminal_alone(kboot: Kboot, tmp_path: Path) -> None:
    """Both times that the files are read; elsewhere nothing stands beside the result."""
    make_cache(kboot.folder / "state/cache")
    elsewhere = kboot("cache", "export", str(tmp_path / "a"))
    written = kboot.on_terminal("cache", "export", str(tmp_path / "a"))

    assert "" == elsewhere.err
    assert all(f"✓ {phase}" in written.replace("\x1b[32m", "").replace("\x1b[0m", "") for phase in ("hash", "write"))
