"""Doctor's questions to sources and to the vendor's programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.hub import COMMIT, REPO, FakeHub, Status
from kboot.checks.types import MODES
from kboot.errors import SourceError
from kboot.events import Event
from kboot.facts.asked_types import AllReduce, DiagTest
from kboot.facts.collect import collect
from kboot.facts.types import Gpu, NodeFacts
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.host.recorded import RecordedHost
from kboot.inquiry import Inquiry
from kboot.outreach import REACHES, Reach, ask_rate_limit, ask_sources, reach_out
from kboot.profile.types import CheckpointAsk, LayoutAsk, Profile

FILES = {"config.json": b"{}", "model-1.safetensors": b"x" * 5000}
PROFILE = Profile(
    name="model",
    schema=1,
    checkpoint=CheckpointAsk(repo=REPO, revision="main"),
    layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),),
)
NCCL_ROW = "2147483648 536870912 float sum -1 7878.3 272.58 477.02 0 7851.9 273.50 478.62 0"
DIAG = {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "software", "results": [{"status": "Pass"}]}]}]}}
DEEP = frozenset({"gpu.dcgm", "nvlink.allreduce", "net.source_reach", "net.ratelimit"})


def quiet(_: Event) -> None:
    """Emit to nobody."""


class LoneHost(RealHost):
    """This machine with another environment: HF_ENDPOINT leads to a fake."""

    def __init__(self, endpoint: str) -> None:
        super().__init__()
        self.endpoint = endpoint

    def environ(self) -> Mapping[str, str]:
        """Return the endpoint alone."""
        return {"HF_ENDPOINT": self.endpoint, "NO_PROXY": "*"}


def recorded(root: Path, programs: Mapping[str, str]) -> RecordedHost:
    """Write a machine that answers these command lines."""
    document = {line: {"status": 0, "text": text} for line, text in programs.items()}
    (root / "programs.json").write_text(json.dumps(document))
    return RecordedHost(root)


def two_gpus(host: Any, tmp_path: Path, **changes: Any) -> NodeFacts:
    """Return facts with two free GPUs."""
    facts = collect(host, Paths(tmp_path, tmp_path, tmp_path))
    gpu = Gpu(0, "NVIDIA H200", "GPU-0", "0000:01:00.0", 1, 0, (9, 0), 0, None, False, False, ())
    gpus = (replace(gpu, **changes), replace(gpu, index=1, bus_id="0000:02:00.0"))
    return replace(facts, gaps=(), gpu=replace(facts.gpu, gpus=gpus))


def asked(host: Any, tmp_path: Path, facts: NodeFacts, reach: Reach, profile: Profile | None = None) -> NodeFacts:
    """Ask everything."""
    inquiry = Inquiry(host, Paths(tmp_path, tmp_path, tmp_path), DEEP, quiet)
    return reach_out(inquiry, facts, profile, None, "", reach)


def test_what_the_vendors_programs_print_become_facts(tmp_path: Path) -> None:
    """On a recorded machine their output stands in programs.json."""
    host = recorded(
        tmp_path,
        {
            "dcgmi diag -r 1 -j": json.dumps(DIAG),
            "all_reduce_perf -b 2147483648 -e 2147483648 -g 2 -n 10 -w 3": f"# header\n{NCCL_ROW}\n",
        },
    )
    found = asked(host, tmp_path, two_gpus(host, tmp_path), Reach(dcgm_s=9, nccl_s=9))

    assert ((DiagTest("software", "Pass"),), AllReduce(2, 2 << 30, 478.62, 0)) == (
        found.asked.diagnostics,
        found.asked.allreduce,
    )
    assert () == found.gaps


def test_gpus_at_work_are_left_alone(tmp_path: Path) -> None:
    """An all-reduce takes memory and links: it runs only where nobody works on any GPU."""
    host = recorded(tmp_path, {"all_reduce_perf -b 2147483648 -e 2147483648 -g 2 -n 10 -w 3": NCCL_ROW})

    for busy in ({"processes": (7,)}, {"mig": True}):
        assert asked(host, tmp_path, two_gpus(host, tmp_path, **busy), Reach(nccl_s=9)).asked.allreduce is None


def test_a_program_that_says_something_else_is_a_gap_and_a_missing_one_is_none(tmp_path: Path) -> None:
    """What it said is the reason; not installed is no fault."""
    host = recorded(tmp_path, {"dcgmi diag -r 1 -j": "Error: unable to establish a connection\n"})
    found = asked(host, tmp_path, two_gpus(host, tmp_path), Reach(dcgm_s=9, nccl_s=9))

    assert [("asked.diagnostics", "Error: unable to establish a connection")] == [
        (g.fact, g.reason) for g in found.gaps
    ]
    assert (None, None) == (found.asked.diagnostics, found.asked.allreduce)


def test_sources_are_asked_without_a_listing_on_this_disk(tmp_path: Path) -> None:
    """The trusted source lists the repository, and the largest file is asked for."""
    with FakeHub(FILES) as hub:
        host = LoneHost(hub.url)
        found = asked(
            host, tmp_path, replace(collect(host, Paths(tmp_path, tmp_path, tmp_path)), gaps=()), Reach(60), PROFILE
        )
        wanted = [request.path for request in hub.requests if "/resolve/" in request.path]

    assert found.asked.sources is not None
    assert [("", 5000)] == [(answer.code, answer.size_bytes) for answer in found.asked.sources]
    assert [f"/{REPO}/resolve/{COMMIT}/model-1.safetensors"] == wanted
    assert [] == [gap for gap in found.gaps if gap.fact.startswith("asked")]


def test_a_source_that_is_not_valid_is_the_childs_error(tmp_path: Path) -> None:
    """A word that is no source leaves a gap, so that the check says unknown."""
    host = LoneHost("http://127.0.0.1:1")
    profile = replace(PROFILE, checkpoint=CheckpointAsk(repo=REPO, sources=("gs://bucket",)))
    facts = replace(collect(host, Paths(tmp_path, tmp_path, tmp_path)), gaps=())
    found = asked(host, tmp_path, facts, Reach(60), profile)

    assert found.asked.sources is None
    assert {"asked.sources", "asked.rate_limit"} == {gap.fact for gap in found.gaps}


def test_a_hub_that_is_away_is_not_waited_for(tmp_path: Path) -> None:
    """Doctor asks once: no patience for rate limits or resolvers."""
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(429, {"Retry-After": "210"})] * 3
        (answer,) = ask_sources(PROFILE, None, {"HF_ENDPOINT": hub.url}, "", 60)

    assert "source-not-reachable" == answer.code
    assert "429" in answer.message


def test_the_rate_limit_is_the_operators_hubs(tmp_path: Path) -> None:
    """A mirror and a folder are not asked for one."""
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(200, {"RateLimit": '"api";r=12;t=90'})]
        limit = ask_rate_limit(PROFILE, {"HF_ENDPOINT": hub.url}, "")
    folder = replace(PROFILE, checkpoint=CheckpointAsk(repo=REPO, sources=(f"file://{tmp_path}",)))

    assert limit is not None
    assert (12, 90) == (limit.left, limit.reset_s)
    assert ask_rate_limit(folder, {}, "") is None
    with pytest.raises(SourceError):
        ask_rate_limit(PROFILE, {"HF_ENDPOINT": "http://127.0.0.1:1"}, "")


def test_quick_and_bake_use_no_network_and_no_program() -> None:
    """Each mode says what it asks; only full and deep ask sources, only deep runs the vendor's programs."""
    assert set(MODES) == set(REACHES)
    assert {"full", "deep"} == {mode for mode, reach in REACHES.items() if reach.reach_s}
    assert {"deep"} == {mode for mode, reach in REACHES.items() if reach.dcgm_s or reach.nccl_s}
