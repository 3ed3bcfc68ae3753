"""The real CUDA path: ctypes in a child process, against a libcuda.so.1 built here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kboot.facts.cuda import cuda_facts
from kboot.host.cuda import ask_cuda

_SPEC = importlib.util.spec_from_file_location(
    "build_cuda", Path(__file__).parents[1] / "fakes" / "cuda" / "build_cuda.py"
)
assert _SPEC and _SPEC.loader
build_cuda = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build_cuda)

ONE, TWO = "0000:3b:00.0", "0000:5e:00.0"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cuda.build(tmp_path_factory.mktemp("cuda"))


def test_starting_cuda_takes_no_memory_unless_asked(library: Path, tmp_path: Path) -> None:
    """Without GPUs to measure there are bus ids and peers, and no context; the bus ids are sysfs' own."""
    env = build_cuda.environment(library, tmp_path / "conf", gpus=["bus=0000:3B:00.0;context=2", f"bus={TWO}"])

    facts = cuda_facts(ask_cuda(60, env))

    assert "ok" == facts.state
    assert [(ONE, None, {TWO: True}), (TWO, None, {ONE: True})] == [
        (d.bus_id, d.failed, d.peers) for d in facts.devices
    ]


def test_a_fabric_that_is_not_set_up_is_error_802_by_name(library: Path, tmp_path: Path) -> None:
    """The code and CUDA's own name of it are told."""
    facts = cuda_facts(ask_cuda(60, build_cuda.environment(library, tmp_path / "conf", "init=802")))

    assert ("refused", 802, "SYSTEM_NOT_READY") == (facts.state, facts.code, facts.error)


@pytest.mark.parametrize(("code", "name"), [(803, "SYSTEM_DRIVER_MISMATCH"), (999, "UNKNOWN"), (777, "CODE_777")])
def test_a_code_without_a_name_has_ours_or_its_number(library: Path, tmp_path: Path, code: int, name: str) -> None:
    """A library too old to name an error still gives its number."""
    assert name == ask_cuda(60, build_cuda.environment(library, tmp_path / "conf", f"init={code}"))["cuda_init"]


def test_a_gpu_is_measured_and_one_that_refuses_leaves_the_other_whole(library: Path, tmp_path: Path) -> None:
    """What is asked for gets a context, memory and a rate; the others get nothing."""
    gpus = [f"bus={ONE}", f"bus={TWO};context=214", "bus=0000:86:00.0;alloc=2", "bus=0000:af:00.0;context=2;alone=1"]
    env = build_cuda.environment(library, tmp_path / "conf", gpus=gpus)

    one, two, full, unasked = cuda_facts(ask_cuda(60, env, (ONE, TWO, "0000:86:00.0"))).devices

    assert ("", True) == (one.failed, (one.h2d_bytes_per_s or 0) > 0)
    assert (("ECC_UNCORRECTABLE", None), ("OUT_OF_MEMORY", None)) == (
        (two.failed, two.h2d_bytes_per_s),
        (full.failed, full.h2d_bytes_per_s),
    )
    assert (None, {False}) == (unasked.failed, set(unasked.peers.values()))


def test_a_copy_that_fails_is_the_gpus_error(library: Path, tmp_path: Path) -> None:
    """An error in the middle of the measurement is not lost."""
    env = build_cuda.environment(library, tmp_path / "conf", gpus=[f"bus={ONE};copy=719"])

    assert "CODE_719" == cuda_facts(ask_cuda(60, env, (ONE,))).devices[0].failed


def test_a_driver_that_never_answers_is_given_up(library: Path, tmp_path: Path) -> None:
    """The child is killed at its deadline."""
    facts = cuda_facts(ask_cuda(1, build_cuda.environment(library, tmp_path / "conf", "hang=600")))

    assert ("hung", "no answer in 1 s") == (facts.state, facts.detail)


def test_a_library_that_crashes_takes_only_the_child(library: Path, tmp_path: Path) -> None:
    """A crash is an answer that names the signal."""
    facts = cuda_facts(ask_cuda(60, build_cuda.environment(library, tmp_path / "conf", "crash=1")))

    assert ("crashed", True) == (facts.state, "SIGABRT" in facts.detail)


def test_a_machine_without_the_library_starts_no_process() -> None:
    """The loader's cache is looked at first."""
    from kboot.host.nvml import library_installed

    assert not library_installed({}, "libnot-there.so.9")
    assert "no-library" == cuda_facts({"cuda_init": "LIBRARY_NOT_FOUND"}).state


@pytest.mark.parametrize(
    "answers", [{}, {"cuda_init": 7}, {"cuda_init": "OK", "devices": [3, {"bus_id": None, "peers": [1]}]}]
)
def test_an_answer_of_another_form_is_no_crash(answers: dict[str, object]) -> None:
    """What a program prints may be anything."""
    assert cuda_facts(answers).state in ("crashed", "ok")
