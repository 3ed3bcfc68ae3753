"""The benchmarks run, and their documents have the promised shape. No number is judged here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes.cluster import why_not

NO_CLUSTER = why_not()
RUN = Path(__file__).parents[2] / "benchmarks/run"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
TINY = ("--rounds", "1", "--quiet-s", "0", "--no-fill", "--json")

NEEDS_NGINX = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

pytestmark = pytest.mark.slow


def run(name: str, *options: str, path: str | None = None) -> dict[str, Any]:
    """Run a benchmark at a tiny size and return its document."""
    env = {**os.environ, "PATH": path} if path is not None else None
    done = subprocess.run(
        [sys.executable, str(RUN), name, *TINY, *options], capture_output=True, text=True, timeout=110, env=env
    )
    assert 0 == done.returncode, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert {"schema", "kind", "benchmark", "ratios", "figures", "left_out", "host"} == set(document)
    assert (name, "benchmark") == (document["benchmark"], document["kind"])
    return document


@NEEDS_NGINX
def test_fetch_compares_kboot_with_every_tool_there_is(tmp_path: Path) -> None:
    """Each ratio is there, or is left out with a reason; the limit and the memory always are."""
    document = run("fetch", "--shards", "3", "--mib", "1", "--work", str(tmp_path))
    promised = {"vs_hf_download_then_verify", "vs_aria2c_then_sha256sum", "vs_curl_then_sha256sum"}

    promised |= {"fraction_of_limit", "tls_fraction_of_limit", "tls_vs_curl_then_sha256sum"}

    assert promised == set(document["ratios"]) | set(document["left_out"])
    assert all(ratio > 0 for ratio in document["ratios"].values())
    assert {"peak_rss_mib", "gb_per_s", "limit_is"} <= set(document["figures"])
    assert [] == list(tmp_path.iterdir())


@NEEDS_NGINX
def test_a_tool_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without curl and aria2c their ratios are left out, as is what nobody asked for, each with its reason."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sha256sum", "xargs", "sh", "nginx"):
        found = NGINX if name == "nginx" else shutil.which(name)
        (tools / name).symlink_to(str(found))
    document = run("fetch", "--shards", "2", "--mib", "1", "--without", "hf", path=str(tools))

    assert "curl not installed" == document["left_out"]["vs_curl_then_sha256sum"]
    assert "openssl not installed" == document["left_out"]["tls_fraction_of_limit"]
    assert "not asked for" == document["left_out"]["vs_hf_download_then_verify"]
    assert ["fraction_of_limit"] == list(document["ratios"])


@NEEDS_NGINX
def test_startup_boots_a_prepared_node_without_a_request(tmp_path: Path) -> None:
    """The figures are there; a boot of a prepared node that asked the network would have failed the benchmark."""
    document = run("startup", "--work", str(tmp_path))

    assert {"version_over_bare_python", "warm_boot_to_exec_s"} <= set(document["figures"])
    assert {"warm_boot_least_cpu_ms", "fetch_complete_least_cpu_ms"} <= set(document["figures"])
    assert 111 == document["figures"]["shards"]


def test_a_benchmark_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM stops the origin and removes what was received and served."""
    served = tmp_path / "served"
    argv = [sys.executable, str(RUN), "fetch", "--rounds", "1000", "--shards", "2", "--mib", "1", "--quiet-s", "0"]
    argv += ["--no-fill", "--work", str(tmp_path), "--origin", str(served)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("round 1")
        nginx = [p for p in psutil.Process(running.pid).children(recursive=True) if "nginx" in p.name()]
        running.terminate()
        status = running.wait(timeout=60)

    assert 143 == status
    assert nginx and not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in nginx)
    assert [served] == list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_pin_compares_default_threads_with_the_plans(tmp_path: Path) -> None:
    """Two workers: the ratio and both sides of it are there, and the plan gave them threads that fit the machine."""
    document = run("pin", "--workers", "2", "--work", str(tmp_path))
    figures = document["figures"]

    assert document["ratios"]["default_over_kboot"] > 0
    assert {"plan_256_cpus_8_gpus_ms", "default_context_switches", "kboot_context_switches"} <= set(figures)
    assert (2, True) == (figures["workers"], 1 <= figures["share_threads"] <= figures["cpus"])
    assert [] == list(tmp_path.iterdir())


