"""Several nodes fetch one checkpoint: the origin gives it once, and everybody has it, proven."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from fakes.fleet import Node, bytes_asked, fetch_together, fleet
from fakes.hub import FakeHub, Status
from kboot.apply.exchange_view import Patience
from kboot.events import Notice
from kboot.plan.ownership import all_pieces
from kboot.sources.fleet_auth import FleetKey

MIB = 1 << 20
SOON = Patience(late_s=0.5, preparing_s=0.5, never_s=1.0)


@cache
def contents() -> dict[str, bytes]:
    shards = {f"model-{n}.safetensors": Random(n).randbytes(6 * MIB + n) for n in range(4)}
    return {**shards, "config.json": b"{}", "empty.txt": b""}


def about_once(hub: FakeHub) -> bool:
    """Return whether the origin gave one copy; on a machine that stands still for seconds, nodes help each other."""
    return hub.bytes_of_files <= bytes_asked(hub) <= 1.25 * hub.bytes_of_files


@pytest.mark.parametrize("count", [2, 4])
def test_a_fleet_asks_its_origin_once(tmp_path: Path, count: int) -> None:
    """Every node ends with every file, and every byte was asked of the origin by one of them."""
    with FakeHub(contents()) as hub, fleet(tmp_path, count) as nodes:
        fetched = fetch_together(nodes, hub.url, contents())

        assert [[]] * count == [got.errors for got in fetched]
        assert all(contents() == {path: got.blob(path) for path in contents()} for got in fetched)
        assert about_once(hub)
        assert all([] == got.leftovers() for got in fetched)


def test_a_node_that_comes_late_asks_the_origin_for_nothing(tmp_path: Path) -> None:
    """The others have everything: the newcomer finds it there, its own pieces as well."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 3, SOON) as nodes:
        early = [nodes[0], nodes[1]]
        for node in early:
            node.begin(hub.url, contents(), [other for other in nodes if other is not node])
        assert [[], []] == [node.end().errors for node in early]
        hub.requests.clear()
        nodes[2].begin(hub.url, contents(), early)
        late = nodes[2].end()

        assert contents() == {path: late.blob(path) for path in contents()}
        assert 0 == bytes_asked(hub)
        assert all("hub" not in outcome.source for outcome in late.outcomes)


def test_a_node_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    """Its pieces are shared by the others, once nothing else is left to do."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 3, SOON) as nodes:
        nodes[2].server.close()
        for node in nodes[:2]:
            node.begin(hub.url, contents(), [other for other in nodes if other is not node])
        fetched = [node.end() for node in nodes[:2]]

        assert [[], []] == [got.errors for got in fetched]
        assert about_once(hub)


def test_a_node_alone_is_as_without_a_fleet(tmp_path: Path) -> None:
    """Nobody of the fleet answers: everything comes from the origin."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 2, SOON) as nodes:
        nodes[1].server.close()
        nodes[0].begin(hub.url, contents(), [nodes[1]])

        assert [] == nodes[0].end().errors
        assert about_once(hub)


def test_a_node_that_claims_everything_holds_nobody_up(tmp_path: Path) -> None:
    """It says that every piece is on its way to it and that bytes come, for ever: the others fetch them themselves."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 3, replace(SOON, claimed_s=1.0)) as nodes:
        liar = nodes[2].offer(contents())
        for blob_id, size_bytes in liar.sizes.items():
            liar.fetching(blob_id, all_pieces(size_bytes))
        received = itertools.count(1)
        liar.moved_bytes = lambda: next(received) << 20
        for node in nodes[:2]:
            node.begin(hub.url, contents(), [other for other in nodes if other is not node])
        fetched = [node.end() for node in nodes[:2]]

        assert [[], []] == [got.errors for got in fetched]
        assert all(contents() == {path: got.blob(path) for path in contents()} for got in fetched)


def test_a_node_with_another_key_is_named_and_not_counted_on(tmp_path: Path) -> None:
    """Neither gets anything from the other, and both say why."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 1, SOON) as (one,):
        other = Node("n1", tmp_path / "foreign", FleetKey(b"another secret, which is 32 long"), patience=SOON)
        fetched = fetch_together([one, other], hub.url, contents())
        other.server.close()

        assert [[], []] == [got.errors for got in fetched]
        assert all("peer.lost" in got.notices for got in fetched)
        assert all("peer.turned_away" in got.notices for got in fetched)
        assert 2 * hub.bytes_of_files == bytes_asked(hub)


