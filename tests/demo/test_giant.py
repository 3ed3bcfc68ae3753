"""A checkpoint of true size without its data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kboot.demo.giant import Sizes, entries, write
from kboot.store.structure import Header, parse_header, parse_index


def test_shards_are_real_safetensors_with_an_index(tmp_path: Path) -> None:
    """Headers tile their files, and the index has every tensor where it is."""
    sizes = Sizes(layers=2, experts=3, vocabulary=64, hidden=64, vision_layers=1)
    size_bytes = write(tmp_path, 4, sizes)
    index = parse_index((tmp_path / "model.safetensors.index.json").read_bytes())
    found = {}
    for file in sorted(tmp_path.glob("*.safetensors")):
        header = parse_header(file.read_bytes(), file.stat().st_size)
        assert isinstance(header, Header)
        found |= dict.fromkeys(header.tensors, file.name)

    assert index.shard_of == found
    assert 4 == len(index.shards)
    assert size_bytes == sum(entry.size_bytes for entry in entries(sizes))


def test_the_program_says_what_it_wrote(tmp_path: Path) -> None:
    """`python -m kboot.demo.giant --help` names the folder it wants."""
    ran = subprocess.run(
        [sys.executable, "-m", "kboot.demo.giant", "--help"], capture_output=True, text=True, timeout=60, check=True
    )

    assert "--shards" in ran.stdout
