"""What is said of CPUs, memory, limits, disks, caches and the engine."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest
from good_node import BLIND, CHECKPOINT, GIB, NODE, PROFILE, node

from kboot.checks import (
    cpu_governor,
    cpu_isolcpus,
    cpu_quota,
    disk_errors,
    disk_fs_ro,
    disk_mount_kind,
    disk_readahead,
    engine_version,
    facts_gaps,
    limits_memlock,
    limits_nofile,
    mem_hugepages,
    mem_overcommit,
    mem_swap,
    mem_thp,
    net_conntrack,
    numa_balance,
)
from kboot.checks.fixes import WriteValue
from kboot.facts.health_types import KernelEvent
from kboot.facts.types import EngineFacts, Gap, NodeFacts
from kboot.facts.upkeep_types import EnvSetting
from kboot.profile.types import CpuAsk, TuneAsk


def test_only_cpus_that_may_be_used_need_the_governor() -> None:
    """A slow CPU outside the allowed ones is nobody's trouble."""
    governors = {**dict.fromkeys(range(64), "performance"), 63: "powersave"}

    assert (
        "1 of 64 CPUs use powersave, not performance"
        == cpu_governor.run(node(cpu={"governor_of": governors}), None, None).seen
    )
    inside = node(cpu={"governor_of": governors, "allowed": tuple(range(32))})
    assert "32 of 32 CPUs use performance" == cpu_governor.run(inside, None, None).seen


def test_a_virtual_machine_has_no_governor_to_judge() -> None:
    """No cpufreq is a reason to skip, and so is a profile that leaves the governor alone."""
    profile = replace(PROFILE, cpu=CpuAsk(governor=""))

    assert "skip" == cpu_governor.run(node(cpu={"governor_of": {}}), None, None).status
    assert "skip" == cpu_governor.run(NODE, profile, None).status


def test_a_quota_below_the_cpus_shown_is_a_warning() -> None:
    """Programs count CPUs, not quotas."""
    finding = cpu_quota.run(node(cpu={"quota_cpus": 16.0}), PROFILE, None)

    assert ("warn", True) == (finding.status, "64 of 64 CPUs allowed, quota 16: " in finding.seen)


def test_fewer_cpus_than_workers_is_a_warning() -> None:
    """Eight workers on four CPUs wait for each other."""
    finding = cpu_quota.run(node(cpu={"allowed": (0, 1, 2, 3)}), PROFILE, None)

    assert ("warn", "4 of 64 CPUs allowed; 8 workers want at least one each") == (finding.status, finding.seen)


def test_isolated_cpus_are_listed_as_the_kernel_lists_them() -> None:
    """The finding names them in the form of the kernel's command line; offline ones do not count."""
    finding = cpu_isolcpus.run(node(cpu={"isolated": (8, 9, 10, 12, 200)}), None, None)

    assert "4 CPUs (8-10,12) isolated from the scheduler" == finding.seen


def test_huge_pages_that_the_profile_asks_for_are_ok() -> None:
    """B174: a pool is a finding only where nobody asked for it."""
    facts = node(memory={"hugepages_bytes": 1024 * GIB})
    profile = replace(PROFILE, tune=TuneAsk(settings={"/proc/sys/vm/nr_hugepages": "524288"}))

    assert ("warn", "ok") == (
        mem_hugepages.run(facts, PROFILE, None).status,
        mem_hugepages.run(facts, profile, None).status,
    )


def test_swap_that_is_not_used_is_no_finding() -> None:
    """A little swapped out at boot is usual; a gigabyte is not."""
    assert "ok" == mem_swap.run(node(memory={"swap_used_bytes": 1 << 20}), None, None).status
    assert "1 GiB of swap in use" == mem_swap.run(node(memory={"swap_used_bytes": GIB}), None, None).seen


