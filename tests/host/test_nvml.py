"""The real NVML path: nvidia-ml-py in a child process, against a libnvidia-ml.so.1 built here."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from kboot.host.nvml import Driver, ask_nvml, library_installed

_SPEC = importlib.util.spec_from_file_location(
    "build_nvml", Path(__file__).parents[1] / "fakes" / "nvml" / "build_nvml.py"
)
assert _SPEC and _SPEC.loader
build_nvml = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(build_nvml)

SYSTEM = "driver=580.159.04;library=13.580.159.04;cuda=13000"
H200 = "name=NVIDIA H200;uuid=GPU-{n};bus=00000000:{n:02x}:00.0;mem=143771;used=615;cc=9.0;cpus=0-31;mig=0"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml.build(tmp_path_factory.mktemp("nvml"))


def test_a_healthy_node_answers_in_the_recorded_shape(library: Path, tmp_path: Path) -> None:
    """Every value of every GPU comes through the real binding in nvml.json's form."""
    env = build_nvml.environment(library, tmp_path / "conf", SYSTEM, [H200.format(n=6) + ";pid=2202", H200.format(n=7)])

    answers = ask_nvml(60, env)

    assert "OK" == answers["nvml_init"]
    assert ("580.159.04", "580.159.04", "13.0") == tuple(answers[k] for k in ("driver", "library", "cuda_version"))
    assert {"error": "FUNCTION_NOT_FOUND"} == answers["gpus"][0].pop("health")["compute_mode"]
    assert 0 <= answers["seconds"]
    assert {
        "index": 0,
        "name": "NVIDIA H200",
        "uuid": "GPU-6",
        "bus_id": "00000000:06:00.0",
        "cc": "9.0",
        "mem_total": 143771 << 20,
        "mem_used": 615 << 20,
        "cpu_affinity": "0-31",
        "numa_node_id": {"error": "NOT_SUPPORTED"},
        "procs": [{"pid": 2202, "used": 75161927680}],
        "mig": False,
    } == answers["gpus"][0]
    assert [] == answers["gpus"][1]["procs"]


def test_a_lost_gpu_leaves_the_others_whole(library: Path, tmp_path: Path) -> None:
    """B095: a handle that fails is an error of that index alone."""
    gpus = [H200.format(n=1), H200.format(n=2) + ";lost=1", H200.format(n=3)]
    env = build_nvml.environment(library, tmp_path / "conf", SYSTEM, gpus)

    answers = ask_nvml(60, env)

    assert {"index": 1, "error": "GPU_IS_LOST"} == answers["gpus"][1]
    assert ["GPU-1", "GPU-3"] == [answers["gpus"][n]["uuid"] for n in (0, 2)]


def test_memory_that_is_not_supported_is_an_error_of_those_values(library: Path, tmp_path: Path) -> None:
    """B093: the GPU stays, its memory is {"error": "NOT_SUPPORTED"}."""
    env = build_nvml.environment(library, tmp_path / "conf", SYSTEM, ["name=NVIDIA GB10;uuid=GPU-1;mem_rc=3"])

    gpu = ask_nvml(60, env)["gpus"][0]

    assert ("NVIDIA GB10", {"error": "NOT_SUPPORTED"}) == (gpu["name"], gpu["mem_total"])


def test_mig_instances_are_listed_with_their_own_memory(library: Path, tmp_path: Path) -> None:
    """B090: a slice has its profile, memory and ids; empty slots are passed over."""
    gpu = "name=NVIDIA H100 80GB HBM3;uuid=GPU-a;mem=81559;mig=1;slices=2"
    env = build_nvml.environment(library, tmp_path / "conf", SYSTEM, [gpu])

    found = ask_nvml(60, env)["gpus"][0]

    assert found["mig"] is True
    assert [
        {"uuid": "MIG-0-0", "name": "2g.20gb", "mem_total": 20096 << 20, "gi": 3, "ci": 0},
        {"uuid": "MIG-0-1", "name": "2g.20gb", "mem_total": 20096 << 20, "gi": 4, "ci": 0},
    ] == found["instances"]


