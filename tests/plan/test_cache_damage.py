"""Which entries of a kernel cache must be out of the way before the engine starts, and why?"""

from __future__ import annotations

from dataclasses import replace

import literals
import pytest

from kboot.engines.types import CacheKey
from kboot.facts.types import (
    Baton,
    CacheFacts,
    CacheScan,
    EngineFacts,
    NodeFacts,
    TornFile,
    TunedFile,
    Unwritable,
)
from kboot.plan.cache_damage import entry_of, plan_quarantine, scan_warnings
from kboot.profile.types import LayoutAsk, ParallelAsk

KEY = CacheKey("sm90", {})
FOUR = LayoutAsk(name="four", gpu="H100", gpus_per_node=4, parallel=ParallelAsk(data=4, expert=True))
HERE = {"gpu": "NVIDIA H100 80GB HBM3", "flashinfer_version": "0.7.2", "cuda_version": "13.0", "cublas_version": "1"}


def node(**scan: object) -> NodeFacts:
    """A node of H100s whose cache was found like this."""
    facts = literals.hgx_h100()
    packages = {"flashinfer-python": "0.7.2", "torch": "2.14.0+cu130"}
    found = CacheScan(files=10, size_bytes=100, looked_at=3, **scan)  # type: ignore[arg-type]
    return replace(
        facts,
        engine=EngineFacts("vllm", "0.33.0", "/x/python3", packages),
        caches=CacheFacts({}, frozenset(), found),
    )


def aside(**scan: object) -> list[tuple[str, str]]:
    """Return (entry, reason) of what is moved."""
    return [(a.entry, a.reason) for a in plan_quarantine(node(**scan), FOUR, "/c/sm90")]


def tuned(count: int, folder: str = "flashinfer-autotune/ab", **stamps: str) -> tuple[TunedFile, ...]:
    """A set of tuned files of so many ranks."""
    return tuple(TunedFile(f"{folder}/autotune_configs_dp{n}_rank{n}.json", {**HERE, **stamps}) for n in range(count))


def test_a_whole_cache_needs_nothing() -> None:
    """All ranks tuned here, nothing torn, no lock: no action."""
    assert [] == aside(tuned=tuned(4))
    assert () == plan_quarantine(literals.hgx_h100(), FOUR, "/c")


def test_b114_a_torn_file_takes_its_entry_with_it() -> None:
    """B114: Triton's files of one kernel go together; the reason says what was seen."""
    torn = (TornFile("triton/AAAA/__grp__k.json", 0, "0 bytes"), TornFile("triton/AAAA/k.cubin", 10, "cut"))

    assert [("triton/AAAA", "torn by a crash: triton/AAAA/__grp__k.json has 0 bytes")] == aside(torn=torn)


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("triton/AB12/k.cubin", "triton/AB12"),
        ("vllm/torch_compile_cache/0a1b/triton_cache/AB/k.so", "vllm/torch_compile_cache/0a1b/triton_cache/AB"),
        ("deep_gemm/cache/kernel.gemm.ab12/kernel.cubin", "deep_gemm/cache/kernel.gemm.ab12"),
        ("deep_ep/cache/kernel.dispatch.ab12/kernel.cubin", "deep_ep/cache/kernel.dispatch.ab12"),
        ("trtllm-deep_gemm/cache/gemm_1_2/kernel.cubin", "trtllm-deep_gemm/cache/gemm_1_2"),
        (f"tilelang/cache/0.1.12/{'ab' * 32}/kernel.so", f"tilelang/cache/0.1.12/{'ab' * 32}"),
        ("flashinfer/.cache/0.7/cached_ops/m/m.o", "flashinfer/.cache/0.7/cached_ops/m/m.o"),
        ("inductor/ab/cabc.so", "inductor/ab/cabc.so"),
        ("triton/lonely.json", "triton/lonely.json"),
    ],
)  # fmt: skip
def test_what_goes_with_a_torn_file(path: str, entry: str) -> None:
    """One compilation's files go together; in a ninja build the object alone, for ninja builds what is missing."""
    assert entry == entry_of(path)


