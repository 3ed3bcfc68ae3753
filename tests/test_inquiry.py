"""What doctor asks beyond files: the driver's CUDA, the kernel's memory policy, the engine's own processes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import psutil
import pytest

from fakes import checkpoints
from fakes.cuda.build_cuda import build, environment
from fakes.records import RECORD
from fakes.workers import running
from kboot.apply.handoff import node_key
from kboot.checkpoint import CheckpointFacts
from kboot.errors import ActionFailed, KbootError
from kboot.events import Event, Notice
from kboot.facts.asked_types import ManagerState
from kboot.facts.collect import collect
from kboot.facts.link_types import CudaFacts
from kboot.facts.types import Gap, Gpu, GpuFacts, NodeFacts
from kboot.handoff import WorkerPlan, sign
from kboot.host.clock import monotonic_s, sleep_s
from kboot.host.files import atomic_write
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.inquiry import (
    FABRIC_MANAGER_UNIT,
    FABRIC_MANAGER_VERSION,
    Inquiry,
    Patient,
    allowed_nodes,
    ask_manager,
    changed_variables,
    free_gpus,
    inquire,
    read_workers,
    recorded_cuda,
    why_no_trust,
)
from kboot.profile.types import CheckpointAsk, LayoutAsk, ParallelAsk, Profile
from kboot.report.saved import RunningBoot, process_mark, write_progress
from kboot.store.store import Store

PATIENT = Patient(cuda_s=20, headers_s=20, measures=False)


def quiet(_: Event) -> None:
    """Emit to nobody."""


def paths_in(folder: Path) -> Paths:
    """Return folders of kboot that do not exist."""
    return Paths(folder / "state", folder / "run", folder / "etc")


@cache
def this_machine() -> NodeFacts:
    """Return this machine's facts, read once."""
    return collect(RealHost(), paths_in(Path("/nonexistent")))


def test_a_child_that_fails_leaves_a_gap_and_a_word(tmp_path: Path) -> None:
    """What could not be asked is a Gap with its reason, so that the check says unknown."""
    said: list[Event] = []
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset(), said.append)

    def question() -> str:
        raise ActionFailed("not-allowed", "this may not be read")

    assert inquiry.ask("workers", "/proc", question, 20) is None
    assert [Gap("asked.workers", "/proc", "this may not be read")] == inquiry.gaps
    assert ["probe.failed"] == [e.event for e in said if isinstance(e, Notice)]


def test_only_what_a_check_needs_is_asked(tmp_path: Path) -> None:
    """With no check that needs it, nothing is asked, and nothing is a gap."""
    facts = replace(this_machine(), gaps=())
    found = inquire(Inquiry(RealHost(), paths_in(tmp_path), frozenset(), quiet), facts, None, None, PATIENT)

    assert (facts.asked, ()) == (found.asked, found.gaps)


def test_the_memory_policy_is_tried_in_a_child(tmp_path: Path) -> None:
    """The answer is "" or the kernel's reason; this process keeps its own policy."""
    facts = this_machine()
    two = tuple(replace(facts.numa[0], number=n, memory_total_bytes=1 << 30) for n in (0, 63)) if facts.numa else ()
    before = Path("/proc/self/numa_maps").read_text() if Path("/proc/self/numa_maps").exists() else ""
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"numa.mempolicy_allowed"}), quiet)
    found = inquire(inquiry, replace(facts, numa=two), None, None, PATIENT).asked

    assert (found.memory_policy is not None) == bool(two)
    assert ("prefer" in before) == ("prefer" in (Path("/proc/self/numa_maps").read_text() if before else ""))


def test_allowed_nodes_are_those_of_the_cpuset() -> None:
    """A list of the kernel; nothing where it does not say."""
    assert frozenset({0, 1, 4}) == allowed_nodes("Name:\tx\nMems_allowed_list:\t0-1,4\n")
    assert frozenset() == allowed_nodes("Name:\tx\n") == allowed_nodes("Mems_allowed_list:\tall\n")