def test_a_driver_of_another_version_is_named_with_the_librarys(library: Path, tmp_path: Path) -> None:
    """B097: NVML's code 18 keeps its name, and the library's version is told although nothing was initialised."""
    env = build_nvml.environment(library, tmp_path / "conf", "init=18;library=12.550.107")

    answers = ask_nvml(60, env)

    assert ("LIB_RM_VERSION_MISMATCH", "550.107") == (answers["nvml_init"], answers["library"])


def test_a_code_nobody_knows_is_told_by_number(library: Path, tmp_path: Path) -> None:
    """A driver newer than the binding may answer a code without a name."""
    env = build_nvml.environment(library, tmp_path / "conf", "init=777")

    assert "CODE_777" == ask_nvml(60, env)["nvml_init"]


def test_a_driver_that_never_answers_is_a_timeout_and_leaves_no_process(library: Path, tmp_path: Path) -> None:
    """The child is gone when the deadline has passed."""
    conf = tmp_path / "conf"
    env = build_nvml.environment(library, conf, "hang=600")

    answers = ask_nvml(3, env)

    assert "TIMEOUT" == answers["nvml_init"]
    pid_file = Path(f"{conf}.pid")
    if pid_file.exists():  # absent where a loaded machine had not even started the child's Python in that time
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)


def test_a_driver_that_hung_is_asked_again_only_by_who_waits_longer(library: Path, tmp_path: Path) -> None:
    """Every question to it costs a deadline; that it answers now is learned by one that was meant to wait."""
    conf, driver = tmp_path / "conf", Driver()
    hung = driver.ask(0.1, build_nvml.environment(library, conf, "hang=600"))
    env = build_nvml.environment(library, conf, SYSTEM, [H200.format(n=6)])
    again, patient, after = (driver.ask(timeout_s, env) for timeout_s in (0.1, 60, 60))

    assert ["TIMEOUT", "TIMEOUT", "OK", "OK"] == [said["nvml_init"] for said in (hung, again, patient, after)]
    assert "no answer in 0.1 s, 0 s ago" == again["detail"]


def test_a_library_that_crashes_takes_only_the_child(library: Path, tmp_path: Path) -> None:
    """A crash is an answer that names the signal."""
    env = build_nvml.environment(library, tmp_path / "conf", "crash=1")

    answers = ask_nvml(60, env)

    assert "CRASHED" == answers["nvml_init"]
    assert "SIGABRT" in answers["detail"]


def test_without_the_library_no_child_is_started(tmp_path: Path) -> None:
    """A deadline of zero would time out if a child were asked."""
    if library_installed({}):
        pytest.skip("this machine has an NVIDIA driver")

    assert {"nvml_init": "LIBRARY_NOT_FOUND"} == ask_nvml(0, {"LD_LIBRARY_PATH": str(tmp_path)})


def test_health_comes_through_the_real_binding(library: Path, tmp_path: Path) -> None:
    """Structures and field values are read as the driver writes them; what a part lacks is an error of that value."""
    told = "persistence=1;ecc=1;remapped=4,1,0;nlinks=3;links=5;recovery=2;fabric=3;fabric_rc=0"
    env = build_nvml.environment(library, tmp_path / "conf", SYSTEM, [f"{H200.format(n=1)};{told}", H200.format(n=2)])

    first, second = (gpu["health"] for gpu in ask_nvml(60, env)["gpus"])

    assert {
        "persistence": True,
        "ecc": [True, True],
        "remapped": [0, 4, 1, 0],
        "nvlinks": [True, False, True],
        "recovery_action": "node-reboot",
        "fabric": {
            "state": "completed",
            "status": "SUCCESS",
            "clique_id": 7,
            "cluster_uuid": "ab000000-0000-0000-0000-000000000000",
            "unhealthy": ["route-unhealthy"],
        },
        "memory_temperature_c": {"error": "NOT_SUPPORTED"},
    } == {name: first[name] for name in (*told_names(told), "memory_temperature_c")}
    assert ([], {"error": "NOT_SUPPORTED"}) == (second["nvlinks"], second["persistence"])


def told_names(told: str) -> tuple[str, ...]:
    """Return the names of nvml.json for the fake's keys."""
    names = {"nlinks": "nvlinks", "recovery": "recovery_action"}
    keys = (pair.partition("=")[0] for pair in told.split(";"))
    return tuple(names.get(key, key) for key in keys if key not in ("links", "fabric_rc"))
