"""What a plan warns of in the listing."""

from __future__ import annotations

import literals
import pytest

from kboot.plan.make import differs_from_published


@pytest.mark.parametrize(
    ("names", "warned"),
    [
        (("model-00001-of-00003", "model-00003-of-00003"), "no model-00002-of-00003.safetensors: was all of it"),
        (("model-00001-of-00004",), "no model-00002-of-00004.safetensors and 2 more: was"),
        (("model-00000-of-00002", "model-00001-of-00002"), ""),
        (("model-00000-of-00002", "model-00001-of-00002", "model-00002-of-00002"), ""),
        (("model-00001-of-00001", "extra"), ""),
    ],
)
def test_shards_that_others_numbers_promise_are_missed_where_no_index_says(names: tuple[str, ...], warned: str) -> None:
    """An upload that broke off leaves neither; numbers are no more than a hint, and may begin at 0 (gpt-oss)."""
    shards = literals.checkpoint(*((f"{name}.safetensors", "verified", 100) for name in names))
    indexed = literals.checkpoint(
        ("model.safetensors.index.json", "verified", 100),
        *((f"{name}.safetensors", "verified", 100) for name in names),
    )

    assert warned in "".join(differs_from_published(shards, literals.profile()))
    assert bool(warned) == bool(differs_from_published(shards, literals.profile()))
    assert () == differs_from_published(indexed, literals.profile())