def test_a_services_limits_are_read_from_inside() -> None:
    """B175: 4096 files and 64 KiB of locked memory are findings whose hint is the unit's key, not limits.conf."""
    facts = node(limits={"nofile": (1024, 4096), "memlock_bytes": (65536, 65536)})
    files, memlock = (check.run(facts, PROFILE, CHECKPOINT) for check in (limits_nofile, limits_memlock))

    assert "soft limit 1,024, hard limit 4,096 open files, 65,536 wanted" == files.seen
    assert "soft limit 64 KiB, hard limit 64 KiB of locked memory, unlimited wanted" == memlock.seen
    assert ("LimitNOFILE=1048576", "LimitMEMLOCK=infinity") == (files.hint.split()[0], memlock.hint.split()[0])


def test_rdma_between_nodes_does_not_start_without_locked_memory() -> None:
    """With one node it is a warning, with several a failure."""
    several = replace(PROFILE, layout=(replace(PROFILE.layout[0], nodes=2),))
    facts = node(limits={"memlock_bytes": (65536, None)})

    assert ("warn", "fail") == (
        limits_memlock.run(facts, PROFILE, None).status,
        limits_memlock.run(facts, several, None).status,
    )


def test_a_limit_below_the_number_of_shards_is_a_failure() -> None:
    """A process that may open 300 files cannot map 96 shards and serve."""
    assert "fail" == limits_nofile.run(node(limits={"nofile": (300, 300)}), PROFILE, CHECKPOINT).status


def test_a_shells_soft_limit_does_not_matter() -> None:
    """1024 of 524288, as every login on Debian has: kboot raises it before the engine starts."""
    finding = limits_nofile.run(node(limits={"nofile": (1024, 524288)}), PROFILE, CHECKPOINT)

    assert "ok" == finding.status
    assert "soft limit 1,024, hard limit 524,288; kboot raises the soft one before the engine starts" == finding.seen


def test_a_limit_that_was_not_read_is_not_zero() -> None:
    """(0, 0) beside a gap is unknown."""
    facts = node(gpu=NODE.gpu, limits=BLIND.limits)
    facts = replace(facts, gaps=(Gap("limits", "/proc/self/limits", "Permission denied"),))

    assert ("unknown", "unknown") == (
        limits_nofile.run(facts, None, None).status,
        limits_memlock.run(facts, None, None).status,
    )


def test_a_read_only_disk_is_named_with_its_device() -> None:
    """The mount, device and role are in the finding."""
    facts = node(mounts=(replace(NODE.mounts[0], read_only=True), *NODE.mounts[1:]))

    assert "read-only: / (/dev/nvme0n1p1, ext4; state)" == disk_fs_ro.run(facts, None, None).seen


@pytest.mark.parametrize("fs_type", ["nfs4", "overlay", "tmpfs", "lustre", "virtiofs", "fuse.juicefs"])
def test_a_checkpoint_that_is_not_on_a_local_disk_is_a_warning(fs_type: str) -> None:
    """Network, container and memory file systems are each a finding that names them."""
    facts = node(mounts=tuple(replace(m, fs_type=fs_type) for m in NODE.mounts))
    finding = disk_mount_kind.run(facts, None, None)

    assert ("warn", True) == (finding.status, f"/var/lib/kboot (state) is on {fs_type}" in finding.seen)


def test_the_runtime_folder_belongs_in_memory() -> None:
    """/run is tmpfs on every node: no finding."""
    assert "ok" == disk_mount_kind.run(NODE, None, None).status


def test_an_engine_that_is_not_installed_is_a_failure() -> None:
    """The layout's engine decides; another one that was found says nothing about it."""
    missing = node(engine=EngineFacts("vllm", None, None, {}))
    other = node(engine=EngineFacts("sglang", "0.6", None, {}))

    assert ("fail", "unknown") == (
        engine_version.run(missing, PROFILE, None).status,
        engine_version.run(other, PROFILE, None).status,
    )