def test_a_gpu_that_works_for_somebody_is_not_touched(tmp_path: Path) -> None:
    """Memory is taken only of GPUs without processes, and never of one whose address is not known."""
    gpu = Gpu(0, "NVIDIA H200", "GPU-0", "0000:01:00.0", 1, 0, (9, 0), 0, None, False, False, ())
    gpus = (gpu, replace(gpu, index=1, bus_id="0000:02:00.0", processes=(7,)), replace(gpu, index=2, bus_id=""))
    facts = this_machine()

    assert (gpu,) == free_gpus(replace(facts, gpu=replace(facts.gpu, gpus=gpus)))


def test_variables_that_set_threads_are_compared_with_the_plan() -> None:
    """Those that differ, with both values; an environment that could not be read says nothing."""
    planned = {"OMP_NUM_THREADS": "7", "MKL_NUM_THREADS": "7", "HF_TOKEN": "secret"}

    assert {"OMP_NUM_THREADS": ("7", "224"), "MKL_NUM_THREADS": ("7", "")} == changed_variables(
        planned, ("OMP_NUM_THREADS=224", "PATH=/bin")
    )
    assert {} == changed_variables(planned, ())


def test_a_node_that_kboot_has_not_prepared_has_no_workers(tmp_path: Path) -> None:
    """Without a record there is nothing to compare, and nothing is written."""
    assert () == read_workers(RealHost(), paths_in(tmp_path))
    assert [] == os.listdir(tmp_path)


def test_certificates_that_the_environment_names_are_read(tmp_path: Path) -> None:
    """B033: empty counts as unset, a file that is missing is named; a file that is no certificate too."""
    cases = Path(__file__).parent / "cases" / "B033"
    empty, missing = (
        dict([(cases / name).read_text().splitlines()[0].split("=", 1)]) for name in ("env_empty", "env_missing")
    )
    (tmp_path / "not.pem").write_text("no certificate")

    assert "" == why_no_trust(empty)
    assert "SSL_CERT_FILE names /nonexistent.pem, which does not exist" == why_no_trust(missing)
    assert "cannot be read as certificates" in why_no_trust({"CURL_CA_BUNDLE": str(tmp_path / "not.pem")})


H200 = Gpu(0, "NVIDIA H200", "GPU-0", "0000:3b:00.0", 141 << 30, 1 << 30, (9, 0), 0, None, False, False, ())
TWO_GPUS = (H200, replace(H200, index=1, uuid="GPU-1", bus_id="0000:5e:00.0", processes=(4711,)))


@pytest.fixture
def cuda(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make this process's environment lead to a libcuda.so.1 that was built here; give it what it should answer."""
    library = build(tmp_path_factory.mktemp("cuda"))
    conf = library / "conf"

    def answers(system: str) -> None:
        for name, value in environment(library, conf, system, [f"bus={gpu.bus_id}" for gpu in TWO_GPUS]).items():
            monkeypatch.setenv(name, value)

    return answers


def ask_about_cuda(tmp_path: Path, patient: Patient) -> CudaFacts | None:
    """Return what CUDA answers on a machine with two GPUs, the second at work."""
    facts = this_machine()
    facts = replace(facts, gpu=replace(facts.gpu, nvml="ok", gpus=TWO_GPUS))
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"gpu.cuda_init"}), quiet)
    return inquire(inquiry, facts, None, None, patient).asked.cuda


def test_a_mode_that_measures_takes_memory_of_free_gpus_only(tmp_path: Path, cuda: Callable[[str], None]) -> None:
    """Quick mode takes none; the GPU that works for somebody is never touched."""
    cuda("init=0")
    quick, full = (ask_about_cuda(tmp_path, replace(PATIENT, cuda_s=60, measures=m)) for m in (False, True))

    assert quick is not None
    assert full is not None
    assert [None, None] == [device.failed for device in quick.devices]
    assert ["", None] == [device.failed for device in full.devices]
    assert (full.devices[0].h2d_bytes_per_s or 0) > 0


def test_a_fabric_that_is_not_set_up_is_the_drivers_own_answer(tmp_path: Path, cuda: Callable[[str], None]) -> None:
    """B156: NVML lists the GPUs, cuInit answers 802."""
    cuda("init=802")
    found = ask_about_cuda(tmp_path, replace(PATIENT, cuda_s=60))

    assert found is not None
    assert ("refused", 802) == (found.state, found.code)


