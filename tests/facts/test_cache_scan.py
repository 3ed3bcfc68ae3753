"""What lies in the folder of kernel caches that this boot will use: how much, and what of it looks wrong?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kboot.facts.cache_scan import scan_cache
from kboot.facts.types import TunedFile
from kboot.store.cache_files import MANIFEST, write_inventory


def make(key: Path) -> None:
    """B114's three Triton entries, a set of tuned kernels, a probe of GPUs, and kboot's own files."""
    for name, text in (("AAAA", ""), ("BBBB", '{"child_paths": {'), ("CCCC", '{"child_paths": {}}')):
        (key / "triton" / name).mkdir(parents=True)
        (key / "triton" / name / "__grp__k.json").write_text(text)
    tuned = key / "flashinfer-autotune/ab12"
    tuned.mkdir(parents=True)
    stamps = {"gpu": "NVIDIA B300", "flashinfer_version": "0.7.2", "cudnn_version": None}
    (tuned / "autotune_configs_dp0_rank0.json").write_text(json.dumps({"_metadata": stamps, "x": ["A", 1]}))
    (tuned / "autotune_configs_dp0_rank1.json").write_text("{}")
    (key / "vllm").mkdir()
    (key / "vllm/gpu_p2p_access_cache_for_0,1.json").write_text("{}")
    (key / "factors.json").write_text("")
    (key / MANIFEST).write_text(json.dumps({"machine": "aaaa"}))


def test_b114_what_a_power_cut_left_is_found(tmp_path: Path) -> None:
    """B114: the empty and the cut entry are torn, the third is whole; kboot's own files are not looked at."""
    make(tmp_path)
    scan = scan_cache(tmp_path, "bbbb")

    assert ["triton/AAAA/__grp__k.json", "triton/BBBB/__grp__k.json"] == [t.path for t in scan.torn]
    assert (6, True) == (scan.files, scan.whole)
    assert ("aaaa", "bbbb") == (scan.made_on, scan.machine)
    assert ("vllm/gpu_p2p_access_cache_for_0,1.json",) == scan.p2p


def test_tuned_files_say_where_they_were_tuned(tmp_path: Path) -> None:
    """FlashInfer's stamps as text, what it could not tell left out; a file without stamps has none."""
    make(tmp_path)
    folder = "flashinfer-autotune/ab12/autotune_configs_dp0_rank"

    assert (
        TunedFile(f"{folder}0.json", {"flashinfer_version": "0.7.2", "gpu": "NVIDIA B300"}),
        TunedFile(f"{folder}1.json", {}),
    ) == scan_cache(tmp_path, "").tuned


def test_what_was_whole_and_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    """The inventory of the last good boot spares the reading; a file that changed since is looked at."""
    make(tmp_path)
    files = [p for p in tmp_path.rglob("*.json") if p.parent != tmp_path and p.stat().st_size]
    write_inventory(tmp_path, [(str(p.relative_to(tmp_path)), p.stat().st_size, p.stat().st_mtime_ns) for p in files])
    assert 0 == scan_cache(tmp_path, "").looked_at

    torn = tmp_path / "triton/CCCC/__grp__k.json"
    torn.write_text("{")
    scan = scan_cache(tmp_path, "")

    assert 1 == scan.looked_at
    assert "triton/CCCC/__grp__k.json" in [t.path for t in scan.torn]


def test_a_lock_that_is_a_file_is_told_with_who_has_it_open(tmp_path: Path) -> None:
    """torch's baton: free when nobody has it open. Other lock files, which the kernel frees, are left alone."""
    build = tmp_path / "torch-extensions/py312_cu130/nccl"
    build.mkdir(parents=True)
    (build / "lock").touch()
    (tmp_path / "flashinfer/.cache/flashinfer/tmp").mkdir(parents=True)
    (tmp_path / "flashinfer/.cache/flashinfer/tmp/module.lock").touch()
    with (build / "lock").open():
        (held,) = scan_cache(tmp_path, "").batons
    (free,) = scan_cache(tmp_path, "").batons

    assert ((os.getpid(),), ()) == (held.holders, free.holders)
    assert "torch-extensions/py312_cu130/nccl/lock" == free.path


def test_a_table_that_names_graphs_of_another_folder_is_told(tmp_path: Path) -> None:
    """vllm#52154: the paths in it are whole ones; after a copy to another folder the engine does not find them."""
    made = tmp_path / "made/vllm/torch_compile_cache/0123456789/rank_0_0/backbone"
    (made / "artifact_0").mkdir(parents=True)
    (made / "vllm_compile_cache.py").write_text(f"{{   (0, 0, 'inductor'): ('artifact_0', '{made}/artifact_0')}}")
    assert () == scan_cache(tmp_path / "made", "").moved

    (tmp_path / "made").rename(tmp_path / "copy")

    assert (
        ("vllm/torch_compile_cache/0123456789/rank_0_0/backbone/vllm_compile_cache.py", f"{made}/artifact_0"),
    ) == scan_cache(tmp_path / "copy", "").moved


def test_a_graph_that_nobody_can_look_for_stops_no_scan(tmp_path: Path) -> None:
    """A table may name a folder that this user may not enter, or anything: whether the graph is there is not known."""
    table = tmp_path / "key/vllm/torch_compile_cache/0123456789/rank_0_0/backbone/vllm_compile_cache.py"
    table.parent.mkdir(parents=True)
    table.write_text(f"{{   (0, 0, 'inductor'): ('artifact_0', '/{'long' * 100}/torch_compile_cache/artifact_0')}}")

    assert () == scan_cache(tmp_path / "key", "").moved


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """A new key has nothing in it."""
    scan = scan_cache(tmp_path / "none", "m")

    assert (0, 0, (), "") == (scan.files, scan.size_bytes, scan.torn, scan.made_on)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user's")
def test_b122_what_the_engines_user_cannot_change_is_told(tmp_path: Path) -> None:
    """B122: on an installed node a folder that root made with 0755 is named; with group write it is fine."""
    tmp_path.chmod(0o2770)
    cache = tmp_path / "key/triton/cache"
    cache.mkdir(parents=True)
    for folder in (tmp_path / "key/triton", cache):
        folder.chmod(0o755)
    found = scan_cache(tmp_path / "key", "").unwritable

    assert found is not None
    assert ("triton", 0, "0755", 2) == (found.path, found.uid, found.mode, found.count)
    for folder in (tmp_path / "key/triton", cache):
        folder.chmod(0o2770)
    assert scan_cache(tmp_path / "key", "").unwritable is None