def test_a_node_that_gives_wrong_bytes_is_found_and_named(tmp_path: Path) -> None:
    """Nobody keeps a wrong byte: what it gave of one file is compared with the origin, then it is asked no more."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 4) as nodes:
        nodes[1].lies = True
        fetched = fetch_together(nodes, hub.url, contents())
        honest = [got for number, got in enumerate(fetched) if number != 1]

        assert [[]] * 4 == [got.errors for got in fetched]
        assert all(contents() == {path: got.blob(path) for path in contents()} for got in fetched)
        said = [[e.text for e in got.events if isinstance(e, Notice) and e.event == "peer.dropped"] for got in honest]
        assert [1, 1, 1] == [len(texts) for texts in said]
        assert all(texts[0].startswith("peer n1 delivered wrong bytes of model-") for texts in said)
        # One whole copy; the liar's quarter once more for the fleet; and for each, one file compared with the origin.
        assert hub.bytes_of_files * 5 // 4 + 3 * (6 * MIB + 4) + 6 * MIB >= bytes_asked(hub)


def test_a_file_that_the_origin_has_wrong_is_nobody_elses_fault(tmp_path: Path) -> None:
    """It fails as it does without a fleet, and no node is named."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 2) as nodes:
        right = contents()["model-1.safetensors"]
        hub.files["model-1.safetensors"] = b"x" + right[1:]
        fetched = fetch_together(nodes, hub.url, contents())

        assert [["shard-hash-mismatch"]] * 2 == [got.errors for got in fetched]
        assert [] == [
            e.text for got in fetched for e in got.events if isinstance(e, Notice) and e.event == "peer.dropped"
        ]


def test_a_mirror_that_lies_to_all_nodes_is_found_out(tmp_path: Path) -> None:
    """What nodes give is what the mirror gave them: none of them is named, the mirror is, and the Hub is asked."""
    with FakeHub(contents()) as hub, FakeHub(contents()) as mirror, fleet(tmp_path, 2) as nodes:
        mirror.files["model-1.safetensors"] = b"x" + contents()["model-1.safetensors"][1:]
        boards = [node.offer(contents()) for node in nodes]
        for node, board in zip(nodes, boards, strict=True):
            others = [other for other in nodes if other is not node]
            node.begin(hub.url, contents(), others, board=board, mirror=mirror.url.replace("127.0.0.1", "localhost"))
        fetched = [node.end() for node in nodes]

    assert [[], []] == [got.errors for got in fetched]
    assert all(contents() == {path: got.blob(path) for path in contents()} for got in fetched)
    assert all("peer.dropped" not in got.notices for got in fetched)
    # Whoever has the file right first gives it to the other, which may never ask the mirror for it again.
    assert any("source.demoted" in got.notices for got in fetched)


def test_an_origin_that_refuses_is_not_needed_once_the_fleet_has_it(tmp_path: Path) -> None:
    """What one node has, all get; without anybody who has it, the origin's refusal is the error."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 3, SOON) as nodes:
        nodes[0].begin(hub.url, contents(), nodes[1:])
        assert [] == nodes[0].end().errors
        hub.every_file = Status(503)
        for node in nodes[1:]:
            node.begin(hub.url, contents(), [other for other in nodes if other is not node])

        assert [[], []] == [node.end().errors for node in nodes[1:]]


def test_an_origin_that_refuses_everybody_is_the_error(tmp_path: Path) -> None:
    """Nobody waits for bytes that nobody has."""
    with FakeHub(contents()) as hub, fleet(tmp_path, 2, SOON) as nodes:
        nodes[1].server.close()
        hub.every_file = Status(403)
        nodes[0].begin(hub.url, contents(), [nodes[1]])

        assert len(contents()) - 1 == len(nodes[0].end().errors)  # the empty one is known without asking


def test_pieces_of_an_earlier_run_are_given_out(tmp_path: Path) -> None:
    """A node that was stopped half way gives what it has, and the origin is not asked for that again."""
    with FakeHub(contents(), rate_bytes_s=2 * MIB) as hub, fleet(tmp_path, 2) as nodes:
        first = nodes[0]
        first.begin(hub.url, contents(), [])
        while not first.has_bytes(4 * MIB):
            assert not first.stop.wait(0.05)
        first.stop.set()
        got = first.end()
        kept = sum(len(got.blob(path) or b"") or got.kept_bytes(path) for path in contents())
        hub.requests.clear()
        hub.rate_bytes_s = 0
        first.stop.clear()
        fetched = fetch_together(nodes, hub.url, contents())

        assert [[], []] == [got.errors for got in fetched]
        assert 4 * MIB <= kept
        # A piece that was cut short is fetched whole by the other node.
        assert hub.bytes_of_files - kept + 8 * MIB >= bytes_asked(hub)