def test_cuda_is_not_asked_where_nvml_does_not_answer(tmp_path: Path) -> None:
    """A driver that hangs is said once, and costs its time once."""
    facts = this_machine()
    facts = replace(facts, gpu=replace(facts.gpu, nvml="hung", gpus=()))
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"gpu.cuda_init"}), quiet)

    assert inquire(inquiry, facts, None, None, PATIENT).asked.cuda is None


def test_weights_are_laid_out_from_the_headers_on_this_disk(tmp_path: Path) -> None:
    """What is not divided is whole on every rank: the share is that of the fullest, not half of the size."""
    files = checkpoints.make()
    wanted = checkpoints.listing(files)
    paths = checkpoints.paths_in(tmp_path)
    layout = LayoutAsk(name="2x", gpu="H200", gpus_per_node=2, parallel=ParallelAsk(tensor=2))
    profile = Profile(name="m", schema=1, checkpoint=CheckpointAsk(repo=wanted.repo), layout=(layout,))
    here = CheckpointFacts(wanted, (), "", published=False)
    facts = replace(this_machine(), gpu=GpuFacts("ok", "", "580.95.05", "13.0", TWO_GPUS, ()))

    def share() -> NodeFacts:
        return inquire(Inquiry(RealHost(), paths, frozenset({"fit.vram"}), quiet), facts, profile, here, PATIENT)

    assert (None, ()) == (share().asked.weights, tuple(g for g in share().gaps if g.fact.startswith("asked")))
    checkpoints.fetch_all(Store(paths), wanted, files)
    found = share().asked.weights
    assert found is not None
    assert ("2x", "TP2", 3 * 64) == (found.layout, found.division, found.largest_bytes)
    assert found.reserve_bytes > 4 << 30


def prepared(paths: Paths, workers: tuple[WorkerPlan, ...], env: tuple[tuple[str, str], ...]) -> None:
    """Write the record of an engine with these workers."""
    record = replace(RECORD, cpus=(0,), workers=workers, worker_titles=(r"^VLLM::Worker",), env=env)
    paths.runtime.mkdir(parents=True, exist_ok=True)
    paths.state.mkdir(parents=True, exist_ok=True)
    atomic_write(paths.handoff, sign(record, node_key(paths)), mode=0o600)


def test_live_workers_are_compared_with_the_record(tmp_path: Path) -> None:
    """Two processes of a running boot: one may run where it was planned, one may not, and a variable was changed."""
    paths, host = paths_in(tmp_path), RealHost()
    cpus = tuple(sorted(host.affinity()))
    nowhere = (max(cpus) + 1,)
    plans = (WorkerPlan(0, None, cpus, 3, None), WorkerPlan(1, None, nowhere, 3, None))
    prepared(paths, plans, (("OMP_NUM_THREADS", "3"), ("MKL_NUM_THREADS", "not this")))
    with running("VLLM::Worker_DP0=2", "VLLM::Worker_DP1=2") as engine:
        _, mark = process_mark(host, engine.pid)
        write_progress(RunningBoot("b", "m", engine.pid, mark, 1.0, 2.0, {}), paths)
        near, far = read_workers(host, paths)

    assert (0, 2, 0, ()) == (near.worker, near.tasks, near.stray, near.off_plan)
    assert (1, 2, 2, True) == (far.worker, far.tasks, far.stray, "planned" in far.off_plan[0])
    assert "not this" == near.variables["MKL_NUM_THREADS"][0]


@pytest.mark.parametrize("check", ["fit.ram", "fit.shm", "fit.vram", "gpu.idle_clean", "threads.plan"])
def test_who_serves_is_asked_for_each_check_that_judges_by_it(tmp_path: Path, check: str) -> None:
    """`--check fit.ram` alone must not take the serving engine's memory for missing."""
    paths, host = paths_in(tmp_path), RealHost()
    prepared(paths, (WorkerPlan(0, None, tuple(sorted(host.affinity())), 3, None),), ())
    with running("VLLM::Worker_DP0=2") as engine:
        _, mark = process_mark(host, engine.pid)
        write_progress(RunningBoot("b", "m", engine.pid, mark, 1.0, 2.0, {}), paths)
        inquiry = Inquiry(host, paths, frozenset({check}), quiet)
        found = inquire(inquiry, this_machine(), None, None, PATIENT).asked.workers

    assert found is not None
    assert [0] == [worker.worker for worker in found]


