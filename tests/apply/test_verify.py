import hashlib
import importlib.util
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.verify import threads_for, verify_files
from kboot.checkpoint import Listing, VerifyMode
from kboot.events import Event, FileDone, FileTrouble, Notice
from kboot.host.pagecache import resident_bytes
from kboot.plan.types import VerifyFile
from kboot.report.types import Outcome
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = fake.make(shards=3)
LISTING = fake.listing(FILES)
FIRST, SECOND, THIRD = (f"model-{n:05d}-of-00003.safetensors" for n in (1, 2, 3))


class Node:
    """A store, its events, and the verify phase on them."""

    def __init__(self, folder: Path, files: dict[str, bytes] = FILES, listing: Listing = LISTING) -> None:
        self.store = Store(fake.paths_in(folder))
        self.files, self.listing = files, listing
        self.told: list[Event] = []
        self.stop = threading.Event()

    def verify(self, mode: VerifyMode, *paths: str) -> dict[str, Outcome]:
        wanted = [f for f in self.listing.files if not paths or f.path in paths]
        actions = [VerifyFile(file, mode, "test") for file in wanted]
        outcomes = verify_files(actions, self.listing, self.store, 2, self.told.append, self.stop)
        return {action.file.path: outcome for action, outcome in zip(actions, outcomes)}

    def codes(self, mode: VerifyMode) -> dict[str, str]:
        return {path: o.error.code for path, o in self.verify(mode).items() if o.error}

    def states(self) -> dict[str, str]:
        return {f.file.path: f.state for f in self.store.local(self.listing)}

    def blob(self, path: str) -> Path:
        file = next(f for f in self.listing.files if f.path == path)
        return self.store.blob_path(self.listing.repo, file.blob_id)

    def notices(self) -> list[str]:
        return [e.event for e in self.told if isinstance(e, Notice)]


@pytest.fixture
def copied(tmp_path: Path) -> Node:
    """A whole checkpoint that another tool left here."""
    node = Node(tmp_path)
    fake.copy_in(node.store, LISTING, FILES)
    return node


@pytest.fixture
def fetched(tmp_path: Path) -> Node:
    """A whole checkpoint that kboot fetched."""
    node = Node(tmp_path)
    fake.fetch_all(node.store, LISTING, FILES)
    return node


def test_full_hashes_every_byte_and_the_ledger_knows(copied: Node) -> None:
    """What another tool left is proven once; then every file is verified, and each was said to be done."""
    outcomes = copied.verify("full")

    assert {"done"} == {o.status for o in outcomes.values()}
    assert LISTING.size_bytes == sum(o.size_bytes for o in outcomes.values())
    assert {"verified"} == set(copied.states().values())
    assert {f.path for f in LISTING.files} == {e.path for e in copied.told if isinstance(e, FileDone)}


def test_outcomes_stand_in_the_order_of_the_actions(copied: Node) -> None:
    """Large files are hashed first, and reported where they were asked for."""
    assert [f"verify {f.path} (full)" for f in LISTING.files] == [o.title for o in copied.verify("full").values()]


def test_a_blob_whose_hash_is_not_its_name_fails(copied: Node) -> None:
    """B009: sizes right, one byte wrong; the file is named with both hashes and is damaged until fetched again."""
    content = FILES[SECOND][:-1] + b"B"
    copied.blob(SECOND).write_bytes(content)

    failed = {path: o for path, o in copied.verify("full").items() if o.status == "failed"}

    assert [SECOND] == list(failed)
    error = failed[SECOND].error
    assert error is not None
    assert ("shard-hash-mismatch", 12) == (error.code, int(error.status))
    assert f"got    {hashlib.sha256(content).hexdigest()}" in error.where
    assert "damaged" == copied.states()[SECOND]
    assert [SECOND] == [e.path for e in copied.told if isinstance(e, FileTrouble)]


def test_a_verdict_does_not_depend_on_being_written_down(copied: Node) -> None:
    """huggingface_hub#2797: a checkpoint on a read-only mount. A wrong file is wrong, the others are right."""
    copied.blob(SECOND).write_bytes(FILES[SECOND][:-1] + b"B")
    copied.store.paths.ledger.mkdir(parents=True)

    assert {SECOND: "shard-hash-mismatch"} == copied.codes("full")
    assert 1 == copied.notices().count("ledger.not_written")
    assert {} == copied.codes("quick")


def test_a_file_once_verified_that_rots_is_found_by_the_full_pass(fetched: Node) -> None:
    """The ledger forgets what it said of it."""
    blob = fetched.blob(SECOND)
    before = blob.stat()
    blob.write_bytes(FILES[SECOND][:-1] + b"B")
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert {SECOND: "shard-hash-mismatch"} == fetched.codes("full")
    assert {SECOND: "damaged"} == {path: s for path, s in fetched.states().items() if s != "verified"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"3" * 64 + b"\nsize 141\n", "git-lfs pointer"),
        (b"<!DOCTYPE html><title>Sign in</title>", "HTML page"),
        (FILES[SECOND][:-4], "ends 4 bytes before its last tensor"),
        (b"", "is empty"),
        (b"PK\x03\x04" + bytes(60), "a torch checkpoint"),
    ],
)
@pytest.mark.parametrize("mode", ["full", "quick"])
def test_a_wrong_file_is_called_what_it_is(copied: Node, content: bytes, words: str, mode: VerifyMode) -> None:
    """B060, B062, B063, B064: pointer, login page, cut, empty or zip, said in either mode before any hash."""
    copied.blob(SECOND).write_bytes(content)

    error = copied.verify(mode)[SECOND].error

    assert error is not None
    assert words in error.message
    assert "damaged" == copied.states()[SECOND]


