"""The comparison on a GPU node: its checkpoint, its arithmetic, its documents; all of it with the demo engine.

No time is judged here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

HERE = Path(__file__).parents[2]
sys.path.insert(0, str(HERE / "benchmarks/gpu"))

from gpubench import document, draw, model, node, shown, stages, ways  # noqa: E402

from booting import free_port  # noqa: E402


def boot(way: str, ready_s: float | None, **more: Any) -> dict[str, Any]:
    """One boot as compare.py writes it down."""
    phases = {
        "distributed init": {"start_s": 10.0, "end_s": 11.0, "seconds": 1.0},
        "load model": {"start_s": 12.0, "end_s": 20.0, "seconds": 8.0},
        "read weights": {"start_s": 12.5, "end_s": 18.0, "seconds": 5.5},
        "compile": {"start_s": 21.0, "end_s": 30.0, "seconds": 9.0},
        "profiling run": {"start_s": 30.0, "end_s": 34.0, "seconds": 4.0},
        "start server": {"start_s": 39.0, "end_s": None, "seconds": None},
    }
    seen = {"way": way, "means": way, "ready_s": ready_s, "engine_started_s": 0.0, "phases": phases}
    return seen | {"kboot_phases": [], "cpu_s_of_all": 100.0} | more


def test_the_checkpoint_is_the_one_of_the_recorded_boots() -> None:
    """48 layers of 128 experts are 37,009 tensors and 36.5 GiB in 111 shards of about one size."""
    groups = model.split(tuple(model.tensors(model.Shape())), 111)
    sizes = [sum(t.size_bytes for t in group) for group in groups]

    assert (37009, 111, 36.5) == (sum(map(len, groups)), len(groups), round(sum(sizes) / 2**30, 1))
    assert max(sizes) < 2 * min(sizes)


def test_stages_follow_one_another_from_start_to_ready() -> None:
    """Each stage ends where the next begins; what kboot does before the engine is a stage of its own."""
    found = stages.stages(boot("kboot-again", 41.0, engine_started_s=4.0))

    assert {
        "kboot": 4.0,
        "interpreters": 6.0,
        "distributed init": 2.0,
        "load model": 8.0,
        "compile": 10.0,
        "profiling run": 4.0,
        "warm-up and graphs": 5.0,
        "start server": 2.0,
    } == found


@given(
    ready_s=st.floats(0.1, 500),
    ends=st.lists(st.floats(0, 600) | st.none(), min_size=6, max_size=6),
)
def test_stages_sum_to_the_time_to_ready(ready_s: float, ends: list[float | None]) -> None:
    """Whatever a log shows, in whatever order: no stage is negative and their sum is the whole."""
    names = ("distributed init", "load model", "compile", "profiling run", "start server")
    phases = {
        n: {"start_s": e, "end_s": e, "seconds": None} for n, e in zip(names, ends, strict=False) if e is not None
    }
    found = stages.stages({"ready_s": ready_s, "engine_started_s": ends[-1], "phases": phases})

    assert abs(ready_s - sum(found.values())) < 0.1
    assert min(found.values()) >= 0


def test_a_row_is_the_boot_in_the_middle() -> None:
    """Of three boots of a way the second fastest is shown; one that never was ready is left out, and so is its way."""
    found = stages.rows(
        {"boots": [boot("b", 60.0), boot("a", 41.0), boot("b", 45.0), boot("b", 50.0), boot("c", None)]}, ("a",)
    )

    assert [("a", (41.0,), 41.0), ("b", (60.0, 45.0, 50.0), 50.0)] == [(r.way, r.each_s, r.ready_s) for r in found]


def test_a_document_may_tell_boots_of_one_way_apart() -> None:
    """A second boot and a later one are rows of their own, where their way stands."""
    boots = [boot("z", 1.0), boot("b", 60.0, row="b (2nd)"), boot("a", 41.0), boot("b", 45.0, row="b (4th)")]

    assert ["a", "b (2nd)", "b (4th)", "z"] == [row.way for row in stages.rows({"boots": boots}, ("a", "b"))]


def test_the_picture_is_well_formed() -> None:
    """One bar for each row, with the seconds as text."""
    picture = ElementTree.fromstring(draw.bars(stages.rows({"boots": [boot("a", 41.0), boot("b", 50.0)]}), "A & B"))
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]

    assert {"A & B", "a", "b", "41.0 s", "50.0 s"} <= set(texts)


def test_the_document_shows_what_the_results_say() -> None:
    """Tables and pictures of docs/performance.md are those that report.py makes of the results."""
    results = sorted((HERE / "benchmarks/results").glob("*-vllm-*.json"))
    pictures = {
        "2026-11-30-h200x2-vllm-0.26.0.json": "performance-h200x2.svg",
        "2026-12-01-h200-vllm-0.26.0.json": "performance-h200.svg",
    }
    text = (HERE / "docs/performance.md").read_text()

    assert pictures.keys() < {path.name for path in results}
    for path in results:
        assert text == shown.written_into(text, path.name, stages.table(shown.read_rows(path)))
    for name, picture in pictures.items():
        path = HERE / "benchmarks/results" / name
        assert draw.bars(shown.read_rows(path), shown.heading(path)) == (HERE / "docs" / picture).read_text()


def test_results_do_not_name_the_machine(tmp_path: Path) -> None:
    """UUIDs of GPUs, addresses and folders are replaced, loopback stays."""
    setup = ways.Setup(
        "demo", Path("/x/bin/python3"), Path("/y/bin/kboot"), tmp_path / "m", tmp_path, "H200", 2, (), {}, {}
    )
    text = f"{tmp_path}/m/a {tmp_path}/log GPU-01234567-89ab-cdef-0123-456789abcdef 10.1.2.3 127.0.0.1 /y/bin/kboot"

    assert "/models/synthetic-moe/a /bench/log GPU-… 192.0.2.1 127.0.0.1 /opt/kboot/bin/kboot" == document.scrub(
        text, setup
    )


def test_bytecode_of_a_boot_is_put_aside_and_comes_back(tmp_path: Path) -> None:
    """The image's compiled files stay where they are, whatever is done to those that a boot has made."""
    folder = tmp_path / "site/p/__pycache__"
    folder.mkdir(parents=True)
    (folder / "old.pyc").touch()
    kept = node.Bytecode([tmp_path / "site", tmp_path / "site/p"], tmp_path / "memory.json")
    (folder / "new.pyc").touch()

    assert (1, ["new.pyc.parked", "old.pyc"]) == (kept.park(), sorted(p.name for p in folder.iterdir()))
    assert (1, ["new.pyc", "old.pyc"]) == (kept.unpark(), sorted(p.name for p in folder.iterdir()))
    assert (1, ["old.pyc"]) == (kept.remove(), sorted(p.name for p in folder.iterdir()))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_comparison_runs_with_the_demo_engine(tmp_path: Path) -> None:
    """Every way gets ready, kboot fetches in its first boot only, and each worker has its plan beside what it got."""
    from kboot.demo.checkpoint import make

    checkpoint = make(tmp_path / "data", 3, 0.5)
    options = ["--engine", "demo", "--model", str(checkpoint.folder), "--port", str(free_port()), "--serve-s", "0.5"]
    options += ["--ways", "stock-first,kboot-first,kboot-again", "--limit-s", "240", "--until-s", "800"]
    options += ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, str(HERE / "benchmarks/gpu/compare.py"), *options], capture_output=True, text=True, timeout=850
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/results.json").read_text())
    boots = {b["way"]: b for b in found["boots"]}
    fetched = {way: [s["name"] for s in b["kboot_phases"] if s["name"] == "fetch"] for way, b in boots.items()}

    assert {"stock-first": [], "kboot-first": ["fetch"], "kboot-again": []} == fetched
    assert [0, 0, 0] == [b["stopped"]["left_running"] for b in found["boots"]]
    assert [w["cpus"] for w in boots["kboot-again"]["workers"]] == [
        w["planned"]["cpus"] for w in boots["kboot-again"]["workers"]
    ]
    assert str(tmp_path) not in json.dumps(found)
