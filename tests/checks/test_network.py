"""What is said of sources, limits, certificates, the vendor's programs, and of drivers and mixes of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from good_node import CHECKPOINT, GPUS, HEALTH, NODE, PROFILE, files, node

from kboot.answers import SourceAnswer
from kboot.checks import (
    gpu_arch_support,
    gpu_dcgm,
    gpu_driver_branch,
    gpu_driver_cuda_compat,
    gpu_mixed,
    net_ca_file,
    net_ratelimit,
    net_source_reach,
    nvlink_allreduce,
)
from kboot.checks.drivers import BRANCHES, branch_of, month_of
from kboot.checks.engine_needs import needs_of
from kboot.facts.asked_types import AllReduce, DiagTest
from kboot.facts.types import Gap

HUB = SourceAnswer("hub https://h", size_bytes=1 << 20, seconds=0.31, families=(("IPv4", True), ("IPv6", True)))
AWAY = SourceAnswer("https://mirror", "connection-refused", "mirror:443 refuses connections", "see HTTPS_PROXY")
END_OF_JUNE_2026_S, JULY_2026_S = 1_782_863_999.0, 1_782_864_000.0


def test_no_source_fails_only_a_boot_that_must_fetch() -> None:
    """With everything on this disk a boot needs no network, so that it is a warning."""
    away = node(asked={"sources": (AWAY,)})

    assert "fail" == net_source_reach.run(away, PROFILE, files("absent")).status
    assert "fail" == net_source_reach.run(away, PROFILE, None).status
    here = net_source_reach.run(away, PROFILE, CHECKPOINT)
    assert ("warn", True) == (here.status, "nothing is missing on this disk now" in here.why)


def test_one_source_of_two_is_a_warning_with_its_own_words() -> None:
    """What the source said, how many are silent, and its own hint."""
    finding = net_source_reach.run(node(asked={"sources": (HUB, AWAY)}), PROFILE, files("absent"))

    assert ("warn", "mirror:443 refuses connections (1 of 2 sources do not give bytes)", "see HTTPS_PROXY") == (
        finding.status,
        finding.seen,
        finding.hint,
    )


def test_a_family_that_leads_nowhere_is_a_warning() -> None:
    """B032: AAAA answers that no packet reaches; kboot goes on over IPv4, other programs wait."""
    half = replace(HUB, families=(("IPv4", True), ("IPv6", False)))
    finding = net_source_reach.run(node(asked={"sources": (half,)}), PROFILE, None)

    assert ("warn", "hub https://h has addresses of IPv6 that do not answer") == (finding.status, finding.seen)
    assert (
        "hub https://h: 1.05 MB in 0.31 s over IPv4 and IPv6"
        == net_source_reach.run(node(asked={"sources": (HUB,)}), PROFILE, None).seen
    )


def test_a_gated_repository_is_said_as_the_hub_says_it() -> None:
    """B025: the finding is the source's own sentence, which names repository and place of the token."""
    gated = replace(
        AWAY, code="auth-gated", message="h answers 403 for org/m: it is gated, and the token from HF_TOKEN"
    )

    assert "the token from HF_TOKEN" in net_source_reach.run(node(asked={"sources": (gated,)}), PROFILE, None).seen


def test_a_rate_limit_is_said_with_its_time() -> None:
    """429 tells when to ask again; so does a window that is nearly used up."""
    limited = replace(AWAY, code="rate-limited", message="h answers 429: too many requests", wait_s=210.0)
    finding = net_ratelimit.run(node(asked={"sources": (limited,)}), PROFILE, None)

    assert ("warn", "h answers 429: too many requests; it may be asked again in 4 min") == (
        finding.status,
        finding.seen,
    )
    assert (
        "hub https://huggingface.co: 498 of 500 requests are left for the next 2 min"
        == net_ratelimit.run(NODE, PROFILE, None).seen
    )


@pytest.mark.parametrize("check", [net_source_reach, net_ratelimit, net_ca_file, gpu_dcgm, nvlink_allreduce])
def test_what_nobody_asked_is_skipped_and_what_did_not_answer_is_unknown(check: object) -> None:
    """A recording was not asked; a question without an answer leaves a gap."""
    run = check.run  # type: ignore[attr-defined]
    names = ("sources", "rate_limit", "trust", "diagnostics", "allreduce")
    none = dict.fromkeys(names)
    gaps = tuple(Gap(f"asked.{name}", "the program", "no answer in 7 s") for name in names)

    assert "skip" == run(node(asked=none), PROFILE, None).status
    unknown = run(node(asked=none, gaps=gaps), PROFILE, None)
    assert ("unknown", True) == (unknown.status, "no answer in 7 s" in unknown.seen)


def test_a_source_that_is_away_is_said_once() -> None:
    """The limit of a Hub that gives no bytes is not asked for, and is no second finding."""
    finding = net_ratelimit.run(node(asked={"sources": (AWAY,), "rate_limit": None}), PROFILE, None)

    assert ("skip", "a source gives no bytes: see net.source_reach") == (finding.status, finding.seen)


def test_a_certificate_file_that_is_missing_is_an_error() -> None:
    """B033: a variable that names nothing fails; checking is never turned off."""
    finding = net_ca_file.run(node(asked={"trust": "SSL_CERT_FILE names /nonexistent.pem"}), None, None)

    assert ("fail", True) == (finding.status, "/nonexistent.pem" in finding.seen)


