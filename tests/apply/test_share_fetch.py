"""Nodes that fetch what their ranks load: what each has then, what proves it, and what becomes of it later."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from fakes.fleet import bytes_asked
from fakes.hub import FakeHub
from fakes.sharing import DEADLINE_S, EXPERTS, MIB, Node, actions_of, boot_together, moe, sharing_nodes, wait_until
from kboot.apply.publish import publish
from kboot.apply.run import Ran
from kboot.apply.share_need import require_parts
from kboot.checkpoint import LocalFile
from kboot.errors import VerificationFailed
from kboot.pieces import PIECE_BYTES, runs_of
from kboot.plan.shares import needed_pieces
from kboot.plan.types import PublishCheckpoint
from kboot.report.claim import verify_claim

pytestmark = pytest.mark.timeout(240)  # a busy machine


def errors(ran: Ran) -> list[str]:
    return [outcome.error.code for outcome in ran.outcomes if outcome.error is not None]


def shared(node: Node) -> list[LocalFile]:
    return [f for f in node.facts().files if f.state == "shared"]


def assert_served(node: Node, nodes: int) -> None:
    """What the ranks of a node read through its serving path is what the commit has."""
    mine = frozenset(range(EXPERTS // nodes * node.rank, EXPERTS // nodes * (node.rank + 1)))
    for path, content in node.files.items():
        found = node.share_of(path)
        assert len(content) == len(found)
        if path.endswith(".safetensors"):
            length = int.from_bytes(content[:8], "little")
            pieces = needed_pieces(content[8 : 8 + length], len(content) - 8 - length, mine)
            assert all(content[a:b] == found[a:b] for a, b in runs_of(pieces, len(content))), path
        else:
            assert content == found


def test_four_nodes_fetch_every_file_once_and_a_part_of_the_others(tmp_path: Path) -> None:
    """The origin gives one copy and the headers, each node has one shard whole, and nothing is left to do then.

    Nothing of a part lies below the Hub's folder, where every other program takes a file for a whole one.
    """
    files = moe()
    shards = [path for path in files if path.endswith(".safetensors")]
    size = sum(len(files[path]) for path in shards)
    with FakeHub(files) as hub, sharing_nodes(tmp_path, hub.url, files) as nodes:
        names = [node.name for node in nodes]
        divided = nodes[0].divided(names)
        assert "of 3 files it gets a part" in divided.said
        assert 4 + len(files) - len(shards) == len(actions_of(nodes[0].phases(divided.checkpoint)))
        assert divided.checkpoint.disk_bytes < size * 6 // 10
        ends = boot_together(nodes)

        assert ["done"] * 4 == [ran.status for ran in ends.values()], [errors(ran) for ran in ends.values()]
        whole = [f.file.path for node in nodes for f in node.facts().files if f.state == "verified"]
        assert shards == sorted(set(shards) & set(whole))
        assert len(shards) == sum(path in shards for path in whole)
        assert bytes_asked(hub) < size + 12 * MIB, "two readings of headers by four nodes, a MiB at least each"
        for node in nodes:
            assert_served(node, 4)
            assert [] == actions_of(node.phases(node.divided(names).checkpoint))
            assert "published, not by the file's own hash" in verify_claim(node.facts().files, 0.0, 1.0)
            paths = [node.store.content_path(node.listing.repo, f.file) for f in node.facts().files]
            assert sum(path.stat().st_blocks * 512 for path in paths) < size * 6 // 10
            blobs = {path.name for path in node.store.folder(node.listing.repo).blobs.iterdir()}
            assert 3 == len(shared(node))
            assert set() == blobs & {f.file.blob_id for f in shared(node)}
            assert not node.store.folder(node.listing.repo).snapshot(node.listing.commit).exists()
            assert node.facts().published


def test_whole_files_are_fetched_later_on_top_of_what_is_here(tmp_path: Path) -> None:
    """Only what is missing moves; then each file's own hash proves it, and nothing is here in part."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        boot_together(nodes)
        node = nodes[1]
        had = sum(f.have_bytes for f in node.facts().files)
        hub.requests.clear()
        ran = node.boot_whole()

        assert [] == errors(ran)
        assert bytes_asked(hub) == sum(map(len, moe(2).values())) - had
        assert {"verified"} == {f.state for f in node.facts().files}
        assert all(moe(2)[path] == node.share_of(path) for path in moe(2))
        assert [] == list((node.store.shares.folder(node.listing.repo) / "pieces").iterdir())


