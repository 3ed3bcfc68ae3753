"""Nodes that fetch what their ranks load: what each has then, what proves it, and what becomes of it later."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.fleet import bytes_asked
from fakes.hub import FakeHub
from fakes.sharing import MIB, Node, actions_of, boot_together, moe, sharing_nodes
from kboot.apply.run import Ran
from kboot.pieces import runs_of
from kboot.plan.shares import needed_pieces
from kboot.report.claim import verify_claim

pytestmark = pytest.mark.timeout(240)  # a busy machine

FILES = moe()
SHARDS = [path for path in FILES if path.endswith(".safetensors")]
SIZE = sum(len(FILES[path]) for path in SHARDS)


def errors(ran: Ran) -> list[str]:
    return [outcome.error.code for outcome in ran.outcomes if outcome.error is not None]


def assert_served(node: Node) -> None:
    """What the ranks of a node read through its serving path is what the commit has."""
    mine = frozenset({2 * node.rank, 2 * node.rank + 1})
    for path, content in FILES.items():
        found = node.share_of(path)
        assert len(content) == len(found)
        if path in SHARDS:
            length = int.from_bytes(content[:8], "little")
            pieces = needed_pieces(content[8 : 8 + length], len(content) - 8 - length, mine)
            assert all(content[a:b] == found[a:b] for a, b in runs_of(pieces, len(content))), path
        else:
            assert content == found


def test_four_nodes_fetch_every_file_once_and_a_part_of_the_others(tmp_path: Path) -> None:
    """The origin gives one copy and the headers, each node has one shard whole, and nothing is left to do then."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        ends = boot_together(nodes)

        assert ["done"] * 4 == [ran.status for ran in ends.values()], [errors(ran) for ran in ends.values()]
        whole = {node.name: [f.file.path for f in node.facts().files if f.state == "verified"] for node in nodes}
        assert [1] * 4 == [len(set(paths) & set(SHARDS)) for paths in whole.values()]
        assert set(SHARDS) == {path for paths in whole.values() for path in paths} & set(SHARDS)
        headers = 4 * 4 * MIB  # each node reads a little of each file to know its tensors
        assert bytes_asked(hub) < SIZE + headers + 4 * MIB
        for node in nodes:
            assert_served(node)
            names = [other.name for other in nodes]
            assert [] == actions_of(node.phases(node.divided(names).checkpoint))
            assert "published, not by the file's own hash" in verify_claim(node.facts(), 0.0)
            parts = [node.store.content_path(node.listing.repo, f.file) for f in node.facts().files]
            taken = sum(path.stat().st_blocks * 512 for path in parts)
            assert taken < SIZE * 6 // 10


def test_nothing_of_a_part_lies_below_the_hub_folder(tmp_path: Path) -> None:
    """Every other program takes a file under its name there for a whole one."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        boot_together(nodes)
        node = nodes[1]
        blobs = {path.name for path in node.store.folder(node.listing.repo).blobs.iterdir()}
        shared = [f for f in node.facts().files if f.state == "shared"]

        assert 3 == len(shared)
        assert set() == blobs & {f.file.blob_id for f in shared}
        assert not node.store.folder(node.listing.repo).snapshot(node.listing.commit).exists()
        assert node.store.is_published(node.listing, node.model_path)


def test_whole_files_are_fetched_later_on_top_of_what_is_here(tmp_path: Path) -> None:
    """Only what is missing moves; then each file's own hash proves it, and nothing is here in part."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        boot_together(nodes)
        node = nodes[2]
        had = sum(f.have_bytes for f in node.facts().files)
        hub.requests.clear()
        ran = node.boot_whole()

        assert [] == errors(ran)
        assert bytes_asked(hub) == sum(map(len, FILES.values())) - had
        assert all(f.state == "verified" for f in node.facts().files)
        assert all(FILES[path] == node.share_of(path) for path in FILES)
        assert [] == list((node.store.shares.folder(node.listing.repo) / "pieces").iterdir())