def test_tuned_kernels_of_another_environment_go() -> None:
    """FlashInfer would neither read nor replace them, and tune at every boot; the reason names what differs."""
    found = aside(tuned=tuned(4, gpu="NVIDIA H200", flashinfer_version="0.6.9"))

    assert 4 == len(found)
    assert "flashinfer_version is 0.6.9, here 0.7.2; gpu is NVIDIA H200, here NVIDIA H100 80GB HBM3" in found[0][1]


def test_stamps_that_say_nothing_are_no_difference() -> None:
    """Wildcards and what FlashInfer could not tell are replaced by itself; what is not known here is not judged."""
    assert [] == aside(tuned=tuned(4, gpu="*", cuda_version="unknown", cublas_version="2", cudnn_frontend_version="7"))


def test_a_part_of_a_set_goes_whole() -> None:
    """Three ranks of four are of no use: all tune again together. Other sets stay."""
    found = aside(tuned=(*tuned(3), *tuned(4, "flashinfer-autotune/cd")))

    assert ["0", "1", "2"] == [entry[-6] for entry, _ in found]
    assert {"flashinfer-autotune/ab"} == {entry.rpartition("/")[0] for entry, _ in found}
    assert "3 of 4 ranks" in found[0][1]


def test_dense_engines_number_each_rank_zero() -> None:
    """Data-parallel engines without experts have a world of their own each: dp0_rank0 … dp3_rank0 is a whole set."""
    files = tuple(TunedFile(f"fi/ab/autotune_configs_dp{n}_rank0.json", HERE) for n in range(4))

    assert [] == aside(tuned=files)


def test_a_lock_goes_only_when_it_is_certain_that_nobody_holds_it() -> None:
    """Held, or perhaps held: it stays, and is warned of."""
    free, held, maybe = Baton("t/a/lock", (), 0), Baton("t/b/lock", (71,), 0), Baton("t/c/lock", (), 2)
    facts = node(batons=(free, held, maybe))

    assert ["t/a/lock"] == [a.entry for a in plan_quarantine(facts, FOUR, "/c")]
    warnings = scan_warnings(facts.caches, KEY)
    assert ["held by process 71", "held by perhaps one of 2"] == [
        next(words for words in ("held by process 71", "held by perhaps one of 2") if words in w) for w in warnings
    ]


def test_the_probe_of_another_machines_gpus_goes() -> None:
    """An image that was cloned carries it along; on the machine that made it, or where that is unknown, it stays."""
    p2p = ("vllm/gpu_p2p_access_cache_for_0,1.json",)

    assert 1 == len(aside(p2p=p2p, machine="b", made_on="a"))
    assert [] == aside(p2p=p2p, machine="a", made_on="a")
    assert [] == aside(p2p=p2p, machine="a", made_on="")


def test_a_table_of_graphs_that_lie_elsewhere_goes() -> None:
    """vllm#52154: without it the engine compiles again; with it, it ends."""
    table = "vllm/torch_compile_cache/0123456789/rank_0_0/backbone/vllm_compile_cache.py"
    ((entry, reason),) = aside(moved=((table, "/mnt/nvme/cache/artifact_0"),))

    assert table == entry
    assert "/mnt/nvme/cache/artifact_0, which is not there" in reason


def test_b122_what_the_engine_cannot_write_is_warned_of() -> None:
    """B122: path, owner and mode of the first, and how many."""
    (warning,) = scan_warnings(node(unwritable=Unwritable("triton/cache", 0, "0755", 3)).caches, KEY)

    assert "cannot change 3 entries" in warning
    assert "first triton/cache (owner 0, mode 0755)" in warning


def test_without_a_scan_nothing_is_said() -> None:
    """No key yet, no folder looked at."""
    assert () == scan_warnings(CacheFacts({}, frozenset()), KEY)
    assert "more entries" in scan_warnings(node(whole=False).caches, KEY)[0]
