"""What does any command line get from kboot?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cli_run import Kboot

from kboot.cli.wrap import binding, find_program, marks, settings, unread_gpus, visible_gpus
from kboot.engines.types import CpuPlacement, WorkerShare
from kboot.errors import ActionFailed
from kboot.facts.types import Gap, Gpu, GpuFacts

SHARE = WorkerShare(0, None, (0, 1, 2, 3), 4, None, "all of it")
PLACEMENT = CpuPlacement((SHARE,), (), ())


def values(env: Mapping[str, str]) -> dict[str, str]:
    """Return what is set on top of an environment."""
    return {s.name: s.value for s in settings(PLACEMENT, "/c", env)}


def gpus(number: int) -> GpuFacts:
    """Return this many GPUs."""
    found = tuple(
        Gpu(n, "NVIDIA H200", f"GPU-{n}", f"0000:0{n}:00.0", None, None, None, None, None, False, False, ())
        for n in range(number)
    )
    return GpuFacts("ok", "", None, None, found, ())


def test_thread_shares_are_set_and_caches_only_where_none_is_named() -> None:
    """The share is kboot's to say; a cache that the operator placed stays where it is."""
    found = values({"HOME": "/home/x", "TRITON_CACHE_DIR": "/fast/triton", "OMP_NUM_THREADS": "64"})

    assert "4" == found["OMP_NUM_THREADS"]
    assert "TRITON_CACHE_DIR" not in found
    assert found["TORCHINDUCTOR_CACHE_DIR"].startswith("/c/")


def test_downloaded_models_stay_where_they_were() -> None:
    """XDG_CACHE_HOME moves, so the Hub's folder below it is named as it was."""
    assert "/home/x/.cache/huggingface" == values({"HOME": "/home/x"})["HF_HOME"]
    assert "/x/huggingface" == values({"HOME": "/home/x"} | {"XDG_CACHE_HOME": "/x"})["HF_HOME"]
    assert "HF_HOME" not in values({"HF_HOME": "/models"})


def test_the_whole_command_is_kept_to_its_own_cpus() -> None:
    """One worker is pinned to its part; several get theirs and the front ends', without what others have."""
    two = CpuPlacement((SHARE, replace(SHARE, worker=1, cpus=(4, 5, 6, 7))), (8,), ())

    assert (0, 1, 2, 3) == binding(CpuPlacement((SHARE,), (8,), ()), range(9))
    assert tuple(range(9)) == binding(two, range(16))
    assert () == binding(two, range(9))


def test_vllm_is_told_to_serve_with_one_thread() -> None:
    """The mark is for command lines that start vLLM, whatever they are called by."""
    assert ["VLLM_OMP_NUM_THREADS_SET_BY_VLLM"] == [s.name for s in marks(("/opt/bin/vllm", "serve"))]
    assert 1 == len(marks(("/usr/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve")))
    assert () == marks(("/usr/bin/python3", "-m", "sglang.launch_server"))


def test_one_worker_for_each_gpu_the_command_may_see() -> None:
    """CUDA_VISIBLE_DEVICES says how many; without GPUs there is one worker."""
    assert 8 == visible_gpus(gpus(8), {})
    assert 2 == visible_gpus(gpus(8), {"CUDA_VISIBLE_DEVICES": "1,GPU-3"})
    assert 1 == visible_gpus(gpus(8), {"CUDA_VISIBLE_DEVICES": ""})
    assert 1 == visible_gpus(gpus(0), {})


def test_gpus_that_cannot_be_asked_are_told() -> None:
    """A driver that hangs beside GPUs on the bus: one worker is no guess that nobody hears of."""
    hung = GpuFacts("hung", "", None, None, (), ("0000:31:00.0",))
    (said,) = unread_gpus(hung, (Gap("gpu", "NVML", "TIMEOUT; the PCI bus lists 1 NVIDIA GPUs"),))

    assert said.startswith("the GPUs cannot be asked (TIMEOUT; the PCI bus lists 1 NVIDIA GPUs)")
    (told,) = unread_gpus(replace(hung, pci_bus_ids=()), (Gap("gpu", "NVML", "TIMEOUT"),))
    assert told.startswith("the GPUs cannot be asked (TIMEOUT)"), "they need not be on this bus"
    assert () == unread_gpus(gpus(8), ()) == unread_gpus(gpus(0), ())


def test_a_program_is_found_as_a_shell_finds_it(tmp_path: Path) -> None:
    """By PATH, or by the path it is given; what cannot be run is not found."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "text").write_text("x")

    assert str(tmp_path / "tool") == find_program("tool", {"PATH": f"/nowhere:{tmp_path}"})
    assert str(tmp_path / "tool") == find_program(str(tmp_path / "tool"), {})
    with pytest.raises(ActionFailed, match="there is no program 'text'"):
        find_program("text", {"PATH": str(tmp_path)})
    with pytest.raises(ActionFailed, match="/text' that may be run"):
        find_program(str(tmp_path / "text"), {})


def test_the_command_becomes_this_process_with_share_cache_and_arguments(kboot: Kboot) -> None:
    """`exec -- CMD` ends with CMD's status; its options are its own, and its cache folder exists."""
    ran = kboot("exec", "--", "sh", "-c", 'echo "$OMP_NUM_THREADS $TRITON_CACHE_DIR $0 $1"; exit 7', "--json", "-v")
    share, cache, *rest = ran.out.split()

    assert (7, ["--json", "-v"]) == (ran.status, rest)
    assert 1 <= int(share) <= len(os.sched_getaffinity(0))
    assert cache.startswith(str(kboot.folder / "state/cache"))
    assert Path(cache).parent.joinpath("factors.json").is_file()
    assert "of a command line that `kboot exec` starts" in " ".join(kboot("cache", "status").out.split())
    (finding,) = kboot("doctor", "--json", "--check", "cache.complete").doc["findings"]
    assert ("ok", "1 cache of command lines; no boot has made one") == (finding["status"], finding["seen"])


def test_the_key_is_the_same_at_every_start_and_another_for_another_program(kboot: Kboot) -> None:
    """A wrapped command finds its caches again."""
    one, again, other = (
        kboot("exec", "--", *words).out for words in (["printenv", "XDG_CACHE_HOME"],) * 2 + (["env"],)
    )

    assert one == again
    assert f"XDG_CACHE_HOME={one.strip()}" not in other


def test_verbose_says_each_variable_with_its_reason(kboot: Kboot) -> None:
    """-v before the command shows what is set and why."""
    ran = kboot("exec", "-v", "--", "true")

    assert 0 == ran.status
    assert "OMP_NUM_THREADS=" in ran.err
    assert "(share of each of" in ran.err


@pytest.mark.parametrize(("given", "passed_on"), [("000", "0002"), ("027", "0027")])
def test_what_a_command_compiles_is_not_for_everybody_to_write(kboot: Kboot, given: str, passed_on: str) -> None:
    """It is run at the next start. A umask that lets everybody write is the only one that is not passed on as it is."""
    argv = [sys.executable, "-m", "kboot", "exec", "--", "sh", "-c", "umask"]
    ran = subprocess.run(argv, capture_output=True, text=True, env=kboot.environ, timeout=60, umask=int(given, 8))

    assert passed_on == ran.stdout.strip()


def test_a_program_that_is_not_there_is_an_error(kboot: Kboot) -> None:
    """Status 13, and where it was looked for."""
    ran = kboot("exec", "--", "no-such-program")

    assert 13 == ran.status
    assert "error: command-not-found" in ran.err
    assert "looked in " in ran.err
    assert "looked in" not in kboot("exec", "--", "/no/such/program").err