def test_flashinfers_packages_are_of_one_version() -> None:
    """vllm#49804: kernels of 0.6.1 beside 0.5.3 end every start at the import; their CUDA may differ."""
    own = {"flashinfer-python": "0.5.3", "flashinfer-jit-cache": "0.5.3+cu130"}
    fine = node(engine=EngineFacts("vllm", "0.33.0", None, own))
    mixed = node(engine=EngineFacts("vllm", "0.33.0", None, own | {"flashinfer-cubin": "0.6.1"}))
    unchecked = EnvSetting("FLASHINFER_DISABLE_VERSION_CHECK", "1", "this environment")
    meant = replace(mixed, upkeep=replace(mixed.upkeep, environ=(unchecked,)))
    found = engine_version.run(mixed, PROFILE, None)

    assert ["ok", "ok"] == [engine_version.run(facts, PROFILE, None).status for facts in (fine, meant)]
    assert ("fail", "flashinfer-cubin 0.6.1 beside flashinfer-python 0.5.3") == (found.status, found.seen)


def test_locality_that_a_machine_does_not_tell_is_no_gap_of_its_own() -> None:
    """On a virtual machine every GPU's numa_node is a gap; numa.gpu_node says where that matters."""
    facts = replace(NODE, gaps=(Gap("gpu.gpus.0.numa_node", "/sys", "-1: the machine does not say"),))

    assert "ok" == facts_gaps.run(facts, None, None).status


def test_gaps_are_named_with_their_reason() -> None:
    """What was not read, where, and what the machine answered."""
    facts = replace(NODE, gaps=(Gap("memory", "/proc/meminfo", "Permission denied"),))

    assert "1 fact not read: memory (/proc/meminfo: Permission denied)" == facts_gaps.run(facts, None, None).seen


@pytest.mark.parametrize(
    ("check", "facts", "fixes"),
    [
        (
            cpu_governor,
            node(cpu={"governor_of": {**dict.fromkeys(range(64), "performance"), 5: "powersave"}}),
            (WriteValue("/sys/devices/system/cpu/cpu5/cpufreq/scaling_governor", "performance", "powersave"),),
        ),
        (
            numa_balance,
            node(system={"numa_balancing": 1}),
            (WriteValue("/proc/sys/kernel/numa_balancing", "0", "1"),),
        ),
        (
            mem_thp,
            node(system={"thp": {"enabled": "always", "defrag": "always"}}),
            (WriteValue("/sys/kernel/mm/transparent_hugepage/defrag", "madvise", "always"),),
        ),
        (
            mem_overcommit,
            node(system={"max_map_count": 30000}),
            (WriteValue("/proc/sys/vm/max_map_count", "262144", "30000"),),
        ),
        (mem_overcommit, node(system={"overcommit": 2}), ()),  # somebody decided that
        (
            disk_readahead,
            node(disks=(replace(NODE.disks[1], read_ahead_bytes=0),)),
            (WriteValue("/sys/block/nvme0n1/queue/read_ahead_kb", "4096", "0"),),
        ),
        (
            net_conntrack,
            node(system={"conntrack": (262000, 262144)}),
            (WriteValue("/proc/sys/net/netfilter/nf_conntrack_max", "524288", "262144"),),
        ),
        (cpu_governor, NODE, ()),
    ],
)
def test_what_doctor_may_set_has_the_value_that_undoes_it(
    check: ModuleType, facts: NodeFacts, fixes: tuple[WriteValue, ...]
) -> None:
    """A finding offers what it read as the way back; where nothing is wrong nothing is offered."""
    assert fixes == check.run(facts, PROFILE, CHECKPOINT).fixes


def test_a_silent_file_server_is_a_warning_of_its_own_until_a_disk_fails() -> None:
    """Whoever reads from it hangs; a disk with errors is worse."""
    silent = KernelEvent("server-silent", "nfs: server filer not responding, still trying")
    sick = KernelEvent("io-error", "I/O error, dev nvme1n1, sector 8")
    findings = [
        disk_errors.run(node(health={"kernel_events": each}), PROFILE, CHECKPOINT)
        for each in ((silent,), (silent, sick))
    ]

    assert [("warn", silent.text), ("warn", f"1 I/O error and 0 damaged file systems since boot: {sick.text}")] == [
        (finding.status, finding.seen) for finding in findings
    ]
    assert "findmnt" in findings[0].hint
