"""Does the installed engine know the flags and parsers of a command line?"""

from __future__ import annotations

from pathlib import Path

import b300
import pytest

from kboot.engines import engine
from kboot.engines.flags import known_versions, nearest_version, unknown_words
from kboot.host.paths import Paths
from kboot.profile.load import load_profile
from kboot.profile.resources import shipped_profiles
from kboot.profile.types import EngineName, LayoutAsk, ParallelAsk

NOWHERE = Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c"))
VLLM = known_versions("vllm")
SHIPPED = sorted(path.stem for path in (shipped_profiles() / "models").glob("*.toml"))


def words(*args: str, engine_name: str = "vllm", known: str = "0.33.0") -> list[tuple[str, str]]:
    """Return kind and word of what is not known."""
    return [(found.kind, found.word) for found in unknown_words(engine_name, known, args)]


def test_eight_versions_of_vllm_are_known() -> None:
    """From 0.26 to 0.33."""
    assert ("0.26.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0") == VLLM


@pytest.mark.parametrize(
    "args",
    [
        ("--tensor-parallel-size", "8", "-tp", "8", "-dp=4"),
        ("--tensor_parallel_size=8",),
        ("--tensor-parallel-si", "8"),
        ("--no-enable-prefix-caching", "--no-enable-flashinfer-autotune"),
        ("--compilation-config.mode", "3", "-cc.cudagraph_mode=NONE", "-O3", "-O.level", "3"),
        ("--limit-mm-per-prompt", '{"image": 0}', "--kv-cache-memory-bytes", "-1"),
        ("--headless", "--api-server-count", "4", "--tool-call-parser", "kimi_k3", "--reasoning-parser=kimi_k3"),
        ("--tool-parser-plugin", "/opt/mine.py", "--tool-call-parser", "mine"),
    ],
    ids=" ".join,
)
def test_what_vllm_takes_is_no_finding(args: tuple[str, ...]) -> None:
    """Every spelling its parser accepts: short, joined, shortened, negated, dotted, with underscores."""
    assert [] == words(*args)


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("--tensor-paralel-size", "8"), [("flag", "--tensor-paralel-size")]),
        (("--tensor",), []),
        (("--max",), [("flag", "--max")]),
        (("--disable-flashinfer-autotune",), [("flag", "--disable-flashinfer-autotune")]),
        (("--tool-call-parser", "kimi_k4"), [("tool parser", "kimi_k4")]),
        (("--reasoning-parser=kimi-k3",), [("reasoning parser", "kimi-k3")]),
        (("-zz", "1"), [("flag", "-zz")]),
        (("--tool-call-parser",), [("tool parser", "")]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_what_it_refuses_is_found(args: tuple[str, ...], found: list[tuple[str, str]]) -> None:
    """A misspelt flag, an ambiguous short form, a flag that a log text names but no parser has, unknown parsers."""
    assert found == words(*args)


def test_a_parser_is_known_from_its_release_on() -> None:
    """kimi_k3 came with 0.27, deepseek_v41 with 0.30; the answer names the versions and what is near."""
    args = ("--tool-call-parser", "kimi_k3")
    (found,) = unknown_words("vllm", "0.26.0", args)

    assert [v == "0.26.0" for v in VLLM] == [bool(words(*args, known=v)) for v in VLLM]
    assert "tool parser kimi_k3 (known to 0.27.1 and later; near it: kimi_k2)" == found.text
    assert ["0.26.0", "0.27.1", "0.28.0", "0.29.0"] == [
        v for v in VLLM if words("--tool-call-parser", "deepseek_v41", known=v)
    ]


@pytest.mark.parametrize(
    ("installed", "found"),
    [
        ("0.33.0", ("0.33.0", True)),
        ("0.33.0.post1+cu130", ("0.33.0", True)),
        ("0.33.2", ("0.33.0", False)),
        ("0.33.0rc2", ("0.33.0", False)),
        ("0.33.0.dev491+g462fdb097", ("0.33.0", False)),
        ("0.1.dev8666+g0e3bb543f", (None, False)),
        ("0.27.0", ("0.27.1", False)),
        ("0.40.0", (None, False)),
        (None, (None, False)),
    ],
)
def test_the_version_that_is_compared_with(installed: str | None, found: tuple[str | None, bool]) -> None:
    """A patch release is near, and so is a build between releases (vllm#49215); another minor number is not."""
    assert found == nearest_version("vllm", installed)


@pytest.mark.parametrize("known", VLLM)
def test_what_kboot_adds_is_known_to_every_version(known: str) -> None:
    """Data, tensor and pipeline parallel, on one node and on several, first rank and last."""
    for nodes, parallel in (
        (1, ParallelAsk(data=8, expert=True)),
        (4, ParallelAsk(data=32, expert=True)),
        (4, ParallelAsk(tensor=8, pipeline=4, expert=True)),
    ):
        asked = b300.layout("vllm", nodes=nodes, parallel=parallel, args=())
        for rank in (0, nodes - 1):
            launch = engine("vllm").launch(
                b300.facts("vllm"), b300.profile(asked), b300.launch_ask(asked, node_rank=rank)
            )
            assert [] == words(*(flag.name for flag in launch.flags), known=known)


@pytest.mark.parametrize("name", ["sglang", "tokenspeed"])
def test_what_kboot_adds_is_known_to_the_others(name: EngineName) -> None:
    """SGLang 0.5.23 and TokenSpeed 0.1.1."""
    asked = b300.layout(name, args=())
    launch = engine(name).launch(b300.facts(name), b300.profile(asked), b300.launch_ask(asked))
    (known,) = known_versions(name)

    assert [] == words(*(flag.name for flag in launch.flags), engine_name=name, known=known)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_are_known_to_the_newest_version(name: str) -> None:
    """Every flag and parser of every layout exists in vLLM 0.33."""
    layouts: tuple[LayoutAsk, ...] = load_profile(name, NOWHERE).layout

    assert [] == [found for a in layouts if a.engine == "vllm" for found in words(*a.args)]