def test_a_wrong_part_does_not_survive_the_hash_of_the_whole_file(tmp_path: Path) -> None:
    """A node that lies with its digests as well is found out then: the file is fetched anew."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        boot_together(nodes)
        node = nodes[0]
        local = shared(node)[0]
        record = node.store.shares.record(node.listing.repo, local.file)
        assert record is not None
        with open(node.store.shares.data_path(node.listing.repo, local.file.blob_id), "r+b") as file:
            file.write(b"lie")
        digests = node.store.shares.digests(node.listing.repo, local.file, node.listing.commit)
        assert digests is not None
        node.store.shares.write_record(node.listing.repo, local.file, record.pieces, digests)
        ran = node.boot_whole()

        assert [] == errors(ran)
        assert node.said("shard-hash-mismatch")
        assert all(moe(2)[path] == node.share_of(path) for path in moe(2))


def test_a_node_that_gives_wrong_bytes_is_named_and_done_without(tmp_path: Path) -> None:
    """They are not what its own digests say; its file comes whole from the origin."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        nodes[1].lies = True
        ends = boot_together(nodes)

        assert [] == errors(ends["n0"])
        assert any("peer n1 delivered wrong bytes" in text for text in nodes[0].said("peer-wrong-bytes"))
        assert {"verified"} == {f.state for f in nodes[0].facts().files}
        assert all(moe(2)[path] == nodes[0].share_of(path) for path in moe(2))


def test_a_node_that_vouches_for_what_is_no_header_is_done_without(tmp_path: Path) -> None:
    """Its bytes are what its digests say, and no safetensors file: the file comes whole, and the boot does not fail."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        nodes[1].vouches_for_lies = True
        ends = boot_together(nodes)

        assert [] == errors(ends["n0"])
        assert nodes[0].said("header-not-valid")
        assert {"verified"} == {f.state for f in nodes[0].facts().files}
        assert all(moe(2)[path] == nodes[0].share_of(path) for path in moe(2))


def test_digests_that_contradict_each_other_prove_nothing(tmp_path: Path) -> None:
    """Two nodes have the file whole and say different things of it: nobody is believed."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        late, honest = nodes
        contrary = Node("n2", 1, tmp_path / "n2", hub.url, moe(2), contrary=True)
        for node in (honest, contrary):
            node.boot_whole()
            node.publish_all()
        ran = late.boot([honest, contrary], nodes=2)
        contrary.close()

        assert [] == errors(ran)
        assert late.said("digests.contradict")
        assert {"verified"} == {f.state for f in late.facts().files}


def test_a_holder_that_never_comes_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """Its files come whole from the origin, and are proven by their own hash."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        nodes[1].close()
        nodes[0].patience_s = 0.2
        ran = nodes[0].boot([nodes[1]])

        assert [] == errors(ran)
        assert any("refuses connections" in text for text in nodes[0].said("share.not_published")), nodes[0].said()
        assert {"verified"} == {f.state for f in nodes[0].facts().files}


def test_a_node_that_gives_nothing_for_a_moment_is_asked_again(tmp_path: Path) -> None:
    """It says that it has the file, refuses it twice, as one that is started anew may, and gives it then."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        nodes[1].refusals = 2
        ends = boot_together(nodes)

        assert [] == errors(ends["n0"])
        assert 2 == len(nodes[0].said("file-not-found"))
        assert 1 == len(shared(nodes[0]))
        assert_served(nodes[0], 2)


