"""Which tensors does a checkpoint hold, before one byte of them is fetched?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fakes import checkpoints
from fakes.checkpoints import MemorySource
from kboot.apply.weights import folder_model, listed_model, model_for
from kboot.demo import giant
from kboot.errors import FactMissing, SourceError
from kboot.plan.fit import FitAsk, FitReport, fit, why
from kboot.plan.memory.model import Model
from kboot.plan.memory.tensors import Part
from kboot.profile.load import load_node_classes
from kboot.profile.types import LayoutAsk, ParallelAsk
from kboot.sources.local import Local
from kboot.store.store import Store

CLASSES = load_node_classes()
GB = 10**9


def layout(gpu: str, nodes: int, data: int, tensor: int = 1, pipeline: int = 1) -> LayoutAsk:
    """Return a layout of full nodes with the longest context."""
    parallel = ParallelAsk(data=data, tensor=tensor, pipeline=pipeline, expert=True)
    args = ("--max-model-len", "1048576")
    return LayoutAsk(name=f"{8 * nodes}x-{gpu}", gpu=gpu, gpus_per_node=8, nodes=nodes, parallel=parallel, args=args)


ASKED = (layout("B300", 1, 8), layout("B200", 2, 16), layout("H200", 4, 32), layout("H100", 4, 32))
"""The published arrangements, data-parallel throughout."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,561 GB in 111 files with real headers and holes for data."""
    found = tmp_path_factory.mktemp("giant")
    giant.write(found)
    return found


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return folder_model(folder)


@pytest.fixture(scope="module")
def report(model: Model) -> FitReport:
    return fit(FitAsk(model.stored_bytes, ASKED, CLASSES, model))


def test_it_is_as_large_as_the_real_one_and_small_on_disk(folder: Path) -> None:
    """1,561 GB apparent in 111 files; the disk holds the headers and the index, 0.01 % of it."""
    files = sorted(folder.glob("*.safetensors"))
    stats = [os.stat(file) for file in folder.iterdir()]

    assert 111 == len(files)
    assert 1561 == round(sum(file.stat().st_size for file in files) / GB)
    assert sum(stat.st_blocks * 512 for stat in stats) < 200 << 20


