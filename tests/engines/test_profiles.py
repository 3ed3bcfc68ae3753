"""The exact command line of every shipped profile, on every node class, of the first node and the last."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import b300
import pytest

from kboot.engines import engine
from kboot.engines.types import Launch
from kboot.host.paths import Paths
from kboot.profile.load import load_profile
from kboot.profile.resources import shipped_profiles
from kboot.profile.types import LayoutAsk, Profile

GOLDEN = Path(__file__).parent / "golden" / "profiles"
NOWHERE = Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c"))
SHIPPED = sorted(path.stem for path in (shipped_profiles() / "models").glob("*.toml"))


def launch(profile: Profile, layout: LayoutAsk, rank: int) -> Launch:
    """Launch one node of a layout; the node's CPUs are those of the literal machine."""
    workers = max(1, layout.gpus_per_node)
    ask = replace(
        b300.launch_ask(layout, b300.placement(workers), rank),
        model_path=f"/var/lib/kboot/models/{profile.name}",
        head_address="node0.example.net" if layout.nodes > 1 else "127.0.0.1",
    )
    return engine(layout.engine).launch(b300.facts(layout.engine), profile, ask)


def lines(profile: Profile) -> list[str]:
    """Return the command line of each node that differs, and its readiness."""
    found = []
    for layout in profile.layout:
        for rank in sorted({0, layout.nodes - 1}):
            each = launch(profile, layout, rank)
            found += [
                f"# {layout.name} ({layout.gpu}), node {rank} of {layout.nodes}: "
                f"{each.health_url or 'no HTTP'}, ready in {each.ready_timeout_s} s",
                shlex.join(each.argv),
            ]
    return found


@pytest.mark.parametrize("name", SHIPPED)
def test_the_command_line_of_every_node(name: str) -> None:
    """As in the golden file of the profile (KBOOT_UPDATE_GOLDEN=1 rewrites it)."""
    text = "\n".join(lines(load_profile(name, NOWHERE))) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("KBOOT_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)

    assert golden.read_text() == text


@pytest.mark.parametrize("name", SHIPPED)
def test_nodes_of_a_layout_agree_in_all_but_their_place(name: str) -> None:
    """vLLM compares the configuration of all nodes and refuses a difference: only rank and head are a node's own."""
    own = {"--data-parallel-start-rank", "--node-rank", "--headless"}
    profile = load_profile(name, NOWHERE)
    for layout in profile.layout:
        first, last = ({f.name: f.value for f in launch(profile, layout, r).flags} for r in (0, layout.nodes - 1))

        assert {n: v for n, v in first.items() if n not in own} == {n: v for n, v in last.items() if n not in own}
        assert launch(profile, layout, 0).env == launch(profile, layout, layout.nodes - 1).env
