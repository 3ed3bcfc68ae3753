"""Files that are here in part: what is proven of them, after a kill too, and what is not believed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.checkpoints import COMMIT, fetch_all, listing, paths_in
from kboot.apply.publish import publish
from kboot.checkpoint import RemoteFile
from kboot.errors import ActionFailed, VerificationFailed
from kboot.pieces import PIECE_BYTES
from kboot.plan.types import PublishCheckpoint
from kboot.store.digests import Digests, document_of, make_digests, read_document
from kboot.store.shares import forget_records
from kboot.store.store import Store

PATH = "model.safetensors"
CONTENT = b"\x02\0\0\0\0\0\0\0{}" + random.Random(7).randbytes(5 * PIECE_BYTES + 90)
LISTING = listing({PATH: CONTENT})
FILE = LISTING.files[0]
REPO = LISTING.repo


def always() -> bool:
    return True


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> Digests:
    """What a node that has the file whole publishes."""
    path = tmp_path_factory.mktemp("whole") / "file"
    path.write_bytes(CONTENT)
    return make_digests(path, FILE, COMMIT, "n1")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(paths_in(tmp_path))


def piece(number: int) -> memoryview:
    return memoryview(CONTENT[number * PIECE_BYTES : (number + 1) * PIECE_BYTES])


def fill(store: Store, digests: Digests, *numbers: int) -> None:
    with store.shares.open(REPO, FILE, digests) as filling:
        for number in numbers:
            assert filling.write(number, piece(number))
        filling.finish()


def test_a_part_is_known_with_who_vouches_for_it(store: Store, digests: Digests) -> None:
    """Its state is shared, what is here are the pieces, and holes take no room."""
    fill(store, digests, 0, 5)
    local = store.look(REPO, FILE)

    assert ("shared", PIECE_BYTES + 100, "n1") == (local.state, local.have_bytes, local.told_by)
    assert ((0, PIECE_BYTES), (5 * PIECE_BYTES, len(CONTENT))) == local.loaded
    data = store.shares.data_path(REPO, FILE.blob_id)
    assert len(CONTENT) == data.stat().st_size
    assert data.stat().st_blocks * 512 < 3 * PIECE_BYTES
    assert data == store.content_path(REPO, FILE)


def test_wrong_bytes_are_not_written(store: Store, digests: Digests) -> None:
    """A piece at another place, or with a byte too many, is none."""
    with store.shares.open(REPO, FILE, digests) as filling:
        assert not filling.write(1, piece(2))
        assert not filling.write(5, memoryview(bytes(piece(5)) + b"x"))
        filling.finish()

    assert "absent" == store.look(REPO, FILE).state


def test_a_file_that_changed_counts_no_more(store: Store, digests: Digests) -> None:
    """Its identity is not the recorded one: nothing of it is believed until it is hashed again."""
    fill(store, digests, 0, 1)
    with open(store.shares.data_path(REPO, FILE.blob_id), "r+b") as file:
        file.write(b"x")
    local = store.look(REPO, FILE)
    assert "absent" == local.state
    assert "524 kB of it are here in part, which nothing proves until a boot hashes them again" == local.why

    with store.shares.open(REPO, FILE, digests) as filling:
        assert 0 == filling.pieces
        assert 0b10 == filling.prove(0b111111, always)


def test_other_digests_make_everything_new(store: Store, digests: Digests) -> None:
    """Who publishes now says otherwise: what was proven by the old ones is proven again, by the new ones."""
    fill(store, digests, 0, 1)
    others = replace(digests, digests=bytes(32) + digests.digests[32:], node="n2")

    with store.shares.open(REPO, FILE, others) as filling:
        assert 0 == filling.pieces
        assert 0b10 == filling.prove(0b11, always)


def test_what_one_node_vouched_for_is_not_believed_by_the_digests_of_another(store: Store, digests: Digests) -> None:
    """As where kboot is killed when the other digests are kept, and before anything is written by them."""
    fill(store, digests, 0, 1)
    others = replace(digests, digests=bytes(32) + digests.digests[32:], node="n2")
    with store.shares.open(REPO, FILE, others):
        pass

    assert others == store.shares.digests(REPO, FILE, COMMIT)
    with store.shares.open(REPO, FILE, others) as filling:
        assert 0 == filling.pieces
        assert 0b10 == filling.prove(0b11, always)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from fakes.checkpoints import COMMIT, paths_in
from store.test_shares import CONTENT, FILE, REPO, piece
from kboot.store.digests import make_digests
from kboot.store.store import Store
store = Store(paths_in(Path(sys.argv[2])))
whole = Path(sys.argv[2]) / "whole"
whole.write_bytes(CONTENT)
filling = store.shares.open(REPO, FILE, make_digests(whole, FILE, COMMIT, "n1"))
filling.write(0, piece(0))
filling.write(3, piece(3))
filling._blocks.write(piece(4)[:1000], 4 * len(piece(4)))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_loses_no_piece_and_proves_none(store: Store, tmp_path: Path, digests: Digests) -> None:
    """Nothing is believed at first; the digests prove the pieces that were written, and not the torn one."""
    argv = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    assert -signal.SIGKILL == subprocess.run(argv, env=env, timeout=100, check=False).returncode
    assert "absent" == store.look(REPO, FILE).state

    with store.shares.open(REPO, FILE, digests) as filling:
        assert 0b1001 == filling.prove(0b111111, always)


def test_two_processes_do_not_fill_one_file(store: Store, digests: Digests) -> None:
    """The second is told who is first."""
    with store.shares.open(REPO, FILE, digests), pytest.raises(ActionFailed, match="another process"):
        store.shares.open(REPO, FILE, digests)


def test_a_proof_that_is_stopped_says_nothing(store: Store, digests: Digests) -> None:
    """What was not looked at is neither right nor wrong."""
    fill(store, digests, 0, 1)
    with pytest.raises(ActionFailed, match="stopped"):
        store.shares.prove(LISTING, FILE, lambda: False)

    assert 2 * PIECE_BYTES == store.shares.prove(LISTING, FILE, always)
    assert "shared" == store.look(REPO, FILE).state


def test_what_the_disk_lost_is_forgotten_and_named(store: Store, digests: Digests) -> None:
    """The rest stays proven."""
    fill(store, digests, 0, 1)
    with open(store.shares.data_path(REPO, FILE.blob_id), "r+b") as file:
        file.write(b"x")
    store.shares.write_record(REPO, FILE, 0b11, digests)

    with pytest.raises(VerificationFailed, match=f"bytes 0 to {PIECE_BYTES} on this disk"):
        store.shares.prove(LISTING, FILE, always)
    assert PIECE_BYTES == store.look(REPO, FILE).have_bytes


def test_a_copy_of_a_disk_has_proven_nothing(store: Store, digests: Digests) -> None:
    """A record of another machine is none, and an image's first boot removes all; the digests prove the bytes again."""
    assert 0 == forget_records(store.paths.shares)
    fill(store, digests, 0, 1)
    path = store.shares.folder(REPO) / "records" / f"{FILE.blob_id}.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "machine": "0" * 16}))
    assert "absent" == store.look(REPO, FILE).state
    path.write_text(json.dumps(record))
    assert "shared" == store.look(REPO, FILE).state

    assert 1 == forget_records(store.paths.shares)
    assert "absent" == store.look(REPO, FILE).state
    with store.shares.open(REPO, FILE, digests) as filling:
        assert 0b11 == filling.prove(0b111111, always)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of another user's")