def test_the_sum_of_the_parts_is_the_published_one(model: Model) -> None:
    """Kimi K3 publishes 1,560.94 GB; its routed experts are 93 % of them."""
    assert 1560.9 == pytest.approx(model.stored_bytes / GB, abs=0.1)
    assert 0.93 == pytest.approx(model.stored[Part.EXPERTS] / model.stored_bytes, abs=0.005)
    assert [92 * 896, 3] == [model.stored[Part.EXPERTS] // (3 * 3584 * 3072 * 17 // 32), len(model.kinds)]
    assert {Part.ATTENTION, Part.LINEAR_ATTENTION, Part.SHARED, Part.LATENT, Part.VISION} <= set(model.stored)


@pytest.mark.parametrize(
    ("hardware", "total_gb", "over_gb", "divided"),
    [
        ("8x B300", 2304, 743, "TP8+EP"),
        ("8x B200", 1536, -25, None),
        ("16x B200 on 2 nodes", 3072, 1511, "TP8 PP2+EP"),
        ("32x H100 on 4 nodes", 2560, 999, "TP8 PP4+EP"),
        ("32x H200 on 4 nodes", 4512, 2951, "TP8 PP4+EP"),
    ],
)
def test_the_published_table_holds_for_the_hardware(
    report: FitReport, hardware: str, total_gb: int, over_gb: int, divided: str | None
) -> None:
    """Totals, what is over and whether it fits are as published, and the answer says how the model must be divided."""
    rows = [row for row in report.rows if row.hardware == hardware]
    (fitting,) = [row for row in rows if row.fits] or [None]

    assert (total_gb * GB, over_gb) == (rows[0].total_bytes, round(rows[0].over_bytes / GB))
    assert divided == (fitting.way if fitting else None)


def test_data_parallel_attention_is_the_sum_that_says_why(report: FitReport) -> None:
    """Even division gives 195 GB a B300; every data-parallel rank holds 114 GB that only experts' part of divides."""
    (row,) = [row for row in report.rows if row.layout == "8x-B300"]

    assert [195, 295] == [round(b / GB) for b in (row.even_bytes, row.weights_per_gpu_bytes)]
    assert not row.fits
    assert "8x B300, 2,304 GB: does not fit as DP8+EP, 295 GB of weights on one GPU of 288 GB" == row.verdict
    assert why(row).startswith(
        "routed experts 181 of 1,446 GB + linear attention 61.3 GB whole + shared experts 24.3 GB whole + "
    )
    assert why(row).endswith(" = 295 GB on the fullest GPU; an even part is 195 GB")


def test_on_hopper_the_experts_stay_packed(report: FitReport) -> None:
    """32x H100: 24 layers of 112 experts a GPU at 4.25 bits, a few GB left; W4A16 is said."""
    (row,) = [row for row in report.rows if row.hardware.startswith("32x H100") and row.fits]

    assert row.placed is not None
    assert 24 * 112 * 3 * 3584 * 3072 * 17 // 32 == row.placed.largest.parts[Part.EXPERTS]
    assert 5 < row.kv_per_gpu_bytes / GB < 20
    assert any("W4A16" in note for note in report.notes)


def test_the_context_that_fits_is_the_models_own(report: FitReport) -> None:
    """8x B300 as TP8: 27,648 B a token, one sequence of 1,048,576 tokens and no second one."""
    (row,) = [row for row in report.rows if row.hardware == "8x B300" and row.fits]

    assert row.placed is not None
    assert row.placed.kv is not None
    assert (27_648, 1_048_576, 1) == (
        row.placed.kv.need.token_bytes, row.placed.kv.context_tokens, row.placed.kv.sequences,
    )  # fmt: skip


def tiny() -> dict[str, bytes]:
    """Three shards with an index and a configuration."""
    files = checkpoints.make(3, 64)
    files["config.json"] = b'{"num_hidden_layers": 3}'
    return files


def test_headers_come_from_this_disk_and_from_a_source(tmp_path: Path) -> None:
    """One shard is here, two are asked for; the second time nothing is asked: a commit does not change."""
    files = tiny()
    store, wanted = Store(checkpoints.paths_in(tmp_path)), checkpoints.listing(files)
    first = sorted(path for path in files if path.endswith(".safetensors"))[0]
    checkpoints.fetch_all(store, wanted, files, [first])
    source = MemorySource()
    source.commits[checkpoints.COMMIT] = files

    found = listed_model(wanted, store, (source,))
    opened = [asked for asked in source.asked if asked.endswith(".safetensors")]
    again = listed_model(wanted, store, (source,))

    assert 3 * 64 == found.stored_bytes
    assert found == again
    assert 2 == len(opened)
    assert not any(asked.endswith(first) for asked in opened)
    assert opened == [asked for asked in source.asked if asked.endswith(".safetensors")]


@pytest.mark.parametrize("lacking", [0, 1, 2])
@pytest.mark.parametrize("there", [None, b"", b"\0" * 100])
def test_what_one_source_lacks_another_gives(tmp_path: Path, lacking: int, there: bytes | None) -> None:
    """A copy of the snapshot on this disk may be cut, empty or not whole; the Hub is asked for the rest."""
    files = tiny()
    store, wanted = Store(checkpoints.paths_in(tmp_path)), checkpoints.listing(files)
    (tmp_path / "copy").mkdir()
    for number, path in enumerate(sorted(path for path in files if path.endswith(".safetensors"))):
        data = there if number == lacking else files[path]
        if data is not None:
            (tmp_path / "copy" / path).write_bytes(data)
    source = MemorySource()
    source.commits[checkpoints.COMMIT] = files

    assert 3 * 64 == listed_model(wanted, store, (Local(str(tmp_path / "copy")), source)).stored_bytes


def test_whose_headers_are_none_is_said(tmp_path: Path) -> None:
    """Nobody else gives them: the folder is named."""
    files = tiny()
    store, wanted = Store(checkpoints.paths_in(tmp_path)), checkpoints.listing(files)
    for path in files:
        (tmp_path / path).write_bytes(b"\0" * len(files[path]))

    with pytest.raises(FactMissing, match="is no safetensors file") as caught:
        listed_model(wanted, store, (Local(str(tmp_path)),))

    assert (f"from file://{tmp_path}",) == caught.value.where


def test_what_was_kept_torn_or_foreign_is_read_again(tmp_path: Path) -> None:
    """A power cut or another listing under the same commit costs a second, never a wrong sum."""
    files = tiny()
    store, wanted = Store(checkpoints.paths_in(tmp_path)), checkpoints.listing(files)
    checkpoints.fetch_all(store, wanted, files)
    found = listed_model(wanted, store, ())
    (kept,) = (tmp_path / "state" / "tensors").iterdir()
    for text in (b"", b"{", kept.read_bytes()[:50], json.dumps({"schema": 1, "files": [], "tensors": []}).encode()):
        kept.write_bytes(text)

        assert found == listed_model(wanted, store, ())


def test_nobody_who_has_the_headers_is_said(tmp_path: Path) -> None:
    """Offline with nothing here: the error says what would help; a boot goes on by size, with a warning."""
    files = tiny()
    store, wanted = Store(checkpoints.paths_in(tmp_path)), checkpoints.listing(files)

    with pytest.raises(SourceError, match=r"3 of the headers of acme/Tiny-1B are not on this disk"):
        listed_model(wanted, store, ())
    found, (warning,) = model_for((layout("B300", 1, 8),), wanted, store, ())
    assert found is None
    assert warning.startswith("the fit is judged from the size alone")
    assert (None, ()) == model_for((LayoutAsk(name="none", gpu="none", gpus_per_node=0),), wanted, store, ())


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"config.json": b"{}"}, "no-weights"),
        ({"a.safetensors": b"PK\x03\x04" * 9}, "header-not-valid"),
        ({"a.safetensors": checkpoints.shard({"a": 4}), "config.json": b"["}, "config-not-valid"),
        ({"a.safetensors": checkpoints.shard({"a": 4}), "config.json": b"[]"}, "config-not-valid"),
        ({"a.safetensors": checkpoints.shard({"a": 4}) + b"x"}, "header-not-valid"),
        (
            {
                "a.safetensors": checkpoints.shard({"a": 4}),
                checkpoints.INDEX: b'{"weight_map": {"a": "b.safetensors"}}',
            },
            "shard-missing",
        ),
    ],
)
def test_folders_that_no_engine_could_load(tmp_path: Path, files: dict[str, bytes], code: str) -> None:
    """Each is a missing fact with its own code."""
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)

    with pytest.raises(FactMissing) as caught:
        folder_model(tmp_path)

    assert code == caught.value.code


def test_elements_are_counted_not_what_an_api_says(tmp_path: Path) -> None:
    """B070: an API that says 333,312 in all changes nothing: 7,615,616,512 BF16 elements are 15,231,233,024 bytes."""
    header = b'{"a.weight":{"dtype":"BF16","shape":[7615616512],"data_offsets":[0,15231233024]}}'
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 15231233024)

    assert 15231233024 == folder_model(tmp_path).stored_bytes


def test_a_folders_index_says_which_shards_count(tmp_path: Path) -> None:
    """A duplicate in another format beside the indexed shards is not counted."""
    (tmp_path / "a.safetensors").write_bytes(checkpoints.shard({"a": 4}))
    (tmp_path / "consolidated.safetensors").write_bytes(checkpoints.shard({"b": 4}))
    (tmp_path / checkpoints.INDEX).write_text('{"weight_map": {"a": "a.safetensors"}}')

    assert 4 == folder_model(tmp_path).stored_bytes
