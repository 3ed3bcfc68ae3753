import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kboot.demo.checkpoint import load, make


def header_of(path: Path) -> tuple[dict[str, dict[str, object]], int]:
    """Return a safetensors header and the size that it says the file has."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__")
    return header, 8 + length + max(int(t["data_offsets"][1]) for t in header.values())


def test_it_is_the_same_everywhere(tmp_path: Path) -> None:
    """Two machines make the same commit: every byte comes from the shard's name."""
    assert make(tmp_path / "a", 5, 0.1).commit == make(tmp_path / "b", 5, 0.1).commit
    assert "1b279004" == make(tmp_path / "a", 5, 0.1).commit[:8]


@pytest.mark.parametrize(("shards", "mib"), [(1, 0.1), (5, 0.1), (24, 0.5), (111, 0.1)])
def test_index_and_shards_agree(tmp_path: Path, shards: int, mib: float) -> None:
    """As many shards as asked for; every tensor of the index is in its shard and nowhere else; no byte is left over."""
    folder = make(tmp_path, shards, mib).folder
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    found = {}
    for path in sorted(folder.glob("model-*.safetensors")):
        header, size = header_of(path)
        assert path.stat().st_size == size
        found |= dict.fromkeys(header, path.name)

    assert shards == len(set(found.values()))
    assert index["weight_map"] == found


def test_most_bytes_are_routed_experts(tmp_path: Path) -> None:
    """The shape of a large MoE: what expert parallelism spreads is most of the file."""
    folder = make(tmp_path, 24, 1).folder
    sizes: dict[bool, int] = {True: 0, False: 0}
    for path in folder.glob("model-*.safetensors"):
        for name, tensor in header_of(path)[0].items():
            start, end = tensor["data_offsets"]  # type: ignore[misc]
            sizes[".experts." in name] += end - start

    assert sizes[True] > 0.75 * (sizes[True] + sizes[False])


def test_it_holds_what_nobody_should_fetch(tmp_path: Path) -> None:
    """B035, B036: a second copy under original/ and a pickle beside the shards."""
    paths = {f.path for f in make(tmp_path, 5, 0.1).files}

    assert {"original/consolidated.safetensors", "pytorch_model.bin", "LICENSE", "README.md"} <= paths


def test_a_second_call_makes_nothing(tmp_path: Path) -> None:
    """The files of the first are used as they are."""
    first = make(tmp_path, 5, 0.1)
    before = {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")}

    assert first == make(tmp_path, 5, 0.1)
    assert before == {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")}


def test_killed_while_making_it_starts_over(tmp_path: Path) -> None:
    """After kill -9 there is no half checkpoint, and the next call makes the whole one."""
    code = (
        "from pathlib import Path; from kboot.demo.checkpoint import make; import sys; make(Path(sys.argv[1]), 111, 2)"
    )
    program = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    while not list(tmp_path.glob(".making-*/files/model-00003*")) and program.poll() is None:
        os.sched_yield()
    program.send_signal(signal.SIGKILL)
    program.wait(30)

    assert [] == list(tmp_path.glob("demo-*"))
    assert load(make(tmp_path, 3, 0.1).folder.parent).commit == make(tmp_path, 3, 0.1).commit
    assert [] == list(tmp_path.glob(".making-*"))


def test_more_shards_than_the_tensors_can_fill_is_said(tmp_path: Path) -> None:
    """A shard needs a tensor."""
    with pytest.raises(ValueError, match="ask for more MiB per shard"):
        make(tmp_path, 1000, 0.001)