def test_pin_without_a_compiler_measures_the_planning_alone(tmp_path: Path) -> None:
    """What cannot run is named with its reason."""
    document = run("pin", path=str(tmp_path))

    assert {"default_over_kboot": "gcc not installed"} == document["left_out"]
    assert ["plan_256_cpus_8_gpus_ms"] == list(document["figures"])


@NEEDS_NGINX
def test_fit_reads_headers_and_no_data(tmp_path: Path) -> None:
    """1,561 GB in 111 files that take little of the disk; from a server each shard is asked once."""
    figures = run("fit", "--work", str(tmp_path))["figures"]

    assert (1561, 111) == (round(figures["apparent_gb"]), figures["headers_remote_shards"])
    assert figures["on_disk_mib"] < 200
    assert figures["headers_remote_requests"] < 120
    assert figures["fit_1561_gb_s"] > 0
    assert [] == list(tmp_path.iterdir())


def test_doctor_is_timed_as_people_run_it(tmp_path: Path) -> None:
    """Wall and CPU time of the command; beside nvidia-smi where there is one."""
    document = run("doctor", "--work", str(tmp_path))
    figures = document["figures"]

    assert {"vs_nvidia_smi_q"} == set(document["ratios"]) | set(document["left_out"])
    assert 0 < figures["quick_inside_s"]
    assert 0 < figures["quick_s"] <= figures["quick_slowest_s"]
    assert 90 < figures["checks"]
    assert [] == list(tmp_path.iterdir())


@NEEDS_NGINX
@pytest.mark.skipif(bool(NO_CLUSTER), reason=NO_CLUSTER)
def test_fleet_counts_what_the_origin_sent(tmp_path: Path) -> None:
    """Both figures are there, and the ratios of whatever is installed; independent downloads took a copy each."""
    options = ("--nodes", "2", "--shards", "3", "--fleet-mib", "2", "--mbit", "400", "--work", str(tmp_path))
    document = run("fleet", *options)
    figures = document["figures"]
    promised = {"vs_independent_hf_downloads", "vs_one_seed_then_rsync_chain"}

    assert promised == set(document["ratios"]) | set(document["left_out"])
    assert figures["2_nodes_over_one"] > 0
    assert 1 <= round(figures["origin_copies"], 2) <= round(figures.get("hf_copies", 2), 2)
    assert [] == list(tmp_path.iterdir())


def test_cache_compares_carrying_with_tar(tmp_path: Path) -> None:
    """Both ratios and the step of a warm boot are there; a cache that arrived without a file would have failed it."""
    document = run("cache", "--files", "200", "--tree-mib", "2", "--work", str(tmp_path))

    assert {"vs_tar_zstd", "vs_tar_zstd_synced"} == set(document["ratios"]) | set(document["left_out"])
    assert document["figures"]["warm_step_200_files_ms"] > 0
    assert [] == list(tmp_path.iterdir())


@NEEDS_NGINX
def test_verify_compares_kboot_with_the_cores_and_the_disk(tmp_path: Path) -> None:
    """Each ratio is there, or is left out with a reason; the ledger of 111 files was timed."""
    document = run("verify", "--shards", "3", "--mib", "2", "--work", str(tmp_path))
    promised = {
        "fraction_of_limit",
        "fraction_of_plain_loop",
        "vs_hf_cache_verify",
        "cold_fraction_of_disk",
        "cold_fraction_of_disk_or_hash",
        "cold_fraction_of_limit",
    }

    assert promised == set(document["ratios"]) | set(document["left_out"])
    assert all(ratio > 0 for ratio in document["ratios"].values())
    assert 0 < document["figures"]["ledger_111_files_ms"] < document["figures"]["ledger_111_files_command_ms"]
    assert [] == list(tmp_path.iterdir())


@NEEDS_NGINX
def test_bake_compares_a_first_boot_with_reading_once(tmp_path: Path) -> None:
    """Both ratios are there; a boot that asked for bytes, or wrote no record, would have failed it."""
    document = run("bake", "--shards", "3", "--mib", "17", "--rounds", "1", "--work", str(tmp_path))

    assert {"handoff_over_reading_once", "sampled_handoff_over_reading_once"} == set(document["ratios"])
    assert document["figures"]["checkpoint_bytes"] > 3 * 17 << 20
    assert [] == list(tmp_path.iterdir())
