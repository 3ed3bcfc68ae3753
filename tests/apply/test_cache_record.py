"""Puts on record what decided a boot's kernel caches, and what lay in them before and after the engine's start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from booting import Node, free_port, profile
from cli.cli_run import hub
from kboot.apply.cache_record import engine_factors, record_ready
from kboot.facts.cache_scan import scan_of
from kboot.host.paths import Paths
from kboot.host.tree import read_tree
from kboot.plan.types import QuarantineCache
from kboot.profile.types import Profile
from kboot.report.cache_explain import explain
from kboot.report.saved_caches import load_manifest, load_manifests, save_manifest
from kboot.store.cache_files import COMPLETE, MANIFEST, OWN, read_inventory
from report.cache_samples import JIT, PLAIN


def test_folders_named_by_a_hash_and_the_engines_own_factors_are_seen(tmp_path: Path) -> None:
    """vLLM's folders, tuned kernels and modules; one cache_key_factors.json for each, its secrets veiled."""
    jit, tuned = "vllm/torch_compile_cache/0a1b2c3d4e", f"flashinfer-autotune/{'5e' * 32}"
    module = "flashinfer/.cache/flashinfer/0.7.2/103a/cached_ops/fused_moe"
    for folder in (f"{jit}/rank_0_0/backbone", f"{jit}/rank_1_0/backbone", tuned, module, "triton/ABCD"):
        (tmp_path / folder).mkdir(parents=True)
    for rank in ("0_0", "1_0"):
        written = {"code_hash": "c", "env": {"VLLM_API_KEY": "sk-1", "CUDA_HOME": "/usr/local/cuda"}}
        (tmp_path / jit / f"rank_{rank}/backbone/cache_key_factors.json").write_text(json.dumps(written))
    (tmp_path / "vllm/startup_plan").mkdir()
    (tmp_path / f"vllm/startup_plan/startup_plan_{'a' * 16}.json").write_text("{}")
    (tmp_path / MANIFEST).write_text("{}")
    seen = scan_of(read_tree(tmp_path, skip=OWN))
    factors = engine_factors(tmp_path, seen.factor_files)

    assert (tuned, module, f"vllm/startup_plan/startup_plan_{'a' * 16}.json", jit) == seen.named
    assert {jit} == set(factors)
    assert "/usr/local/cuda" == factors[jit]["env"]["CUDA_HOME"]
    assert "sk-1" not in json.dumps(factors)
    assert 3 == seen.files


def test_a_torn_file_of_the_engines_own_factors_is_left_out(tmp_path: Path) -> None:
    """A crash may leave half of it; the folder still counts."""
    folder = tmp_path / "vllm/torch_compile_cache/0a1b2c3d4e/rank_0_0"
    folder.mkdir(parents=True)
    (folder / "cache_key_factors.json").write_text('{"code_')

    seen = scan_of(read_tree(tmp_path))

    assert (("vllm/torch_compile_cache/0a1b2c3d4e",), {}) == (seen.named, engine_factors(tmp_path, seen.factor_files))


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with six shards."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def served() -> Profile:
    """The demo profile on a free port, ready when its health URL answers."""
    asked = profile()
    return replace(asked, serve=replace(asked.serve, port=free_port(), probe="health"))


@pytest.mark.slow
def test_two_boots_are_on_record_and_a_third_heals_what_tore(tmp_path: Path, endpoint: str, served: Profile) -> None:
    """Cold, then warm: the second loads what the first built, and says so; a third has a torn entry out of its way."""
    node = Node(tmp_path, endpoint)
    node.boot(served, serve=True, exit_when_ready=True)
    node.boot(served, serve=True, exit_when_ready=True)
    warm, cold = load_manifests(node.paths)
    found = next(c for c in explain(warm, cold).caches if c.cache == "torch.compile")
    key = node.paths.cache / warm.key

    assert (("ready", "miss"), ("ready", "hit")) == (
        (cold.state, "miss" if cold.said["torch.compile"][1] else "hit"),
        (warm.state, found.verdict),
    )
    assert () == explain(warm, cold).causes
    assert ((), True) == (cold.before, len(warm.before) == 1)
    assert cold.added["vllm"].files == 2
    assert {"compile", "read weights"} <= warm.seconds.keys() & cold.seconds.keys()
    assert warm == load_manifest(key / MANIFEST)
    assert {"vllm"} == {path.partition("/")[0] for path in read_inventory(key)}
    assert (key / COMPLETE).exists()

    (key / "triton/AB").mkdir(parents=True)
    (key / "triton/AB/k.json").touch()
    asides = [a for a in node.plan(served).actions if isinstance(a, QuarantineCache)]
    report = node.boot(served)

    assert ["triton/AB"] == [a.entry for a in asides]
    assert ["done"] == [o.status for o in report.outcomes if o.title.startswith("put triton/AB")]
    assert not (key / "triton/AB").exists()
    assert [] == [a for a in node.plan(served).actions if isinstance(a, QuarantineCache)]


def test_an_engine_of_another_service_completes_its_cache_as_well(tmp_path: Path) -> None:
    """Without its log nothing is said of hits, and the folders, the inventory and the mark are there all the same."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    key = paths.cache / PLAIN.key
    (key / JIT / "0a1b2c3d4e").mkdir(parents=True)
    save_manifest(replace(PLAIN, state="prepared", folders=(), said={}, seconds={}), paths)
    record_ready(str(key), paths)
    record_ready(str(paths.cache / "none"), paths)
    (found,) = load_manifests(paths)

    assert ("ready", (f"{JIT}/0a1b2c3d4e",), {}) == (found.state, found.folders, found.said)
    assert (key / COMPLETE).exists()
    assert {} == read_inventory(key)
    assert not (paths.cache / "none").exists()
