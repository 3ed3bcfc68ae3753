"""For which nodes an image is made, and what of their caches is known without their GPUs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.errors import UsageError
from kboot.plan.bake import ARCH_LIST, TargetAsk, arch_list, deferred, target_factors, targets
from kboot.profile.types import LayoutAsk, NodeClass, ParallelAsk, Profile

sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))

import b300

CLASSES = tuple(
    NodeClass(gpu=gpu, title=gpu, match=(gpu,), memory_bytes=1, gpus_per_node=8, compute_capability=capability)
    for gpu, capability in (("B300", (10, 3)), ("B200", (10, 0)), ("H200", (9, 0)))
)


def layout(gpu: str, gpus: int = 8, nodes: int = 1) -> LayoutAsk:
    parallel = ParallelAsk(data=8, expert=True)
    return LayoutAsk(name=f"{gpu}-{gpus}-{nodes}", gpu=gpu, gpus_per_node=gpus, nodes=nodes, parallel=parallel)


def asked(*layouts: LayoutAsk) -> Profile:
    return replace(b300.profile(layouts[0]), layout=layouts)


ALL = asked(layout("B300"), layout("B300", 8, 2), layout("B200"), layout("H200", 4))


@pytest.mark.parametrize(
    ("ask", "environ", "expected"),
    [
        (TargetAsk(), {}, ["B300-8-1", "B300-8-2", "B200-8-1", "H200-4-1"]),
        (TargetAsk(gpu="b300"), {}, ["B300-8-1", "B300-8-2"]),
        (TargetAsk(gpu="B300", gpus=8, nodes=2), {}, ["B300-8-2"]),
        (TargetAsk(gpus=4), {}, ["H200-4-1"]),
        (TargetAsk(), {ARCH_LIST: "9.0a 10.0a"}, ["B200-8-1", "H200-4-1"]),
        (TargetAsk(gpu="B300"), {ARCH_LIST: "9.0a"}, ["B300-8-1", "B300-8-2"]),
        (TargetAsk(), {ARCH_LIST: "8.0"}, ["B300-8-1", "B300-8-2", "B200-8-1", "H200-4-1"]),
    ],
)
def test_targets_are_those_named_else_those_of_the_architectures_else_all(
    ask: TargetAsk, environ: dict[str, str], expected: list[str]
) -> None:
    """B150: nobody asks a GPU; a list of architectures that no layout has says nothing."""
    assert expected == [a.name for a in targets(ALL, CLASSES, ask, environ)]


def test_a_target_that_the_profile_lacks_is_named_with_those_it_has() -> None:
    """ "2x B300" is not guessed to be "8x B300"."""
    with pytest.raises(UsageError) as caught:
        targets(ALL, CLASSES, TargetAsk(gpu="B300", gpus=2), {})

    assert "2x B300" in caught.value.message
    assert 4 == len(caught.value.where)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9.0a 10.0a", {(9, 0), (10, 0)}),
        ("8.0;9.0+PTX,10.3", {(8, 0), (9, 0), (10, 3)}),
        ("", set()),
        ("Hopper", set()),
    ],
)
def test_lists_of_architectures(text: str, expected: set[tuple[int, int]]) -> None:
    """As torch writes them."""
    assert expected == arch_list(text)


def test_what_only_the_nodes_driver_tells_is_left_out_of_the_factors() -> None:
    """Architecture, engine, packages, commit and layout are known; driver, CUDA and product name are the node's."""
    facts = replace(b300.facts("vllm", 0), gpu=replace(b300.facts("vllm").gpu, gpus=(), driver_version=None))
    factors = target_factors(facts, ALL, ALL.layout[0], "c" * 40, CLASSES, TargetAsk())

    assert ("sm103", "vllm", "dp8ep", "c" * 40) == tuple(
        factors[name] for name in ("gpu_arch", "engine", "layout", "commit")
    )
    assert "package.torch" in factors
    assert set() == {"driver", "cuda", "gpu_name"} & factors.keys()


def test_what_the_operator_says_of_the_driver_is_a_factor() -> None:
    """Then a cache of another driver is refused while the image is made, not at its first boot."""
    ask = TargetAsk(driver="590.44", cuda="13.1")
    factors = target_factors(b300.facts("vllm"), ALL, ALL.layout[0], "c" * 40, CLASSES, ask)

    assert ("590.44", "13.1") == (factors["driver"], factors["cuda"])


def test_kernels_are_built_at_the_first_boot_unless_they_are_in_the_image() -> None:
    """Told for each target whose layout no complete cache is for."""
    chosen = (layout("B300"), replace(layout("B200"), parallel=ParallelAsk(tensor=8)))

    assert ["kernel warm-up"] == [name for name, _ in deferred(chosen, {"dp8ep"}, "")]
    assert "B200-8-1" in deferred(chosen, {"dp8ep"}, "")[0][1]
    assert () == deferred(chosen, {"dp8ep", "tp8"}, "")
