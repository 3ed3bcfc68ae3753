"""What every check promises."""

from __future__ import annotations

import pkgutil
import re
from dataclasses import replace
from importlib import import_module
from typing import get_type_hints

import pytest
from good_node import (
    BLIND,
    BOOTS,
    CHECKPOINT,
    CPU_PROFILE,
    GIB,
    GPUS,
    KEY,
    NODE,
    PROFILE,
    cuda,
    device,
    files,
    gpus,
    node,
    on_bus,
    sick,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kboot.checks
from kboot import answers
from kboot.answers import RateLimit, SourceAnswer
from kboot.checkpoint import CheckpointFacts
from kboot.checks.every import CHECKS
from kboot.checks.types import STATUSES, Check, Finding
from kboot.facts import asked_types, kept_types, link_types, measured_types, upkeep_types
from kboot.facts.asked_types import AllReduce, DiagTest, LiveWorker
from kboot.facts.doctor_types import AskedFacts, KeptFacts, MeasuredFacts, UpkeepFacts
from kboot.facts.fleet_types import NodeStatement
from kboot.facts.health_types import Fabric, FabricManager, KernelEvent, RemappedRows
from kboot.facts.kept_types import IndexFacts, LockFacts, ReclaimFacts, SmallFile, TermsFacts
from kboot.facts.link_types import Bridge, Imex
from kboot.facts.measured_types import FirstReads, ReadSample, RotSample
from kboot.facts.system_types import IdleState
from kboot.facts.types import CacheFacts, EngineFacts, Gap, NodeFacts
from kboot.facts.upkeep_types import (
    Blocked,
    CdiSpec,
    Discard,
    DiskHealth,
    EnvLine,
    EnvSetting,
    PortState,
    Readable,
    Services,
    UnitState,
)
from kboot.host import kernel_clock
from kboot.host.kernel_clock import KernelClock
from kboot.profile.node_config import OperatorAsk
from kboot.profile.types import ParallelAsk, Profile, VerifyAsk

EVERY_CHECK = pytest.mark.parametrize("check", CHECKS, ids=[c.id for c in CHECKS])
PARTS = (answers, asked_types, kept_types, kernel_clock, link_types, measured_types, upkeep_types)
ZERO = "00000000-0000-0000-0000-000000000000"
NO_GPU = {"nvml": "no-library", "gpus": (), "pci_bus_ids": ()}

TWO_NODES = replace(PROFILE, layout=(replace(PROFILE.layout[0], nodes=2),))
SELLING = replace(PROFILE, declared=OperatorAsk(use="sells-access", monthly_users=101))
BAD: dict[str, tuple[NodeFacts, Profile | None, CheckpointFacts | None]] = {
    "gpu.nvml_responsive": (node(gpu={"nvml": "hung", "gpus": ()}), PROFILE, CHECKPOINT),
    "gpu.driver_lib_match": (node(gpu={"nvml": "mismatch", "gpus": ()}), PROFILE, CHECKPOINT),
    "gpu.count": (node(gpu={"gpus": gpus(7)}), PROFILE, CHECKPOINT),
    "gpu.devnodes": (node(health={"device_nodes": ("nvidia0", "nvidiactl")}), PROFILE, CHECKPOINT),
    "gpu.kmod_flavor": (
        node(health={"open_module": False}, gpu={"gpus": gpus(compute_capability=(10, 3))}),
        PROFILE,
        CHECKPOINT,
    ),
    "gpu.driver_cuda_compat": (node(gpu={"cuda_version": "12.8"}), PROFILE, CHECKPOINT),
    "gpu.arch_support": (node(gpu={"gpus": gpus(compute_capability=(6, 1))}), PROFILE, CHECKPOINT),
    "gpu.recovery_action": (sick(recovery_action="node-reboot"), PROFILE, CHECKPOINT),
    "gpu.xid_recent": (
        node(health={"kernel_events": (KernelEvent("xid", "Xid 64", "0000:01:00.0", 64),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "gpu.sxid": (
        node(health={"kernel_events": (KernelEvent("sxid", "20034, Fatal, Link 30", "0000:c1:00.0", 20034),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "gpu.ecc": (sick(ecc_uncorrected=(1, 1)), PROFILE, CHECKPOINT),
    "gpu.row_remap": (sick(remapped=RemappedRows(0, 4, pending=True, failure=False)), PROFILE, CHECKPOINT),
    "fabric.manager": (
        node(health={"fabric_manager": FabricManager(4, running=False, versions=None), "gpus": ()}),
        PROFILE,
        CHECKPOINT,
    ),
    "fabric.state": (sick(fabric=Fabric("completed", "INSUFFICIENT_RESOURCES", 0, ZERO)), PROFILE, CHECKPOINT),
    "nvlink.links": (sick(nvlinks=(False,) * 18), PROFILE, CHECKPOINT),
    "pci.link": (on_bus(width=(8, 16)), PROFILE, CHECKPOINT),
    "pci.aer": (on_bus(aer={"fatal": 1}), PROFILE, CHECKPOINT),
    "pci.bar1": (sick(bar1_bytes=256 << 20), PROFILE, CHECKPOINT),
    "iommu.mode": (on_bus(iommu="DMA-FQ"), PROFILE, CHECKPOINT),
    "gpu.persistence": (sick(8, persistence=False), PROFILE, CHECKPOINT),
    "gpu.compute_mode": (sick(compute_mode="exclusive-process"), PROFILE, CHECKPOINT),
    "gpu.throttle": (sick(slowdown=("hw-thermal",)), PROFILE, CHECKPOINT),
    "gpu.clocks": (sick(slowdown=("clocks-setting",)), PROFILE, CHECKPOINT),
    "gpu.power_limit": (sick(power_w=(500.0, 700.0)), PROFILE, CHECKPOINT),
    "gpu.temp": (sick(temperature_c=85), PROFILE, CHECKPOINT),
    "gpu.vbios_inforom": (sick(vbios="96.00.A5.00.02"), PROFILE, CHECKPOINT),
    "gpu.mig_mode": (node(gpu={"gpus": gpus(mig=True)}), PROFILE, CHECKPOINT),
    "gpu.idle_clean": (node(gpu={"gpus": gpus(processes=(4711,))}), PROFILE, CHECKPOINT),
    "gpu.cuda_init": (cuda(state="refused", error="SYSTEM_NOT_READY", code=802, devices=()), PROFILE, CHECKPOINT),
    "gpu.p2p": (cuda(devices=device(0, peers={GPUS[1].bus_id: False})), PROFILE, CHECKPOINT),
    "gpu.h2d": (cuda(devices=device(3, h2d_bytes_per_s=26.1e9)), PROFILE, CHECKPOINT),
    "gpu.cc_mode": (node(links={"confidential": "not-ready"}), PROFILE, CHECKPOINT),
    "fabric.imex": (node(links={"imex": Imex(running=True, nodes=1)}), TWO_NODES, CHECKPOINT),
    "pci.acs": (node(links={"bridges": (Bridge("0000:00:03.0", ("request", "completion")),)}), PROFILE, CHECKPOINT),
    "cpu.cstates": (node(system={"idle_states": (IdleState("C10", 1034, disabled=False),)}), PROFILE, CHECKPOINT),
    "cpu.smt_layout": (
        node(cpu={"core_of": {n: (0, n % 32) for n in range(64)}, "allowed": tuple(range(33))}),
        PROFILE,
        CHECKPOINT,
    ),
    "numa.free": (
        node(numa=tuple(replace(n, memory_free_bytes=GIB, memory_files_bytes=GIB) for n in NODE.numa)),
        PROFILE,
        CHECKPOINT,
    ),
    "numa.mempolicy_allowed": (
        node(asked={"memory_policy": "set_mempolicy of node 0: Operation not permitted"}),
        PROFILE,
        CHECKPOINT,
    ),
    "gpu.mixed": (node(gpu={"gpus": (*gpus(7), replace(GPUS[7], name="NVIDIA L4"))}), PROFILE, CHECKPOINT),
    "gpu.driver_branch": (node(gpu={"driver_version": "535.129.03"}), PROFILE, CHECKPOINT),
    "gpu.dcgm": (
        node(asked={"diagnostics": (DiagTest("pcie", "Fail", "GPU 3: replays above the threshold"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "nvlink.allreduce": (node(asked={"allreduce": AllReduce(8, 2 << 30, 41.0, 0)}), PROFILE, CHECKPOINT),
    "net.ca_file": (node(asked={"trust": "SSL_CERT_FILE names /x.pem, which does not exist"}), PROFILE, CHECKPOINT),
    "net.source_reach": (
        node(asked={"sources": (SourceAnswer("hub https://h", "host-unknown", "there is no host h"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "net.ratelimit": (node(asked={"rate_limit": RateLimit("hub https://h", 3, 500, 210)}), PROFILE, CHECKPOINT),
    "threads.plan": (
        node(asked={"workers": (LiveWorker(0, 4000, 7, 212, 0, {"OMP_NUM_THREADS": ("7", "224")}),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "net.gpu_nic_affinity": (
        node(rdma=NODE.rdma[:4], links={"path_of": {}}),
        TWO_NODES,
        CHECKPOINT,
    ),
    "fit.vram": (node(gpu={"gpus": gpus(memory_used_bytes=100 * GIB)}), PROFILE, CHECKPOINT),
    "fit.ram": (node(memory={"available_bytes": 16 * GIB}, asked={"workers": ()}), PROFILE, CHECKPOINT),
    "fit.disk": (node(mounts=(replace(NODE.mounts[0], free_bytes=GIB),)), PROFILE, files("absent")),
    "fit.shm": (node(memory={"shm_free_bytes": 64 << 20}, asked={"workers": ()}), PROFILE, CHECKPOINT),
    "cpu.governor": (node(cpu={"governor_of": dict.fromkeys(range(64), "powersave")}), PROFILE, CHECKPOINT),
    "cpu.quota": (node(cpu={"quota_cpus": 8.0}), PROFILE, CHECKPOINT),
    "cpu.isolcpus": (node(cpu={"isolated": (8, 9, 10)}), PROFILE, CHECKPOINT),
    "numa.gpu_node": (node(gpu={"gpus": gpus(numa_node=None, cpu_affinity=None)}), PROFILE, CHECKPOINT),
    "mem.hugepages": (node(memory={"hugepages_bytes": 1024 * GIB}), PROFILE, CHECKPOINT),
    "mem.swap": (node(memory={"swap_used_bytes": GIB}), PROFILE, CHECKPOINT),
    "mem.thp": (node(system={"thp": {"enabled": "always", "defrag": "always"}}), PROFILE, CHECKPOINT),
    "mem.overcommit": (node(system={"overcommit": 2}), PROFILE, CHECKPOINT),
    "mem.edac": (node(system={"edac": {"corrected": 0, "uncorrected": 1}}), PROFILE, CHECKPOINT),
    "numa.balance": (node(system={"numa_balancing": 1}), PROFILE, CHECKPOINT),
    "sys.oom": (node(health={"kernel_events": (KernelEvent("oom", "Killed process 7 (vllm)"),)}), PROFILE, CHECKPOINT),
    "sys.kernel_cmdline": (node(system={"command_line": ("ro", "numa=off")}), PROFILE, CHECKPOINT),
    "limits.nproc_pids": (node(system={"pids": (1200, 2048)}), PROFILE, CHECKPOINT),
    "disk.errors": (
        node(health={"kernel_events": (KernelEvent("io-error", "I/O error, dev nvme1n1, sector 8"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "disk.raid": (node(disks=(replace(NODE.disks[0], degraded=1),)), PROFILE, CHECKPOINT),
    "disk.readahead": (node(disks=(replace(NODE.disks[1], read_ahead_bytes=0),)), PROFILE, CHECKPOINT),
    "disk.rate": (node(measured={"disk": ReadSample(17 * 10**8, 1.0, 8)}), PROFILE, CHECKPOINT),
    "net.link": (node(nics=(replace(NODE.nics[0], state="down"),)), PROFILE, CHECKPOINT),
    "net.ib": (node(rdma=(replace(NODE.rdma[0], state="DOWN"), *NODE.rdma[1:])), PROFILE, CHECKPOINT),
    "net.rdma_gpu": (node(system={"modules": frozenset()}, health={"open_module": False}), PROFILE, CHECKPOINT),
    "net.tcp": (node(system={"tcp_receive_bytes": 212992}), PROFILE, CHECKPOINT),
    "net.conntrack": (node(system={"conntrack": (262000, 262144)}), PROFILE, CHECKPOINT),
    "cache.dirs": (node(system={"noexec": ("/var",)}), PROFILE, CHECKPOINT),
    "cache.toolchain": (replace(NODE, programs={}), PROFILE, CHECKPOINT),
    "limits.nofile": (node(limits={"nofile": (1024, 4096)}), PROFILE, CHECKPOINT),
    "limits.memlock": (node(limits={"memlock_bytes": (65536, 65536)}), PROFILE, CHECKPOINT),
    "disk.fs_ro": (node(mounts=tuple(replace(m, read_only=True) for m in NODE.mounts)), PROFILE, CHECKPOINT),
    "disk.mount_kind": (node(mounts=tuple(replace(m, fs_type="nfs4") for m in NODE.mounts)), PROFILE, CHECKPOINT),
    "ckpt.complete": (NODE, PROFILE, files("absent")),
    "ckpt.verified": (NODE, PROFILE, files("present")),
    "ckpt.terms": (NODE, SELLING, CHECKPOINT),
    "cache.complete": (node(caches=CacheFacts({"h200-580": {}}, frozenset())), PROFILE, CHECKPOINT),
    "engine.version": (node(engine=EngineFacts("vllm", None, None, {})), PROFILE, CHECKPOINT),
    "fleet.agree": (
        node(
            fleet=replace(
                NODE.fleet, statements=(NODE.fleet.statements[0], NodeStatement("node8", {"driver": "570.86.15"}))
            )
        ),
        PROFILE,
        CHECKPOINT,
    ),
    "disk.health": (node(upkeep={"disks": (DiskHealth("nvme0n1", passed=False),)}), PROFILE, CHECKPOINT),
    "disk.mounted": (node(upkeep={"lost_mounts": ("/var/lib/kboot",)}), PROFILE, CHECKPOINT),
    "disk.trim_cap": (
        node(upkeep={"discard": Discard(True, False, False)}, mounts=(replace(NODE.mounts[0], free_bytes=1 << 38),)),
        PROFILE,
        CHECKPOINT,
    ),
    "disk.lazy_snapshot": (node(measured={"first_reads": FirstReads(24, 0.04, 0.001)}), PROFILE, CHECKPOINT),
    "time.sync": (node(upkeep={"clock": KernelClock(False, 16.0)}), PROFILE, CHECKPOINT),
    "time.mtime_skew": (node(measured={"folder": ("mtime: a file written now is 67 s ahead",)}), PROFILE, CHECKPOINT),
    "cache.locking": (node(measured={"folder": ("flock: Function not implemented",)}), PROFILE, CHECKPOINT),
    "cache.key_match": (
        node(caches=CacheFacts({"old": {**KEY.factors, "driver": "570.86.15"}}, frozenset({"old"}))),
        PROFILE,
        CHECKPOINT,
    ),
    "ckpt.manifest": (node(kept={"index": IndexFacts("i.json", ("model-97.safetensors",))}), PROFILE, CHECKPOINT),
    "ckpt.aux_files": (node(kept={"small": (SmallFile("config.json", "wrong", "sha256"),)}), PROFILE, CHECKPOINT),
    "ckpt.bitrot": (node(measured={"rot": RotSample(96, 1 << 30, ("model-1.safetensors",))}), PROFILE, CHECKPOINT),
    "ckpt.hash_rate": (
        node(measured={"hashing": ReadSample(10**9, 1.0, 2)}),
        replace(PROFILE, verify=VerifyAsk(mode="full")),
        CHECKPOINT,
    ),
    "ckpt.license": (
        node(kept={"terms": TermsFacts(False, "missing", "nobody accepted it on this node")}),
        PROFILE,
        CHECKPOINT,
    ),
    "ckpt.stale_locks": (
        node(kept={"locks": (LockFacts("/c/torch-extensions/x/lock", "baton", "dead", "", 60.0),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "engine.flags": (NODE, replace(PROFILE, layout=(replace(PROFILE.layout[0], args=("--no-such",)),)), CHECKPOINT),
    "engine.port": (node(upkeep={"port": PortState(8000, True, (4711,))}), PROFILE, CHECKPOINT),
    "env.files": (node(upkeep={"env_files": (EnvLine("/etc/kboot/env", 1, "", "export"),)}), PROFILE, CHECKPOINT),
    "env.settings": (
        node(upkeep={"environ": (EnvSetting("HF_HUB_ENABLE_HF_TRANSFER", "1", "this environment"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "sec.token_perm": (node(upkeep={"readable": (Readable("token", "/root/t", "mode 0644"),)}), PROFILE, CHECKPOINT),
    "sec.clear_text": (
        node(upkeep={"environ": (EnvSetting("HF_ENDPOINT", "http://mirror.example", "/etc/kboot/env"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "sec.machine_id_bake": (node(upkeep={"identity": ("/etc/machine-id",)}), PROFILE, CHECKPOINT),
    "spot.notice": (node(kept={"reclaim": ReclaimFacts(("aws",), "terminate at 12:00")}), PROFILE, CHECKPOINT),
    "sys.failed_units": (node(upkeep={"services": Services(("nvidia-fabricmanager.service",))}), PROFILE, CHECKPOINT),
    "sys.secureboot": (node(upkeep={"nvidia_module": False, "secure_boot": True}), PROFILE, CHECKPOINT),
    "sys.container_toolkit": (
        node(upkeep={"cdi": (CdiSpec("/etc/cdi/nvidia.yaml", "570.86.15"),)}),
        PROFILE,
        CHECKPOINT,
    ),
    "sys.dstate": (node(upkeep={"blocked": (Blocked(71, "cat", 5.0, "nfs_wait"),)}), PROFILE, CHECKPOINT),
    "agent.self": (
        node(upkeep={"services": Services((), (UnitState("kboot.service", "failed", "watchdog", 1),))}),
        PROFILE,
        CHECKPOINT,
    ),
    "boot.regression": (
        node(kept={"boots": (replace(BOOTS[0], seconds={"engine: load model": 900.0}), *BOOTS[1:])}),
        PROFILE,
        CHECKPOINT,
    ),
    "facts.gaps": (replace(NODE, gaps=(Gap("os.boot_id", "/proc", "gone"),)), PROFILE, CHECKPOINT),
}
OFF_THE_BUS = node(gpu=NO_GPU)
HALF_BLIND = node(
    gpu={"gpus": gpus(memory_total_bytes=None, memory_used_bytes=None, numa_node=None, cpu_affinity=None)},
    numa=(),
    memory={"shm_total_bytes": None, "shm_free_bytes": None},
    mounts=tuple(replace(m, mount_point="", fs_type="", free_bytes=None, free_inodes=None) for m in NODE.mounts),
)


@EVERY_CHECK
def test_the_good_node_is_ok(check: Check) -> None:
    """Nothing is wrong with the good node, and every check can tell."""
    assert "ok" == check.run(NODE, PROFILE, CHECKPOINT).status


@EVERY_CHECK
def test_a_bad_node_is_a_finding(check: Check) -> None:
    """Each check finds what it is for, and says what was wanted, why it matters and what to do."""
    assert check.id in BAD, f"BAD in this file has no node that {check.id} minds: add one"
    finding = check.run(*BAD[check.id])

    assert finding.status in (("unknown",) if check.id == "facts.gaps" else ("warn", "fail"))
    assert all((finding.seen, finding.wanted, finding.why, finding.hint))


@EVERY_CHECK
def test_what_was_not_read_is_never_ok(check: Check) -> None:
    """A check whose facts are gaps answers unknown or fail, or skips and says why."""
    assert "ok" != check.run(BLIND, PROFILE, None).status


@pytest.mark.parametrize("id_", ["gpu.idle_clean", "fit.vram", "fit.disk", "fit.shm", "disk.fs_ro", "disk.mount_kind"])
def test_a_value_that_was_not_read_is_unknown(id_: str) -> None:
    """One value of many that is not known makes the checks that need it unknown."""
    check = next(c for c in CHECKS if c.id == id_)

    assert "unknown" == check.run(HALF_BLIND, PROFILE, CHECKPOINT).status


@EVERY_CHECK
@pytest.mark.parametrize("facts", [NODE, OFF_THE_BUS, BLIND, HALF_BLIND], ids=["good", "no GPU", "blind", "half blind"])
@pytest.mark.parametrize("profile", [None, PROFILE, CPU_PROFILE], ids=["no profile", "profile", "cpu profile"])
@pytest.mark.parametrize("checkpoint", [None, CHECKPOINT], ids=["no listing", "checkpoint"])
def test_no_combination_raises(
    check: Check, facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None
) -> None:
    """Every check answers on every node, with and without a profile and a checkpoint, and gives a reason to skip."""
    finding = check.run(facts, profile, checkpoint)

    assert finding.status in STATUSES
    assert finding.seen


def with_its_parts(kind: type[object]) -> st.SearchStrategy[object]:
    """Return values of one of doctor's own facts, whose parts are imported for type checkers alone."""
    parts = {name: value for module in PARTS for name, value in vars(module).items()}
    return st.builds(kind, **{name: st.from_type(hint) for name, hint in get_type_hints(kind, None, parts).items()})


for each in (AskedFacts, KeptFacts, MeasuredFacts, UpkeepFacts):
    st.register_type_strategy(each, with_its_parts(each))

DEGREE = st.integers(1, 16)
st.register_type_strategy(ParallelAsk, st.builds(ParallelAsk, data=DEGREE, tensor=DEGREE, pipeline=DEGREE))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(facts=st.from_type(NodeFacts), profile=st.none() | st.from_type(Profile).filter(lambda asked: asked.layout))
def test_no_facts_whatever_raise(facts: NodeFacts, profile: Profile | None) -> None:
    """Whatever a machine says, every check answers."""
    for check in CHECKS:
        assert isinstance(check.run(facts, profile, CHECKPOINT), Finding)


def test_a_machine_without_gpus_and_a_profile_for_it_has_no_finding() -> None:
    """No GPU is a fact: where none is asked for, nothing warns, fails or is unknown."""
    found = {c.id: c.run(OFF_THE_BUS, CPU_PROFILE, CHECKPOINT).status for c in CHECKS}

    assert {"ok", "skip"} == set(found.values())


def test_ids_are_unique_and_name_their_file() -> None:
    """`gpu.count` is in gpu_count.py, and every file with a CHECK is in CHECKS."""
    modules = {m.name: import_module(f"kboot.checks.{m.name}") for m in pkgutil.iter_modules(kboot.checks.__path__)}
    in_files = {module.CHECK.id: name for name, module in modules.items() if hasattr(module, "CHECK")}

    assert sorted(in_files) == sorted(c.id for c in CHECKS)
    assert all(name == id_.replace(".", "_") for id_, name in in_files.items())
    assert all(re.fullmatch(r"[a-z]+\.[a-z_0-9]+", c.id) for c in CHECKS)


def test_every_check_asks_a_question_and_names_its_source() -> None:
    """`asks` is a question, `source` and `modes` are never empty."""
    assert all(c.asks.endswith("?") and c.source and c.modes for c in CHECKS)


def test_a_host_that_bakes_images_is_not_asked_about_gpus() -> None:
    """In bake mode nobody asks about GPUs, CPUs or NUMA nodes: those that will serve are others."""
    in_bake = {c.id.split(".")[0] for c in CHECKS if "bake" in c.modes}

    asked = "agent ckpt cache disk engine env facts fit limits net sec time"
    assert set(asked.split()) == in_bake
