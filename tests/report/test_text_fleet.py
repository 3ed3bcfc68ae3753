"""How do the nodes of a fleet read?"""

from __future__ import annotations

from typing import Any

from kboot.report.text_fleet import fleet_text


def node(rank: int, **changes: Any) -> dict[str, Any]:
    """One that has started, as `kboot fleet status --json` tells it."""
    started = {
        "stage": "started",
        "phase": "meet",
        "commit": "c0ffee" * 7,
        "answers": True,
        "why": "",
        "verdict": "agrees",
    }
    return {
        "rank": rank,
        "name": f"gpu0{rank}",
        "have_bytes": 3 * 10**9,
        "total_bytes": 3 * 10**9,
        **started,
        **changes,
    }


def test_a_node_is_a_line_and_what_is_wrong_with_it_a_sentence_below() -> None:
    """However long: the columns stay where they are."""
    silent = node(1, stage=None, phase=None, commit=None, have_bytes=None, total_bytes=None, answers=False, why=None)
    silent["verdict"] = "no answer: gpu01:7417 refuses connections"
    why = "fleet-disagrees: the nodes differ, and no engine is started so: driver: gpu03 has 570.86.15"
    failed = node(2, stage="failed", why=why, verdict=why, have_bytes=0, total_bytes=0)
    doc = {"profile": "p", "found_by": "fleet.peers", "me": 0, "nodes": [node(0), silent, failed], "differences": []}

    assert [
        "p: 3 nodes of fleet.peers; this is rank 0",
        "  rank  node   stage    commit        fetched",
        "  0     gpu00  started  c0ffeec0ffee  3.00 GB of 3.00 GB  agrees",
        "  1     gpu01  -        -                                 no answer",
        "  2     gpu02  failed   c0ffeec0ffee",
        "  no answer gpu01: gpu01:7417 refuses connections",
        "  failed gpu02: fleet-disagrees: the nodes differ, and no engine is started so:",
        "         driver: gpu03 has 570.86.15",
    ] == fleet_text(doc).splitlines()


def test_a_node_that_differs_says_in_what() -> None:
    """In its line, and every value below."""
    differs = [{"text": "driver: gpu01 has 570, the others have 580", "stops": True}]
    nodes = [node(0), node(1, verdict="differs: driver")]
    doc = {"profile": "p", "found_by": "dns", "me": None, "nodes": nodes, "differences": differs}
    lines = fleet_text(doc).splitlines()

    assert "p: 2 nodes of dns; this is none of them" == lines[0]
    assert lines[3].endswith("differs: driver")
    assert "  differs driver: gpu01 has 570, the others have 580" == lines[4]