def test_a_record_that_cannot_be_looked_at_is_told_in_our_words(tmp_path: Path) -> None:
    """Doctor prints the reason: it must not be an exception's."""
    paths = replace(paths_in(tmp_path), runtime=tmp_path / ("x" * 300))

    with pytest.raises(KbootError, match="cannot read the hand-off record"):
        read_workers(RealHost(), paths)


def test_a_record_without_a_running_engine_has_no_workers(tmp_path: Path) -> None:
    """Prepared is not serving: no process of this machine belongs to it."""
    paths = paths_in(tmp_path)
    prepared(paths, (WorkerPlan(0, None, (0,), 1, None),), ())

    assert () == read_workers(RecordedHost(tmp_path), paths)


def test_the_fabric_manager_and_systemd_are_asked_for_its_version_and_restarts(tmp_path: Path) -> None:
    """Their own words; a machine without one of them says less."""
    printed = {
        FABRIC_MANAGER_VERSION: "Fabric Manager version is : 580.95.05\n",
        FABRIC_MANAGER_UNIT: "ActiveState=active\nNRestarts=4\n",
    }
    document = {" ".join(argv): {"status": 0, "text": text} for argv, text in printed.items()}
    (tmp_path / "programs.json").write_text(json.dumps(document))

    assert ManagerState("580.95.05", "active", 4) == ask_manager(RecordedHost(tmp_path))
    (tmp_path / "programs.json").unlink()
    assert ManagerState() == ask_manager(RecordedHost(tmp_path))


def test_cuda_that_was_started_early_is_collected_later(tmp_path: Path, cuda: Callable[[str], None]) -> None:
    """It runs beside the reading of the facts; what nobody collects is ended."""
    cuda("init=802")
    facts = replace(this_machine(), gpu=replace(this_machine().gpu, nvml="ok", gpus=TWO_GPUS))
    before = psutil.Process().children()
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"gpu.cuda_init"}), quiet)
    inquiry.begin(60)
    found = inquire(inquiry, facts, None, None, replace(PATIENT, cuda_s=60)).asked.cuda
    inquiry.end()

    assert found is not None
    assert 802 == found.code
    cuda("hang=600")
    left = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"gpu.cuda_init"}), quiet)
    left.begin(60)
    left.end()
    until_s = monotonic_s() + 60
    while psutil.Process().children() != before and monotonic_s() < until_s:
        sleep_s(0.01)
    assert before == psutil.Process().children()


def test_cuda_that_hangs_costs_its_time_from_the_start(tmp_path: Path, cuda: Callable[[str], None]) -> None:
    """What was started early is given up early."""
    cuda("hang=600")
    facts = replace(this_machine(), gpu=replace(this_machine().gpu, nvml="ok", gpus=TWO_GPUS))
    inquiry = Inquiry(RealHost(), paths_in(tmp_path), frozenset({"gpu.cuda_init"}), quiet)
    inquiry.begin(60)
    found = inquire(inquiry, facts, None, None, replace(PATIENT, cuda_s=0.1)).asked.cuda
    inquiry.end()

    assert found is not None
    assert "hung" == found.state


def test_a_recorded_machine_tells_what_cuda_answered(tmp_path: Path) -> None:
    """B156 on a tree: cuda.json beside nvml.json; without one, or with something else in it, nothing is told."""
    assert recorded_cuda(RecordedHost(tmp_path)) is None
    for text, state in (('{"cuda_init": "SYSTEM_NOT_READY", "code": 802}', "refused"), ('{"cuda_init": 3}', "crashed")):
        (tmp_path / "cuda.json").write_text(text)
        found = recorded_cuda(RecordedHost(tmp_path))
        assert found is not None
        assert state == found.state
    for text in ("[]", "{", "[" * 100_000):
        (tmp_path / "cuda.json").write_text(text)
        assert recorded_cuda(RecordedHost(tmp_path)) is None