def test_what_another_user_wrote_proves_nothing(store: Store, digests: Digests) -> None:
    """A record of theirs is none, whatever it says."""
    fill(store, digests, 0)
    os.chown(store.shares.folder(REPO) / "records" / f"{FILE.blob_id}.json", 65534, 65534)

    assert "absent" == store.look(REPO, FILE).state


def test_a_whole_file_comes_first(store: Store, digests: Digests) -> None:
    """Where it is proven by its own hash, a part of it is nothing any more."""
    fill(store, digests, 0)
    fetch_all(store, LISTING, {PATH: CONTENT})

    assert "verified" == store.look(REPO, FILE).state
    assert store.blob_path(REPO, FILE.blob_id) == store.content_path(REPO, FILE)
    store.shares.forget(REPO, FILE.blob_id)
    assert not store.shares.data_path(REPO, FILE.blob_id).exists()


def test_a_part_that_a_kill_left_beside_the_whole_file_is_removed(store: Store, digests: Digests) -> None:
    """The serving path had left it and the process was killed before it was removed: it is published once more."""
    fill(store, digests, 0)
    fetch_all(store, LISTING, {PATH: CONTENT})
    action = PublishCheckpoint(LISTING, str(store.paths.models / "m"), "asked")
    assert None is publish(action, store, [].append).error
    assert store.is_published(LISTING, Path(action.model_path))
    fill(store, digests, 0)

    assert not store.is_published(LISTING, Path(action.model_path))
    assert "done" == publish(action, store, [].append).status
    assert not store.shares.data_path(REPO, FILE.blob_id).exists()
    assert "unchanged" == publish(action, store, [].append).status


def test_digests_are_those_of_the_pieces(digests: Digests) -> None:
    """One for each, the short last one too; a document gives them back."""
    assert 6 * 32 == len(digests.digests)
    assert digests.fits(5, piece(5))
    assert not digests.fits(4, piece(5))
    assert digests == read_document(document_of(digests), FILE, COMMIT)
    assert "n7" == read_document(document_of(digests), FILE, COMMIT, "n7").node


CHANGES: list[tuple[str, Callable[[object], object]]] = [
    ("sha256", lambda _: "0" * 64),
    ("size_bytes", lambda size: int(str(size)) + 1),
    ("commit", lambda _: "d" * 40),
    ("piece_bytes", lambda _: 1),
    ("schema", lambda _: 2),
    ("digests", lambda text: str(text)[64:]),
    ("digests", lambda _: "no hex"),
    ("digests", lambda _: 7),
]


@pytest.mark.parametrize(("name", "change"), CHANGES, ids=lambda value: str(value)[:12])
def test_digests_of_another_file_are_refused(digests: Digests, name: str, change: Callable[[object], object]) -> None:
    """They are bound to hash, size and commit of one file."""
    document = document_of(digests)
    document[name] = change(document[name])

    with pytest.raises(ValueError, match=r"wanted|it has|fromhex"):
        read_document(document, FILE, COMMIT)


def test_a_file_that_is_not_as_long_as_listed_has_no_digests(tmp_path: Path) -> None:
    """Whoever asked for its proof before was told something else."""
    path = tmp_path / "short"
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(VerificationFailed, match="changed"):
        make_digests(path, FILE, COMMIT, "n1")
    with pytest.raises(ActionFailed, match="stopped"):
        make_digests(path, FILE, COMMIT, "n1", lambda _: False)


def test_a_record_of_something_else_is_none(store: Store, digests: Digests) -> None:
    """Another size, no JSON, or nothing at all."""
    fill(store, digests, 0)
    other = RemoteFile(FILE.path, FILE.size_bytes + 1, FILE.blob_id, FILE.sha256)
    assert None is store.shares.record(REPO, other)
    (store.shares.folder(REPO) / "records" / f"{FILE.blob_id}.json").write_text("{")
    assert None is store.shares.record(REPO, FILE)
    assert None is store.shares.record("no/such", FILE)