def test_mixed_models_are_a_warning_unless_numbers_mean_the_same() -> None:
    """B092: CUDA's GPU 0 is the fastest card, NVML's the first on the bus."""
    mixed = {"gpus": (replace(GPUS[0], name="NVIDIA T400"), *GPUS[1:])}
    finding = gpu_mixed.run(node(gpu=mixed), None, None)

    assert ("warn", "models are mixed: 7x NVIDIA H200, 1x NVIDIA T400") == (finding.status, finding.seen)
    assert "ok" == gpu_mixed.run(node(gpu={**mixed, "device_order": "PCI_BUS_ID"}), None, None).status
    assert "ok" == gpu_mixed.run(node(gpu={**mixed, "visible": "GPU-1,GPU-2"}), None, None).status
    assert "warn" == gpu_mixed.run(node(gpu={**mixed, "visible": "0,GPU-2"}), None, None).status


def test_a_branch_is_mended_to_the_end_of_its_month() -> None:
    """535 ends with June 2026; a branch that the table does not have is not judged."""
    old = {"driver_version": "535.129.03"}

    assert "ok" == gpu_driver_branch.run(replace(node(gpu=old), collected_unix_s=END_OF_JUNE_2026_S), None, None).status
    finding = gpu_driver_branch.run(replace(node(gpu=old), collected_unix_s=JULY_2026_S), None, None)
    assert ("warn", "driver 535.129.03: long-term branch 535, mended until 2026-06") == (finding.status, finding.seen)
    assert "branch 580" in finding.hint
    assert "skip" == gpu_driver_branch.run(node(gpu={"driver_version": "570.86.15"}), None, None).status
    assert "unknown" == gpu_driver_branch.run(node(gpu={"driver_version": None}), None, None).status


def test_the_table_of_branches_makes_sense() -> None:
    """Months are months, and a newer branch runs no older CUDA."""
    assert all(1 <= branch.ends[1] <= 12 for branch in BRANCHES.values())
    assert sorted(branch.cuda for branch in BRANCHES.values()) == [BRANCHES[n].cuda for n in sorted(BRANCHES)]
    assert (580, None, None) == (branch_of("580.95.05"), branch_of(None), branch_of("x"))
    assert ((1970, 1), None) == (month_of(0.0), month_of(float("nan")))


def test_a_vendor_test_that_only_warns_is_a_warning() -> None:
    """Fail is fail, Warn is warn, and what was not run says nothing."""
    warned = (DiagTest("software", "Warn", "Persistence mode is off"), DiagTest("pcie", "Skip"))

    assert ("warn", "software: Persistence mode is off") == (
        (finding := gpu_dcgm.run(node(asked={"diagnostics": warned}), None, None)).status,
        finding.seen,
    )
    assert "1 of 2 tests passed, the others were not run" == gpu_dcgm.run(NODE, None, None).seen


def test_an_all_reduce_is_judged_by_class_and_only_over_nvlink() -> None:
    """Eight H200: 480 GB/s less a tenth; two of them, parts without NVLink and other classes are not compared."""
    slow = AllReduce(8, 2 << 30, 41.0, 0)
    pcie = {"gpus": tuple(replace(h, nvlinks=()) for h in HEALTH)}

    assert "432 GB/s" == nvlink_allreduce.run(node(asked={"allreduce": slow}), None, None).wanted
    assert "ok" == nvlink_allreduce.run(node(asked={"allreduce": slow}, health=pcie), None, None).status
    assert "339 GB/s over 2 GPUs (2.15 GB); kboot has no rate to compare it with" == (
        nvlink_allreduce.run(node(asked={"allreduce": AllReduce(2, 2 << 30, 339.03, 0)}), None, None).seen
    )
    wrong = nvlink_allreduce.run(node(asked={"allreduce": replace(slow, wrong=3)}), None, None)
    assert ("fail", "3 wrong values in an all-reduce of 2.15 GB") == (wrong.status, wrong.seen)


@pytest.mark.parametrize(
    ("engine", "version", "needs"),
    [
        ("vllm", "0.14.0", ((7, 0), None)),
        ("vllm", "0.21.0", ((7, 5), None)),
        ("vllm", "0.33.0.dev3+g1", ((7, 5), None)),
        ("vllm", None, ((7, 0), None)),
        ("sglang", "0.5.19", ((7, 5), None)),
        ("sglang", "0.5.20", ((7, 5), 13)),
        ("sglang", "0.6", ((7, 5), 13)),
    ],
)
def test_what_an_engine_needs_depends_on_its_release(
    engine: str, version: str | None, needs: tuple[tuple[int, int], int | None]
) -> None:
    """The newest row that is not newer than the release; an engine nobody described needs nothing."""
    found = needs_of(engine, version)

    assert found is not None
    assert needs == (found.capability, found.cuda)
    assert needs_of("tokenspeed", "1.0") is None


def test_a_release_that_needs_a_newer_cuda_is_found_without_its_packages() -> None:
    """SGLang 0.5.20 on a driver that runs CUDA 12 at most, with no package that tells what it was built for."""
    old = node(gpu={"cuda_version": "12.8"}, engine={"name": "sglang", "version": "0.5.20", "packages": {}})
    finding = gpu_driver_cuda_compat.run(old, PROFILE, None)

    assert ("fail", "driver 580.65.06 or newer") == (finding.status, finding.wanted)
    before = node(gpu={"cuda_version": "12.8"}, engine={"name": "sglang", "version": "0.5.19", "packages": {}})
    assert "skip" == gpu_driver_cuda_compat.run(before, PROFILE, None).status


def test_a_gpu_that_a_newer_release_left_behind_is_found() -> None:
    """V100 (7.0) ran vLLM 0.14; 0.33 has no kernels for it."""
    volta = {"gpus": tuple(replace(g, compute_capability=(7, 0)) for g in GPUS)}

    assert "fail" == gpu_arch_support.run(node(gpu=volta), PROFILE, None).status
    assert "ok" == gpu_arch_support.run(node(gpu=volta, engine={"version": "0.14.0"}), PROFILE, None).status
