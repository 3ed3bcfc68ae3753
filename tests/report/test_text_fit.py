"""How does the answer to "does it fit?" read?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kboot.plan.fit import FitAsk, fit
from kboot.plan.memory.model import Model, model_of
from kboot.plan.memory.shape import read_shape
from kboot.plan.memory.tensors import TensorGroup
from kboot.profile.types import LayoutAsk, NodeClass
from kboot.report.render_text import laid_out_for
from kboot.report.text_fit import fit_text

Golden = Callable[[str, str], None]


def node_class(gpu: str, memory_gb: int) -> NodeClass:
    """Return a class of eight GPUs."""
    return NodeClass(
        gpu=gpu,
        title=gpu,
        match=(gpu,),
        memory_bytes=memory_gb * 10**9,
        gpus_per_node=8,
        compute_capability=(10, 0),
    )


CLASSES = (node_class("B300", 288), node_class("B200", 192))
LAYOUTS = (LayoutAsk(name="8x-b300", gpu="B300", gpus_per_node=8),)


@pytest.fixture
def dense() -> Model:
    """8 GB of attention in one layer of eight heads, of 1,000 tokens at most."""
    config = {"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 128}
    attention = TensorGroup("model.layers.0.self_attn.q_proj.weight", "U8", (8000, 1000), 8 * 10**9)
    return model_of([attention], read_shape({**config, "max_position_embeddings": 1000}))


def test_the_table_without_a_question(golden: Golden) -> None:
    """Every arrangement by total memory, with what is over the weights and what the KV cache gets."""
    report = fit(FitAsk(1_561 * 10**9, LAYOUTS, CLASSES, weights_from="as published"))

    golden("fit.txt", fit_text(report, ["8x-b300: $68.08 an hour (8x B300, spot, as of 2026-11-11)"]))


def test_what_was_asked_stands_first(golden: Golden) -> None:
    """A question is answered in a table of its own, with everything else below."""
    golden("fit-asked.txt", fit_text(fit(FitAsk(1_561 * 10**9, LAYOUTS, CLASSES, gpu="B200", gpus=8, nodes=1))))


def test_a_wide_table_puts_layouts_below_their_rows_and_then_leaves_spare_out() -> None:
    """At 80 columns nothing is cut or broken by the terminal; a note explains only columns that are there."""
    layout = LayoutAsk(name="32x-b200-tensor-8-pipeline-4-data-parallel", gpu="B200", gpus_per_node=8, nodes=4)
    report = fit(FitAsk(1_561 * 10**9, (layout,), CLASSES))
    wide = fit_text(report)
    with laid_out_for(60):
        narrow = fit_text(report)

    assert "\n        32x-b200-tensor-8-pipeline-4-data-parallel\n" in wide
    assert (True, False) == ("spare" in wide, "spare" in narrow)
    assert [] == [line for line in wide.splitlines() if len(line) > 80]
    assert [] == [line for line in narrow.splitlines() if len(line) > 60]


def test_what_a_room_is_counted_for_is_said(dense: Model) -> None:
    """The same checkpoint by itself and in a layout: engine, dtype, length and what is kept back, and who says so."""
    args = ("--kv-cache-dtype", "fp8", "--max-model-len", "8k", "--gpu-memory-utilization=0.95")
    layout = LayoutAsk(name="one", gpu="B200", gpus_per_node=8, engine="tokenspeed", args=args)
    bare, asked = (
        " ".join(fit_text(fit(FitAsk(dense.stored_bytes, layouts, CLASSES[1:], dense))).split())
        for layouts in ((), (layout,))
    )

    assert (
        "counted for vllm, KV cache of dtype auto, sequences of 1,000 tokens (the model's longest); assumed, since no "
        "profile says otherwise"
    ) in bare
    assert "kept back by the engine: 15.3 GB of each B200 (--gpu-memory-utilization 0.92, the default of vLLM" in bare
    assert "counted for tokenspeed, KV cache of dtype fp8, sequences of 8,000 tokens; as in layout one" in asked
    assert "kept back by the engine: 9.6 GB of each B200 (--gpu-memory-utilization 0.95 in layout one)" in asked


def test_a_narrow_table_leaves_columns_out_until_it_fits(dense: Model) -> None:
    """What fits, how and for how much context stays; what is left out is not explained either."""
    layout = LayoutAsk(name="32x-b200", gpu="B200", gpus_per_node=8, nodes=4)
    with laid_out_for(60):
        text = fit_text(fit(FitAsk(dense.stored_bytes, (layout,), CLASSES, dense)))

    head = next(line for line in text.splitlines() if "hardware" in line)
    assert ["hardware", "divided", "KV", "cache", "context"] == head.split()
    assert "weights on each" not in text
    assert max(map(len, text.splitlines())) <= 60