def test_a_file_of_the_right_size_with_a_wrong_form_fails_quickly(copied: Node) -> None:
    """Quick reads the header: a page padded to the listed size is no shard."""
    copied.blob(SECOND).write_bytes(b"<html>".ljust(len(FILES[SECOND])))

    assert {SECOND: "structure-html"} == copied.codes("quick")
    assert {SECOND: "damaged"} == {path: s for path, s in copied.states().items() if s == "damaged"}


def test_quick_never_claims_a_hash(copied: Node) -> None:
    """Files that nobody hashed stay present, and the outcome says what was not done."""
    outcomes = copied.verify("quick")

    assert {"structure fits, its bytes were not hashed"} == {o.after for o in outcomes.values()}
    assert {"present"} == set(copied.states().values())
    assert 0 == sum(o.size_bytes for o in outcomes.values())


def test_quick_on_hashed_files_changes_nothing(fetched: Node) -> None:
    """They stay verified."""
    assert {"unchanged"} == {o.status for o in fetched.verify("quick").values()}
    assert {"verified"} == set(fetched.states().values())


def test_ledger_vouches_only_for_hashed_and_unchanged_files(fetched: Node) -> None:
    """No content is read: one file touched behind the ledger's back is one that it does not vouch for."""
    assert {} == fetched.codes("ledger")

    fetched.blob(SECOND).write_bytes(FILES[SECOND])

    assert "present" == fetched.states()[SECOND]
    assert {SECOND: "not-verified"} == fetched.codes("ledger")


@pytest.mark.parametrize("mode", ["full", "quick", "ledger"])
def test_a_missing_shard_fails_in_every_mode(copied: Node, mode: VerifyMode) -> None:
    """B044, B052: one shard of the index is not on disk; the verdict does not depend on what hub thinks."""
    copied.blob(THIRD).unlink()

    assert "file-missing" == copied.codes(mode)[THIRD]
    assert (["index.shards_missing"] if mode != "ledger" else []) == copied.notices()


def test_an_empty_file_is_right_where_the_listing_says_so(tmp_path: Path) -> None:
    """B064: __init__.py has no bytes and is whole; a shard of no bytes that should have some is not."""
    files = {**FILES, "__init__.py": b""}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)
    node.blob(FIRST).write_bytes(b"")
    node.blob(SECOND).write_bytes(b"\x10" + bytes(6))

    assert {FIRST, SECOND} == set(node.codes("full"))
    assert "verified" == node.states()["__init__.py"]


def test_a_shard_that_was_published_broken_is_called_that(tmp_path: Path) -> None:
    """B068: the hash fits, the header does not parse: a writer's mistake that another download would not mend."""
    files = {"model.safetensors": fake.framed(b'{},"__metadata__":{"key":"value"}}      ', b"")}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)

    assert {"model.safetensors": "published-broken"} == node.codes("full")
    assert {"model.safetensors": "present"} == node.states()


@pytest.mark.parametrize("mode", ["full", "quick"])
def test_an_index_that_names_a_tensor_no_header_has_fails_that_shard(tmp_path: Path, mode: VerifyMode) -> None:
    """B055: mtp.fc.weight is mapped to a shard that lacks it; tensor and shard are named."""
    index = json.loads(FILES[fake.INDEX])
    index["weight_map"]["mtp.fc.weight"] = SECOND
    files = {**FILES, fake.INDEX: json.dumps(index).encode()}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)

    outcomes = node.verify(mode)

    error = outcomes[SECOND].error
    assert error is not None
    assert "mtp.fc.weight" in error.message
    assert {SECOND} == {path for path, o in outcomes.items() if o.status == "failed"}


def test_an_index_that_names_a_lost_tensor_fails_a_shard_that_was_hashed_before(tmp_path: Path) -> None:
    """B055 on a node that has fetched it: nothing is new of the shard's bytes, and yet it cannot be loaded."""
    index = json.loads(FILES[fake.INDEX])
    index["weight_map"]["mtp.fc.weight"] = SECOND
    files = {**FILES, fake.INDEX: json.dumps(index).encode()}
    node = Node(tmp_path, files, fake.listing(files))
    fake.fetch_all(node.store, node.listing, files)

    assert {SECOND: "index-does-not-fit"} == node.codes("quick")


def test_a_tensor_that_the_index_lacks_is_told(tmp_path: Path) -> None:
    """B056: engines may skip it; the file itself is what was published."""
    files = {**FILES, SECOND: fake.shard({"layer.1.weight": 8, "layer.1.bias": 8})}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)

    assert {} == node.codes("full")
    assert ["index.does_not_fit"] == node.notices()