def test_a_node_that_waits_can_be_stopped(tmp_path: Path) -> None:
    """What it has stays; the parts that it waits for are interrupted, and nothing is fetched whole for them."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        node = nodes[0]
        ends: list[Ran] = []
        thread = threading.Thread(target=lambda: ends.append(node.boot([nodes[1]])), daemon=True)
        thread.start()
        wait_until(lambda: len(moe(2)) - 1 == sum(f.state == "verified" for f in node.facts().files))
        node.stop.set()
        thread.join(DEADLINE_S)

        assert ["interrupted"] == errors(ends[0])
        assert len(moe(2)) - 1 == sum(f.state == "verified" for f in node.facts().files)


def test_a_node_that_is_waited_for_is_named_once(tmp_path: Path) -> None:
    """Which, for how many files, why, and until when; a boot that stands still without a word looks hung."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        node = nodes[0]
        nodes[1].close()
        node.patience_s = 8.0
        thread = threading.Thread(target=lambda: node.boot([nodes[1]]), daemon=True)
        thread.start()
        wait_until(lambda: bool(node.said("share.")))
        node.stop.set()
        thread.join(DEADLINE_S)

        (said,) = node.said("share.")
        assert re.fullmatch(
            r"share.waited_for: n1, which holds 1 file, has not got on for \d s \(.*\); "
            r"it is given 8 s in all, then they come whole from the origin",
            said,
        )


def test_what_a_killed_fetch_wrote_counts_and_what_is_wrong_does_not(tmp_path: Path) -> None:
    """No record is there: each piece is proven again by the digests, and only what is missing or wrong moves."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        boot_together(nodes)
        node, repo = nodes[1], nodes[1].listing.repo
        local = shared(node)[0]
        (node.store.shares.folder(repo) / "records" / f"{local.file.blob_id}.json").unlink()
        with open(node.store.shares.data_path(repo, local.file.blob_id), "r+b") as file:
            file.write(b"\xff" * 8)
        assert "absent" == node.store.look(repo, local.file).state
        ran = node.boot([nodes[0]])

        assert [] == errors(ran)
        assert_served(node, 2)
        assert [PIECE_BYTES] == [o.size_bytes for o in ran.outcomes if o.title.startswith("fetch this node's part")]


def test_a_full_verification_finds_a_flipped_bit_and_it_is_mended(tmp_path: Path) -> None:
    """Full proves what is here by the digests that were kept; a file that is wrong is fetched whole."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        boot_together(nodes)
        node, repo = nodes[0], nodes[0].listing.repo
        local = shared(node)[0]
        record = node.store.shares.record(repo, local.file)
        assert record is not None
        assert [] == errors(node.boot([nodes[1]], mode="full"))
        with open(node.store.shares.data_path(repo, local.file.blob_id), "r+b") as file:
            file.write(b"\0" * 9)
        digests = node.store.shares.digests(repo, local.file, node.listing.commit)
        assert digests is not None
        node.store.shares.write_record(repo, local.file, record.pieces, digests)  # as if the disk had done it
        ran = node.boot([nodes[1]], mode="full")

        assert [] == errors(ran)
        assert node.said("share-damaged")
        assert "verified" == node.store.look(repo, local.file).state
        assert_served(node, 2)


def test_no_hole_is_handed_to_an_engine(tmp_path: Path) -> None:
    """What is here in part is enough for the ranks that it was fetched for, and for no others."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        boot_together(nodes)
        node = nodes[0]
        mine = node.divided(["n0", "n1"]).checkpoint
        node.rank = 1
        others = node.divided(["n0", "n1"]).checkpoint

        require_parts(mine, node.facts().files, node.store)
        for wanted in (others, node.facts()):
            with pytest.raises(VerificationFailed, match="not all that this node's ranks load"):
                require_parts(wanted, node.facts().files, node.store)
        whole = PublishCheckpoint(node.listing, str(node.model_path), "asked")
        assert "not-proven" == getattr(publish(whole, node.store, node.events.append).error, "code", "")


def test_a_layout_that_reads_everything_fetches_whole_files(tmp_path: Path) -> None:
    """The plan says why, and nothing is divided."""
    with FakeHub(moe(2)) as hub, sharing_nodes(tmp_path, hub.url, moe(2), 2) as nodes:
        divided = nodes[0].divided(["n0", "n1"], engine="sglang")

        assert "local-experts is not used, every file is fetched whole: only vLLM" in divided.said
        assert all(f.share is None and not f.alone for f in divided.checkpoint.files)