def test_a_node_that_gives_wrong_bytes_is_named_and_done_without(tmp_path: Path) -> None:
    """They are not what its own digests say; its file comes whole from the origin."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES, 2) as nodes:
        nodes[1].lies = True
        files = {path: FILES[path] for path in FILES}
        ends = boot_together(nodes)

        assert [] == errors(ends["n0"])
        assert any("peer n1 delivered wrong bytes" in text for text in nodes[0].said("peer-wrong-bytes"))
        states = {f.file.path: f.state for f in nodes[0].facts().files}
        assert {"verified"} == set(states.values())
        assert all(files[path] == nodes[0].share_of(path) for path in files)


def test_digests_that_contradict_each_other_prove_nothing(tmp_path: Path) -> None:
    """Two nodes have the file whole and say different things of it: nobody is believed."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES, 3) as nodes:
        liar, honest, late = nodes[0], nodes[1], nodes[2]
        liar.contrary = True
        liar.boot_whole()
        honest.boot_whole()
        for node in (liar, honest):
            node.boot([other for other in nodes if other is not node])
            assert node.publisher is not None
            node.publisher.publish(node.listing.files)
        wait_for_published([liar, honest])
        ran = late.boot([liar, honest])

        assert [] == errors(ran)
        assert late.said("digests.contradict")
        assert {"verified"} == {f.state for f in late.facts().files}


def wait_for_published(nodes: list[Node]) -> None:
    """Wait until these nodes publish digests of every file."""
    import time

    until = time.monotonic() + 90
    while any(len([t for t in node.pages if "/pieces/" in t]) < len(FILES) + 1 for node in nodes):
        assert time.monotonic() < until, "digests are not published"
        time.sleep(0.05)


def test_a_holder_that_never_comes_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """Its files come whole from the origin, and are proven by their own hash."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES, 2) as nodes:
        nodes[1].close()
        nodes[0].patience_s = 0.5
        ran = nodes[0].boot([nodes[1]])

        assert [] == errors(ran)
        assert nodes[0].said("share.not_published")
        assert {"verified"} == {f.state for f in nodes[0].facts().files}


def test_what_a_killed_fetch_wrote_counts_and_what_is_wrong_does_not(tmp_path: Path) -> None:
    """No record is there: each piece is proven again by the digests, and only what is missing or wrong moves."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        boot_together(nodes)
        node = nodes[3]
        shared = [f for f in node.facts().files if f.state == "shared"]
        repo = node.listing.repo
        for local in shared:
            (node.store.shares.folder(repo) / "records" / f"{local.file.blob_id}.json").unlink()
        path = node.store.shares.data_path(repo, shared[0].file.blob_id)
        with open(path, "r+b") as file:
            file.write(b"\xff" * 8)
        assert {"absent"} == {node.store.look(repo, f.file).state for f in shared}
        ran = node.boot([other for other in nodes if other is not node])

        assert [] == errors(ran)
        assert_served(node)
        moved = [o.size_bytes for o in ran.outcomes if o.title.startswith("fetch this node's part")]
        assert sorted([MIB, 0, 0]) == sorted(moved)


def test_a_flipped_bit_is_found_by_a_full_verification(tmp_path: Path) -> None:
    """Full proves what is here by the digests that were kept, and what is wrong is fetched again."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES, 2) as nodes:
        boot_together(nodes)
        node = nodes[0]
        local = next(f for f in node.facts().files if f.state == "shared")
        data = node.store.shares.data_path(node.listing.repo, local.file.blob_id)
        stat = data.stat()
        with open(data, "r+b") as file:
            file.write(b"\0" * 9)
        record = node.store.shares.folder(node.listing.repo) / "records" / f"{local.file.blob_id}.json"
        del stat
        pieces = node.store.shares.record(node.listing.repo, local.file)
        assert pieces is None, "its identity changed with the write"
        assert record.exists()

        ran = node.boot([nodes[1]])
        assert [] == errors(ran)
        assert_served(node)


def test_a_layout_that_reads_everything_fetches_whole_files(tmp_path: Path) -> None:
    """The plan says why, and nothing is divided."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        names = [node.name for node in nodes]
        divided = nodes[0].divided(names, engine="sglang")

        assert "local-experts is not used, every file is fetched whole: only vLLM" in divided.said
        assert all(f.share is None and not f.alone for f in divided.checkpoint.files)


def test_the_plan_says_how_much_a_node_fetches(tmp_path: Path) -> None:
    """One shard whole and of the others the header, attention and two of eight experts."""
    with FakeHub(FILES) as hub, sharing_nodes(tmp_path, hub.url, FILES) as nodes:
        divided = nodes[0].divided([node.name for node in nodes])

        assert "of 3 files it gets a part" in divided.said
        assert 4 + len(FILES) - len(SHARDS) == len(actions_of(nodes[0].phases(divided.checkpoint)))
        assert divided.checkpoint.disk_bytes < SIZE * 6 // 10
