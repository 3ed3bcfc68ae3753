"""Writes a folder of kernel caches into one archive that another node can fill its own from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fakes.caches import KEY, MTIME_NS, cache_files, elf, make_cache
from kboot.apply.cache_export import export_cache
from kboot.errors import ActionFailed


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """Wherever they lie, in whatever order they were made, with any number of CPUs."""
    files = cache_files()
    one = make_cache(tmp_path / "one", files=files)
    other = make_cache(tmp_path / "other", files=dict(reversed(files.items())))
    export_cache(one, tmp_path / "a", 1)
    export_cache(other, tmp_path / "b", 4)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_tar_and_zstd_read_it_and_the_list_stands_first(tmp_path: Path) -> None:
    """No tool of kboot's is needed to look inside."""
    done = export_cache(make_cache(tmp_path / "cache"), tmp_path / "a.tar.zst", 2)
    listed = subprocess.run(
        ["tar", "--zstd", "-tf", tmp_path / "a.tar.zst"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    subprocess.run(["tar", "--zstd", "-xf", tmp_path / "a.tar.zst", "-C", tmp_path], check=True)
    document = json.loads((tmp_path / "kboot-cache.json").read_text())
    files = cache_files()

    assert ("kboot-cache.json", len(files) + 1) == (listed[0], len(listed))
    assert sorted(listed[1:]) == listed[1:]
    assert (KEY, 1796020000.0) == (document["key"], document["completed_unix_s"])
    assert {MTIME_NS} == {row[2] for row in document["files"]}
    assert (len(files), True) == (done.files, done.complete)


def test_a_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    """Told to stop, it ends with an error, and there is neither an archive nor a part of one."""
    folder, stop = make_cache(tmp_path / "cache"), threading.Event()
    stop.set()
    with pytest.raises(ActionFailed, match="kboot was stopped while it wrote the archive"):
        export_cache(folder, tmp_path / "a.tar.zst", 2, stop=stop)

    assert ["cache"] == [path.name for path in tmp_path.iterdir()]


def test_what_tore_and_what_is_of_one_machine_stays_at_home(tmp_path: Path) -> None:
    """Torn entries, the probe of GPUs, locks and links are left out and counted."""
    folder = make_cache(
        tmp_path / "cache",
        files={
            "triton/A/k.json": b"{",
            "triton/B/k.cubin": elf()[:-1],
            "triton/C/k.cubin": elf(),
            "vllm/gpu_p2p_access_cache_for_0,1.json": b"{}",
            "torch-extensions/m/lock": b"",
        },
    )
    (folder / "triton/out").symlink_to("/etc")
    done = export_cache(folder, tmp_path / "a", 1)

    assert 1 == done.files
    assert {
        "links and the like": 1,
        "locks": 1,
        "says which GPUs of one machine reach each other": 1,
        "torn by a crash": 2,
    } == done.left_out


def test_only_a_cache_an_engine_was_ready_with_travels(tmp_path: Path) -> None:
    """Unless it is asked for as it is."""
    folder = make_cache(tmp_path / "cache", complete=False)
    with pytest.raises(ActionFailed, match="no engine has reached ready"):
        export_cache(folder, tmp_path / "a", 1)
    assert not export_cache(folder, tmp_path / "a", 1, incomplete=True).complete
    with pytest.raises(ActionFailed) as caught:
        export_cache(tmp_path / "none", tmp_path / "b", 1)
    assert "cache-missing" == caught.value.code


def test_an_engine_that_writes_meanwhile_makes_it_fail(tmp_path: Path) -> None:
    """What is in the archive is what was listed, or there is no archive."""
    folder = make_cache(tmp_path / "cache")
    stop = threading.Event()
    target = folder / "vllm/torch_compile_cache/0a1b2c3d4e/rank_0_0/model"

    def write() -> None:
        while not stop.is_set():
            target.write_bytes(os.urandom(20_001))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(ActionFailed) as caught:
            export_cache(folder, tmp_path / "a", 1)
    finally:
        stop.set()
        writer.join()

    assert "cache-changed" == caught.value.code
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_cache(tmp_path: Path) -> None:
    """A module of 400 MiB is streamed: the process stays far below its size."""
    folder = make_cache(tmp_path / "cache", files={"m/large.bin": os.urandom(1 << 20) * 400})
    script = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from kboot.apply.cache_export import export_cache\n"
        "from kboot.apply.cache_import import import_cache\n"
        "export_cache(Path(sys.argv[1]), Path(sys.argv[2]), 2)\n"
        "with open(sys.argv[2], 'rb') as file:\n"
        "    import_cache(file, Path(sys.argv[3]), lambda found: ())\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, folder, tmp_path / "a", tmp_path / "in"],
        capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip

    assert 250 > int(done.stdout)
