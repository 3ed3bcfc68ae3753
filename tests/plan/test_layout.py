"""Which layout is for which node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import literals
import pytest

from kboot.errors import DoesNotFit, ExitStatus, FactMissing, UsageError
from kboot.facts.types import Gpu, GpuFacts, NodeFacts, NvmlState
from kboot.host.paths import Paths
from kboot.plan.layout import chosen_gpus, class_of, matching_layouts, of_nodes
from kboot.profile.load import load_node_classes, load_profile
from kboot.profile.types import LayoutAsk, Profile

CLASSES = load_node_classes()
NOWHERE = Paths(Path("/nonexistent/state"), Path("/nonexistent/run"), Path("/nonexistent/etc"))
K3 = load_profile("kimi-k3.1-pro", NOWHERE)
DEMO = load_profile("demo", NOWHERE)


def gpus(*names: str) -> tuple[Gpu, ...]:
    """GPUs of these product names, by index."""
    return tuple(replace(literals.gpu(i, 0), name=name) for i, name in enumerate(names))


def node(*names: str) -> NodeFacts:
    """A node with GPUs of these product names."""
    return literals.node(literals.cpu_facts([range(8)]), gpus(*names))


@pytest.mark.parametrize(
    ("product", "layout"),
    [
        ("NVIDIA B300 SXM6 AC", "8x-b300"),
        ("NVIDIA B200", "16x-b200"),
        ("NVIDIA H200", "32x-h200"),
        ("NVIDIA H100 80GB HBM3", "32x-h100"),
    ],
)
def test_the_layout_follows_the_product_name(product: str, layout: str) -> None:
    """Eight GPUs of a class get the layout of that class."""
    assert layout == matching_layouts(K3, node(*[product] * 8), CLASSES)[0].name


@pytest.mark.parametrize("product", ["NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA GB300", "NVIDIA A100-SXM4-80GB"])
def test_look_alikes_are_other_classes(product: str) -> None:
    """GH200 is no H200, GB200 no B200."""
    assert class_of(product, CLASSES) is None

    with pytest.raises(DoesNotFit) as caught:
        matching_layouts(K3, node(*[product] * 8), CLASSES)

    assert f"this node has 8x {product}; no layout of profile kimi-k3.1-pro is for that" == caught.value.message


def test_too_few_gpus_are_named_with_what_is_wanted() -> None:
    """Seven of eight is not eight: the error says what was found and what each layout wants."""
    with pytest.raises(DoesNotFit) as caught:
        matching_layouts(K3, node(*["NVIDIA B300"] * 7), CLASSES)

    assert ExitStatus.DOES_NOT_FIT == caught.value.status
    assert caught.value.message.startswith("this node has 7x NVIDIA B300;")
    assert (
        "8x-b300: 8x B300 on 1 node",
        "16x-b200: 8x B200 on each of 2 nodes",
        "32x-h200: 8x H200 on each of 4 nodes",
        "32x-h100: 8x H100 on each of 4 nodes",
    ) == caught.value.where[:4]


def test_a_display_gpu_beside_the_others_does_not_count() -> None:
    """B092: on a mixed node only the GPUs of the layout's class are counted and taken."""
    facts = node("NVIDIA RTX A2000", *["NVIDIA H200"] * 8)
    layout = matching_layouts(K3, facts, CLASSES)[0]

    assert "32x-h200" == layout.name
    assert [1, 2, 3, 4, 5, 6, 7, 8] == [g.index for g in chosen_gpus(facts, layout, CLASSES)]


def test_a_layout_without_gpus_is_for_any_machine() -> None:
    """The demo needs no GPU, and runs beside them too."""
    assert "demo-2-workers" == matching_layouts(DEMO, node(), CLASSES)[0].name
    assert "demo-2-workers" == matching_layouts(DEMO, node("NVIDIA H200"), CLASSES)[0].name


def test_a_machine_without_gpus_gets_no_gpu_layout() -> None:
    """A model for GPUs says what it wants."""
    with pytest.raises(DoesNotFit, match="this node has no GPU; no layout"):
        matching_layouts(K3, node(), CLASSES)


@pytest.mark.parametrize("state", ["hung", "no-library", "no-driver"])
def test_a_driver_that_does_not_answer_is_a_missing_fact(state: NvmlState) -> None:
    """Devices on the bus that NVML cannot name are unknown, not absent; a container may lack the library alone."""
    silent = replace(node(), gpu=GpuFacts(state, "no answer in 10 s", None, None, (), ("0000:01:00.0",)))

    with pytest.raises(FactMissing) as caught:
        matching_layouts(K3, silent, CLASSES)

    assert f"1 NVIDIA devices are on the PCI bus, but NVML did not say what they are: {state}" == caught.value.message
    assert "no answer in 10 s" == caught.value.where[0]


def test_a_class_that_is_asked_for_is_not_looked_for() -> None:
    """`--gpu` plans for another node, whatever this machine has."""
    assert "16x-b200" == matching_layouts(K3, node(), CLASSES, gpu="b200")[0].name

    with pytest.raises(UsageError, match="no layout for 'L4'"):
        matching_layouts(K3, node(), CLASSES, gpu="L4")


def test_a_class_nobody_described_is_a_word_of_the_product_name() -> None:
    """An operator's layout for L40S needs no node class."""
    layout = LayoutAsk(name="mine", gpu="L40S", gpus_per_node=1)
    profile: Profile = replace(DEMO, layout=(layout,))

    assert layout == matching_layouts(profile, node("NVIDIA L40S"), CLASSES)[0]

    with pytest.raises(DoesNotFit):
        matching_layouts(profile, node("NVIDIA L40"), CLASSES)


def test_gpus_that_are_hidden_do_not_count() -> None:
    """Two of eight visible: a layout of eight does not fit, and the message says who hid the others."""
    whole = node(*["NVIDIA B300 SXM6 AC"] * 8)
    some = replace(whole, gpu=replace(whole.gpu, visible="6,2"))

    with pytest.raises(DoesNotFit, match=r"2x NVIDIA B300 SXM6 AC \(of 8; CUDA_VISIBLE_DEVICES=6,2\)"):
        matching_layouts(K3, some, CLASSES)
    assert [6, 2] == [g.index for g in chosen_gpus(some, K3.layout[0], CLASSES)]


def test_layouts_of_so_many_nodes() -> None:
    """`--nodes 4 --rank 2` means a layout of four nodes; a rank that none has is a usage error, not another layout."""
    layouts = matching_layouts(K3, node(), CLASSES, "H100")

    assert ["32x-h100", "32x-h100-tp8-pp4"] == [a.name for a in of_nodes(layouts, 4, 2)]
    assert layouts == of_nodes(layouts, None, 0)
    with pytest.raises(UsageError, match="no layout for these GPUs has 2 nodes") as caught:
        of_nodes(layouts, 2, 0)
    assert "leave out --nodes, or name 4" == caught.value.hint
    with pytest.raises(UsageError, match="no layout for these GPUs has a node of rank 4 among 4"):
        of_nodes(layouts, 4, 4)
    with pytest.raises(UsageError, match="no layout for these GPUs has a node of rank 7"):
        of_nodes(layouts, None, 7)
