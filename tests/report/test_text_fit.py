"""How does the answer to "does it fit?" read?"""

from __future__ import annotations

from collections.abc import Callable

from kboot.plan.fit import FitAsk, fit
from kboot.profile.types import LayoutAsk, NodeClass
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


def test_the_table_without_a_question(golden: Golden) -> None:
    """Every arrangement by total memory, with what is over the weights and what the KV cache gets."""
    report = fit(FitAsk(1_561 * 10**9, LAYOUTS, CLASSES, weights_from="as published"))

    golden("fit.txt", fit_text(report, ["8x-b300: $68.08 an hour (8x B300, spot, as of 2026-11-11)"]))


def test_what_was_asked_stands_first(golden: Golden) -> None:
    """A question is answered in a table of its own, with everything else below."""
    golden("fit-asked.txt", fit_text(fit(FitAsk(1_561 * 10**9, LAYOUTS, CLASSES, gpu="B200", gpus=8, nodes=1))))
