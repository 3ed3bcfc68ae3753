"""Several nodes fetch one checkpoint: the origin gives it once, and everybody has it, proven."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fakes.fleet import bytes_asked, fetch_together, fleet
from fakes.hub import FakeHub

MIB = 1 << 20
FILES = {f"model-{n}.safetensors": Random(n).randbytes(6 * MIB + n) for n in range(4)} | {"config.json": b"{}"}


@pytest.mark.parametrize("count", [2, 4])
def test_a_fleet_asks_its_origin_once(tmp_path: Path, count: int) -> None:
    """Every node ends with every file, and every byte was asked of the origin by one of them."""
    with FakeHub(FILES) as hub, fleet(tmp_path, count) as nodes:
        fetched = fetch_together(nodes, hub.url, FILES)

        assert [[]] * count == [got.errors for got in fetched]
        assert all(FILES == {path: got.blob(path) for path in FILES} for got in fetched)
        assert hub.bytes_of_files == bytes_asked(hub)
        assert all([] == got.leftovers() for got in fetched)
