"""Weights against hardware."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.errors import ExitStatus, UsageError
from kboot.host.paths import Paths
from kboot.plan.fit import FitAsk, FitReport, FitRow, does_not_fit, fit, weight_bytes
from kboot.plan.memory.reserve import RESERVE_BYTES, RESERVES
from kboot.profile.load import load_node_classes, load_profile
from kboot.profile.types import LayoutAsk

CLASSES = load_node_classes()
K3 = load_profile("kimi-k3.1-pro", Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c")))
WEIGHTS = 1_561_000_000_000


def of_size(weights: int = WEIGHTS, layouts: tuple[LayoutAsk, ...] = K3.layout, **question: object) -> FitReport:
    """Lay out a size, without headers."""
    return fit(FitAsk(weights, layouts, CLASSES, **question))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hardware", "total_gb", "over_gb", "fits"),
    [
        ("8x B300", 2304, 743, True),
        ("8x B200", 1536, -25, False),
        ("16x B200 on 2 nodes", 3072, 1511, True),
        ("32x H100 on 4 nodes", 2560, 999, True),
        ("32x H200 on 4 nodes", 4512, 2951, True),
        ("8x H200", 1128, -433, False),
    ],
)
def test_the_published_table_comes_out(hardware: str, total_gb: int, over_gb: int, fits: bool) -> None:
    """1,561 GB on every layout and every single node: total, what is over or short, and whether it fits."""
    rows = {row.hardware: row for row in of_size().rows}
    row = rows[hardware]

    assert (total_gb * 10**9, over_gb * 10**9, fits) == (row.total_bytes, row.over_bytes, row.fits)


def test_verdicts_read_like_the_table() -> None:
    """One line says what there is and by how much it fits."""
    report = of_size()

    assert (
        "8x H100, 640 GB: does not fit, 921 GB short",
        "8x H200, 1,128 GB: does not fit, 433 GB short",
        "8x B200, 1,536 GB: does not fit, 25 GB short",
    ) == tuple(row.verdict for row in report.rows if not row.fits)
    assert "8x B300, 2,304 GB: fits, 743 GB over the weights, 700 GB for the KV cache" == report.fitting[0].verdict
    assert ["8x-b300", "32x-h100", "16x-b200", "32x-h200"] == [row.layout for row in report.fitting]
    assert report.fits


def test_what_was_asked_is_answered_alone() -> None:
    """`--gpu B200 --gpus 8 --nodes 1` does not fit, whatever else would; the error names what would."""
    report = of_size(gpu="B200", gpus=8, nodes=1)
    error = does_not_fit(report)

    assert not report.fits
    assert ExitStatus.DOES_NOT_FIT == error.status
    assert "1,561 GB of weights do not fit: 8x B200, 1,536 GB: does not fit, 25 GB short" == error.message
    assert error.hint is not None
    assert error.hint.startswith("nearest that fit: 8x B300, 2,304 GB: fits, 743 GB over")


def test_a_class_alone_asks_for_its_layouts() -> None:
    """`--gpu B200` means the profile's layout for B200: two nodes."""
    report = of_size(gpu="b200")

    assert ["16x-b200"] == [row.layout for row in report.asked]
    assert report.fits


def test_hardware_outside_the_profile_can_be_asked_for() -> None:
    """Twelve GPUs on one node are looked at although no layout has them."""
    report = of_size(gpu="B200", gpus=12)

    assert ["12x B200"] == [row.hardware for row in report.asked]
    assert report.asked[0] in report.rows


def test_a_number_of_nodes_that_was_left_free_is_said() -> None:
    """`--gpu H100 --gpus 8`: one node first, then the profile's layouts of such nodes, and a note on the difference."""
    report = of_size(gpu="H100", gpus=8)

    assert ["8x H100", "32x H100 on 4 nodes"] == [row.hardware for row in report.asked]
    assert "the number of nodes was left free" in report.notes[0]
    assert not any("left free" in note for note in of_size(gpu="H100", gpus=8, nodes=1).notes)


def test_an_unknown_class_is_a_usage_error() -> None:
    """The known ones are listed."""
    with pytest.raises(UsageError) as caught:
        of_size(layouts=(), gpu="B3000")

    assert "known: B200, B300, H100, H200" == caught.value.hint


def test_without_a_profile_one_two_and_four_nodes_are_tried() -> None:
    """A bare repository has no layouts: every class on 1, 2 and 4 full nodes."""
    report = of_size(865_000_000_000, ())

    assert 12 == len(report.rows)
    assert "8x H200" == report.fitting[0].hardware


def test_nothing_that_fits_says_so() -> None:
    """The hint does not name a layout where there is none."""
    error = does_not_fit(of_size(10**14))

    assert error.hint is not None
    assert error.hint.startswith("no layout of the profile and no single node fits")


def test_the_reserve_is_named_and_sourced() -> None:
    """Each part of the reserve has a name, a size and who measured it; together about 5 GiB a GPU."""
    assert RESERVE_BYTES == sum(r.size_bytes for r in RESERVES)
    assert all(r.name and r.source and r.size_bytes > 0 for r in RESERVES)
    assert 4.9 < RESERVE_BYTES / 2**30 < 5.0


def test_the_reserve_decides_where_the_weights_alone_would_fit() -> None:
    """A total larger than the weights is not enough: the reserve is taken from every GPU."""
    row = FitRow("", "H100", 8, 1, memory_bytes=80 * 10**9, weights_bytes=8 * 76 * 10**9)

    assert row.over_bytes > 0
    assert not row.fits
    assert "8x H100, 640 GB: does not fit, 1.3 GB short per GPU after the reserve" == row.verdict


@given(st.integers(1, 10**13), st.integers(1, 16), st.integers(1, 8), st.integers(1, 10**12))
def test_the_sum_never_gives_memory_away(weights: int, gpus: int, nodes: int, memory: int) -> None:
    """Shares cover the weights, and weights + reserve + KV never exceed what there is."""
    row = FitRow("", "X", gpus, nodes, memory, weights)

    assert row.weights_per_gpu_bytes * row.gpus >= weights
    assert not row.fits or weights + RESERVE_BYTES * row.gpus + row.kv_bytes <= row.total_bytes
    assert row.fits == (row.kv_bytes > 0)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([("a.safetensors", 5), ("b.safetensors", 6), ("x.bin", 100), ("config.json", 1)], 11),
        ([("pytorch_model.bin", 7), ("config.json", 1)], 7),
        ([("config.json", 1)], None),
        ([], None),
    ],
)
def test_weight_files_are_counted_once(files: list[tuple[str, int]], expected: int | None) -> None:
    """Safetensors where there are any, other formats otherwise, never both."""
    assert expected == weight_bytes(files)
