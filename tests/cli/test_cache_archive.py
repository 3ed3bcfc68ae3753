"""`kboot cache export` and `import`: how do kernel caches travel to another node?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
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


def piped(kboot: Kboot, folder: Path, *args: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command with pipes as its streams, in a folder of its own."""
    argv = [sys.executable, "-m", "kboot", *args]
    return subprocess.run(argv, input=data, capture_output=True, cwd=folder, env=kboot.environ, timeout=60)


def test_a_cache_travels_through_pipes(kboot: Kboot, tmp_path: Path) -> None:
    """`-` is standard output and input: the bytes of a file, what is said of them stands beside, and no file "-" is."""
    paths = Paths(kboot.folder / "state", kboot.folder / "run", kboot.folder / "etc")
    folder = make_cache(paths.cache)
    factors = {**node_factors(collect(RealHost(), paths, "demo"), "demo"), "commit": "c" * 40}
    (folder / "factors.json").write_text(json.dumps(factors))
    kboot("cache", "export", str(tmp_path / "a.tar.zst"))
    work = tmp_path / "work"
    work.mkdir()
    out = piped(kboot, work, "cache", "export", "-", "--json")
    taken = piped(kboot, work, "cache", "import", "-", "--replace", "--json", data=out.stdout)

    assert (0, 0) == (out.returncode, taken.returncode)
    assert (tmp_path / "a.tar.zst").read_bytes() == out.stdout
    assert ("standard output", len(out.stdout)) == tuple(json.loads(out.stderr)[k] for k in ("path", "archive_bytes"))
    assert KEY == json.loads(taken.stdout)["key"]
    assert [] == list(work.iterdir())


def test_a_reader_that_goes_away_is_no_success(kboot: Kboot, tmp_path: Path) -> None:
    """The other end of the pipe is closed: the export has failed, and says so."""
    make_cache(kboot.folder / "state/cache")
    reader, writer = os.pipe()
    os.close(reader)
    argv = [sys.executable, "-m", "kboot", "cache", "export", "-"]
    ran = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, env=kboot.environ, timeout=60)
    os.close(writer)

    assert 13 == ran.returncode
    assert "cannot write: Broken pipe" in ran.stderr


@pytest.mark.parametrize(("verb", "stream"), [("export", "stdout"), ("import", "stdin")])
def test_an_archive_on_a_terminal_is_refused(kboot: Kboot, verb: str, stream: str) -> None:
    """Status 2, and how two nodes are joined by a pipe."""
    make_cache(kboot.folder / "state/cache")
    screen, slave = os.openpty()
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL} | {stream: slave}
    argv = [sys.executable, "-m", "kboot", "cache", verb, "-"]
    ran = subprocess.run(argv, **streams, stderr=subprocess.PIPE, text=True, env=kboot.environ, timeout=60)
    os.close(slave)
    os.close(screen)

    assert 2 == ran.returncode
    assert "ssh NODE kboot cache import -" in ran.stderr


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
