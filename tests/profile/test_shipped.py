"""The profiles and node classes that come with kboot."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.host.paths import Paths
from kboot.profile.load import list_profiles, load_node_classes, load_profile
from kboot.profile.resources import shipped_profiles
from kboot.profile.types import NodeClass, Profile

NOWHERE = Paths(Path("/nonexistent/state"), Path("/nonexistent/run"), Path("/nonexistent/etc"))
NAMES = [summary.name for summary in list_profiles(NOWHERE)]
CLASSES = {c.gpu: c for c in load_node_classes()}


@pytest.fixture(params=NAMES)
def profile(request: pytest.FixtureRequest) -> Profile:
    """Each shipped profile."""
    return load_profile(request.param, NOWHERE)


def test_the_named_profiles_are_there() -> None:
    """Six models, by the names that the README uses; there may be more."""
    assert {
        "deepseek-v4-pro",
        "deepseek-v4.1-flash",
        "demo",
        "kimi-k2.7-code",
        "kimi-k3",
        "kimi-k3.1-pro",
    } <= set(NAMES)
    assert NAMES == sorted(p.stem for p in (shipped_profiles() / "models").iterdir())


def test_every_layout_fills_its_gpus(profile: Profile) -> None:
    """Ranks = GPUs, and a node of the class has as many GPUs as the layout takes."""
    for layout in profile.layout:
        parallel = layout.parallel
        ranks = parallel.data * parallel.tensor * parallel.pipeline
        if layout.gpu == "none":
            assert (0, 1) == (layout.gpus_per_node, layout.nodes)
        else:
            assert layout.gpus_per_node * layout.nodes == ranks
            assert CLASSES[layout.gpu].gpus_per_node == layout.gpus_per_node


def test_cache_keys_do_not_depend_on_engine_defaults(profile: Profile) -> None:
    """Every vLLM layout gives the lengths and batch sizes that its kernel-cache key contains."""
    for layout in profile.layout:
        if layout.engine == "vllm":
            assert {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"} <= set(layout.args)


def test_no_layout_repeats_what_the_adapter_adds(profile: Profile) -> None:
    """Sizes, host, port and served name come from keys of their own."""
    ours = {"--data-parallel-size", "--tensor-parallel-size", "--enable-expert-parallel", "--host", "--port"}
    for layout in profile.layout:
        assert set() == ours & set(layout.args)


def test_kimi_k3_1_pro_is_as_published() -> None:
    """Sizes, experts, layouts and vLLM flags of Kimi-K3.1-Pro; its GPUs have tensor-parallel layouts too."""
    profile = load_profile("kimi-k3.1-pro", NOWHERE)
    model = profile.model

    assert "moonshotai/Kimi-K3.1-Pro" == profile.checkpoint.repo
    assert (1_561_000_000_000, 111, 93) == (model.size_bytes, model.files, model.layers)
    assert (896, 16, 2) == (model.routed_experts, model.active_experts, model.shared_experts)
    assert (2800, 104, "MXFP4") == (
        model.parameters_billion,
        model.active_parameters_billion,
        model.quantization,
    )
    assert [("B300", 8, 1), ("B200", 8, 2), ("H200", 8, 4), ("H100", 8, 4)] * 2 == [
        (each.gpu, each.gpus_per_node, each.nodes) for each in profile.layout
    ]
    assert [1, 1, 1, 1, 8, 8, 8, 8] == [each.parallel.tensor for each in profile.layout]
    first = profile.layout[0]
    assert (8, 1, 1, True) == (
        first.parallel.data,
        first.parallel.tensor,
        first.parallel.pipeline,
        first.parallel.expert,
    )
    assert (
        "--tool-call-parser kimi_k3 --reasoning-parser kimi_k3 --max-model-len 1048576 --trust-remote-code "
        "--max-num-seqs 256 --max-num-batched-tokens 8192"
    ) == " ".join(first.args)
    assert profile.license.accept_required
    assert 3 == len(profile.license.summary)


def test_the_neighbour_has_another_number_of_shards() -> None:
    """Shard counts are data: 96 files in Kimi-K3, 111 in Kimi-K3.1-Pro."""
    profile = load_profile("kimi-k3", NOWHERE)

    assert (1_560_940_000_000, 96, "Modified MIT") == (
        profile.model.size_bytes,
        profile.model.files,
        profile.license.name,
    )


def test_the_demo_serves_on_loopback_without_a_gpu() -> None:
    """Two workers of the demo engine, ready when one token came back."""
    profile = load_profile("demo", NOWHERE)
    (layout,) = profile.layout

    assert ("demo", "none", 0, 2, True) == (
        layout.engine,
        layout.gpu,
        layout.gpus_per_node,
        layout.parallel.data,
        layout.parallel.expert,
    )
    assert ("127.0.0.1", 8133, "completion", 120) == (
        profile.serve.host,
        profile.serve.port,
        profile.serve.probe,
        profile.serve.ready_timeout_s,
    )


@pytest.mark.parametrize(("gpu", "gigabytes"), [("B300", 288), ("B200", 192), ("H200", 141), ("H100", 80)])
def test_node_classes_have_their_nominal_memory(gpu: str, gigabytes: int) -> None:
    """Eight GPUs in a node, as sold."""
    known: NodeClass = CLASSES[gpu]

    assert (gigabytes * 10**9, 8) == (known.memory_bytes, known.gpus_per_node)


def test_prices_carry_their_date() -> None:
    """8x B300: $68.08 spot, $12.42 a GPU on demand; 32x H100: $70.40."""
    prices = {(gpu, p.gpus, p.usd_per_hour, p.as_of) for gpu, known in CLASSES.items() for p in known.price}

    assert {
        ("B300", 8, 68.08, "2026-11-11"),
        ("B300", 1, 12.42, "2026-11-11"),
        ("H100", 32, 70.40, "2026-11-11"),
    } == prices