def test_a_scale_that_the_index_lacks_is_a_warning_that_names_it(tmp_path: Path) -> None:
    """B056: the recorded checkpoint. The shard is what was published, so it is right; the tensor is told."""
    folder = Path(__file__).parents[1] / "cases" / "B056"
    expect = json.loads((folder / "case.json").read_text())["expect"]
    names = ("model-00001-of-00001.safetensors", "model.safetensors.index.json")
    files = {name: (folder / name).read_bytes() for name in names}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)

    assert {} == node.codes("full")
    assert {"verdict": "warning", "tensor": "a_scale"} == expect
    assert [True] == ["a_scale" in e.text for e in node.told if isinstance(e, Notice)]


def test_a_file_that_changes_while_it_is_hashed_is_not_believed(tmp_path: Path) -> None:
    """Another process writes to it between the first and the last byte: right bytes read are not right bytes kept."""
    files = {"model.safetensors": fake.shard({"w": 8 << 20})}
    node = Node(tmp_path, files, fake.listing(files))
    fake.copy_in(node.store, node.listing, files)
    blob = node.blob("model.safetensors")

    class Writing(threading.Event):
        def is_set(self) -> bool:
            os.utime(blob)
            return False

    node.stop = Writing()
    action = VerifyFile(node.listing.files[0], "full", "test")
    (outcome,) = verify_files([action], node.listing, node.store, 1, node.told.append, node.stop)

    assert outcome.error is not None
    assert "file-changed-while-read" == outcome.error.code
    assert "present" == node.states()["model.safetensors"]


def test_once_stopped_nothing_more_is_read(copied: Node) -> None:
    """Files not begun are skipped, and no ledger says otherwise."""
    copied.stop.set()

    assert {"skipped"} == {o.status for o in copied.verify("full").values()}
    assert {"present"} == set(copied.states().values())


def test_a_file_that_was_being_read_when_kboot_was_stopped_is_in_no_trouble(copied: Node) -> None:
    """It is left as an interruption, and nobody is told that something is wrong with it."""

    class Reading(threading.Event):
        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 1

    action = VerifyFile(LISTING.files[0], "full", "test")
    (outcome,) = verify_files([action], LISTING, copied.store, 1, copied.told.append, Reading())

    assert outcome.error is not None
    assert "interrupted" == outcome.error.code
    assert [] == [event for event in copied.told if isinstance(event, FileTrouble)]


def test_a_file_that_is_not_of_the_listing_is_not_proven(copied: Node) -> None:
    """An action of another commit fails instead of passing silently."""
    action = VerifyFile(replace(LISTING.files[0], path="other.json"), "full", "test")

    (outcome,) = verify_files([action], LISTING, copied.store, 1, copied.told.append, copied.stop)

    assert "failed" == outcome.status


def test_the_full_pass_leaves_the_files_in_the_page_cache(copied: Node) -> None:
    """One pass verifies and warms."""
    copied.verify("full")

    assert LISTING.size_bytes == sum(resident_bytes(copied.blob(f.path)) or 0 for f in LISTING.files)


@pytest.mark.parametrize(("cpus", "warm", "cold"), [(1, 1, 8), (2, 2, 8), (12, 12, 24), (224, 32, 32)])
def test_more_files_are_read_at_once_from_the_disk_than_from_memory(
    cpus: int, warm: int, cold: int, copied: Node
) -> None:
    """In memory only CPUs work; on the disk one file waits while another is hashed."""
    actions = [VerifyFile(f, "full", "test") for f in LISTING.files]
    quick = [VerifyFile(f, "quick", "test") for f in LISTING.files]

    assert warm == threads_for(actions, LISTING, copied.store, cpus)
    evict(copied)
    assert cold == threads_for(actions, LISTING, copied.store, cpus)
    assert warm == threads_for(quick, LISTING, copied.store, cpus)


def test_files_that_are_here_in_part_are_looked_for_where_their_bytes_are(copied: Node) -> None:
    """A node that keeps the parts of its own ranks has them in memory as another has whole files."""
    for file in LISTING.files:
        part = copied.store.shares.data_path(LISTING.repo, file.blob_id)
        part.parent.mkdir(parents=True, exist_ok=True)
        copied.blob(file.path).rename(part)

    assert 2 == threads_for([VerifyFile(f, "full", "test") for f in LISTING.files], LISTING, copied.store, 2)


def test_a_shard_that_is_gone_is_no_reason_to_wait(copied: Node) -> None:
    """What is not there has no bytes in memory; its own verdict says so."""
    for file in LISTING.files:
        copied.blob(file.path).unlink()

    assert 8 == threads_for([VerifyFile(f, "full", "test") for f in LISTING.files], LISTING, copied.store, 2)


def evict(node: Node) -> None:
    for file in LISTING.files:
        fd = os.open(node.blob(file.path), os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    if any(resident_bytes(node.blob(f.path)) for f in LISTING.files):
        pytest.skip("this file system keeps its files in memory")
