import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.errors import KbootError
from kboot.events import Event, Notice
from kboot.store.store import Store
from kboot.store.trees import encode_tree

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = fake.make(shards=2)
LISTING = fake.listing(FILES)
SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def store(tmp_path: Path, told: list[Event]) -> Store:
    return Store(fake.paths_in(tmp_path), told.append)


def again(store: Store) -> Store:
    """The store as the next process finds it."""
    return Store(store.paths)


def states(store: Store, listing=LISTING) -> dict[str, str]:
    return {local.file.path: local.state for local in store.local(listing)}


def blob_of(store: Store, path: str) -> Path:
    return next(store.blob_path(LISTING.repo, f.blob_id) for f in LISTING.files if f.path == path)


def test_on_a_bare_node_everything_is_absent(store: Store, tmp_path: Path) -> None:
    """Looking makes nothing."""
    assert {"absent"} == set(states(store).values())
    assert store.known_listing(fake.REPO, "main") is None
    assert [] == list(tmp_path.iterdir())


def test_admitted_files_are_verified_for_every_later_process(store: Store) -> None:
    """The bytes have their final name, and the ledger says when they were hashed."""
    fake.fetch_all(store, LISTING, FILES)

    assert {"verified"} == set(states(again(store)).values())
    assert all(local.verified_unix_s for local in again(store).local(LISTING))
    assert FILES[SHARD] == blob_of(store, SHARD).read_bytes()


def test_blobs_of_another_tool_are_present_not_verified(store: Store) -> None:
    """What nobody here hashed is never called verified."""
    fake.copy_in(store, LISTING, FILES)

    assert {("present", "never hashed on this node")} == {(f.state, f.why) for f in store.local(LISTING)}


def test_a_downloader_that_ended_well_is_not_believed(store: Store) -> None:
    """B008: one blob and one `.incomplete` are one file of two, whatever the exit status was."""
    fake.copy_in(store, replace(LISTING, files=LISTING.files[1:2]), FILES)
    lost = LISTING.files[2]
    store.blob_path(LISTING.repo, f"{lost.blob_id}.1a2b3c4d.incomplete").write_bytes(b"x" * 10)

    found = states(store, replace(LISTING, files=LISTING.files[1:3]))

    assert {SHARD: "present", "model-00002-of-00002.safetensors": "absent"} == found


def test_a_blob_of_another_size_is_damaged(store: Store) -> None:
    """Both sizes are named."""
    fake.fetch_all(store, LISTING, FILES)
    with blob_of(store, SHARD).open("ab") as blob:
        blob.write(b"x")

    (local,) = [f for f in store.local(LISTING) if f.state != "verified"]

    size = len(FILES[SHARD])
    assert ("damaged", f"its size is {size + 1}, listed is {size}") == (local.state, local.why)


def test_a_change_behind_the_ledgers_back_is_noticed(store: Store) -> None:
    """Same size and mtime put back: ctime tells, and the day it was hashed is named."""
    fake.fetch_all(store, LISTING, FILES)
    blob = blob_of(store, SHARD)
    before = blob.stat()
    blob.write_bytes(bytes(before.st_size))
    os.utime(blob, ns=(before.st_atime_ns, before.st_mtime_ns))

    (local,) = [f for f in again(store).local(LISTING) if f.state != "verified"]

    assert "present" == local.state
    assert local.why.startswith("ctime changed since it was hashed on 20")


def test_a_link_to_nothing_is_absent_and_says_so(store: Store) -> None:
    """B046: a blob that is a link into a store that is gone."""
    blob_of(store, SHARD).parent.mkdir(parents=True)
    blob_of(store, SHARD).symlink_to("../../../blobs/ab/gone")

    (local,) = [f for f in store.local(LISTING) if f.file.path == SHARD]

    assert ("absent", "its link leads to nothing") == (local.state, local.why)


def test_a_blob_behind_a_link_counts_as_the_file_it_leads_to(store: Store, tmp_path: Path) -> None:
    """hub's shared blobs are links; replacing what they lead to is noticed."""
    fake.fetch_all(store, LISTING, FILES)
    blob = blob_of(store, SHARD)
    shared = tmp_path / "shared"
    shared.write_bytes(FILES[SHARD])
    blob.unlink()
    blob.symlink_to(shared)

    assert "present" == states(store)[SHARD]


def test_a_part_counts_for_what_its_journal_vouches(store: Store) -> None:
    """A part of another downloader is credited by its length; its hash will tell."""
    part = store.part_path(LISTING.repo, LISTING.files[1].blob_id)
    part.parent.mkdir(parents=True)
    part.write_bytes(FILES[SHARD][:30])

    (local,) = [f for f in store.local(LISTING) if f.file.path == SHARD]

    assert ("partial", 30) == (local.state, local.have_bytes)


def test_a_part_of_the_wrong_size_is_never_admitted(store: Store) -> None:
    """The last check before the final name."""
    file = LISTING.files[1]
    part = store.part_path(LISTING.repo, file.blob_id)
    part.parent.mkdir(parents=True)
    part.write_bytes(FILES[SHARD][:-1])

    with pytest.raises(KbootError) as caught:
        store.admit(LISTING, file, part, "memory")

    assert "part-size-mismatch" == caught.value.code
    assert not blob_of(store, SHARD).exists()


def test_a_file_that_another_process_admitted_meanwhile_is_fine(store: Store) -> None:
    """The part is gone because it has its final name; admitting it again changes nothing."""
    fake.fetch_all(store, LISTING, FILES)
    file = LISTING.files[1]

    again(store).admit(LISTING, file, store.part_path(LISTING.repo, file.blob_id), "memory")

    assert {"verified"} == set(states(store).values())


def test_a_part_that_vanished_is_an_error(store: Store) -> None:
    """Without a blob that the ledger vouches for, nothing was admitted."""
    fake.copy_in(store, LISTING, FILES)
    file = LISTING.files[1]

    with pytest.raises(KbootError) as caught:
        store.admit(LISTING, file, store.part_path(LISTING.repo, file.blob_id), "memory")

    assert "part-vanished" == caught.value.code


def test_a_fetched_file_heals_a_damaged_one(store: Store) -> None:
    """A file known to be damaged stays damaged until other bytes have its name."""
    fake.fetch_all(store, LISTING, FILES)
    file = LISTING.files[1]
    store.record(LISTING, file, store.mark(blob_of(store, SHARD)), "damaged", "this disk", "sha256 is …")
    assert "damaged" == states(again(store))[SHARD]

    fake.fetch_all(store, LISTING, FILES, only=[SHARD])
    assert "verified" == states(again(store))[SHARD]


def test_structure_alone_does_not_verify(store: Store) -> None:
    """A file whose structure was checked and whose bytes were not hashed is present."""
    fake.copy_in(store, LISTING, FILES)
    store.record(LISTING, LISTING.files[1], store.mark(blob_of(store, SHARD)), "quick", "this disk")

    assert "present" == states(store)[SHARD]


def test_the_first_admitted_file_makes_the_listing_known(store: Store) -> None:
    """A later boot knows what was wanted, without a request, even when this one dies here."""
    fake.fetch_all(store, LISTING, FILES, only=["config.json"])

    known = again(store).known_listing(fake.REPO, fake.COMMIT)

    assert known is not None
    assert LISTING.files == known.files


def test_a_branch_is_known_by_its_ref(store: Store) -> None:
    """refs/<branch> as hub writes it: 40 digits, no newline."""
    store.remember(LISTING)
    assert store.known_listing(fake.REPO, "main") is None

    store.set_ref(LISTING)

    known = store.known_listing(fake.REPO, "main")
    assert known is not None
    assert ("main", fake.COMMIT) == (known.revision, known.commit)
    assert fake.COMMIT == (store.folder(fake.REPO).path / "refs/main").read_text()


@pytest.mark.parametrize("content", [b"", b"main", b"../../x", b"c" * 39, b"\xff" * 40])
def test_a_torn_ref_is_no_commit(store: Store, content: bytes) -> None:
    """Then the branch is simply not known here."""
    store.remember(LISTING)
    store.set_ref(LISTING)
    (store.folder(fake.REPO).path / "refs/main").write_bytes(content)

    assert store.known_listing(fake.REPO, "main") is None


def test_another_letter_case_is_found_and_said(store: Store, told: list[Event]) -> None:
    """B038: the listing has the id as this disk spells it."""
    store.remember(LISTING)

    known = store.known_listing(fake.REPO.lower(), fake.COMMIT)

    assert known is not None
    assert fake.REPO == known.repo
    assert ["repo.respelled"] == [e.event for e in told if isinstance(e, Notice)]


def test_a_damaged_listing_is_not_used_and_said(store: Store, told: list[Event]) -> None:
    """It is asked for again; a person has nothing to do."""
    store.remember(LISTING)
    tree = store.folder(fake.REPO).tree(fake.COMMIT)
    tree.write_bytes(encode_tree(LISTING).replace(b'"size": 22', b'"size": 23'))

    assert store.known_listing(fake.REPO, fake.COMMIT) is None
    assert ["listing.unreadable"] == [e.event for e in told if isinstance(e, Notice)]


def test_a_small_file_is_read_only_when_it_is_what_the_commit_lists(store: Store) -> None:
    """It is hashed on the way."""
    fake.copy_in(store, LISTING, FILES)
    config = LISTING.files[0]
    assert FILES["config.json"] == store.read_proven(LISTING.repo, config, 1000)

    store.blob_path(LISTING.repo, config.blob_id).write_bytes(b'{"model_type": "evil"}')
    assert store.read_proven(LISTING.repo, config, 1000) is None
    assert store.read_proven(LISTING.repo, config, 3) is None


def test_orphans_of_killed_downloads_are_swept(store: Store, told: list[Event]) -> None:
    """B014: three parts without an owner, 600 bytes; blobs, kboot's own parts and foreign names stay."""
    blobs = store.folder(fake.REPO).blobs
    blobs.mkdir(parents=True)
    etag = "d41d438c379110c7f7b2c561b1f04f26c1b4549110791f8e022f48974280c13e"
    orphans = {f"{etag}.0a1b2c3d.incomplete": 100, f"{etag}.99aa88bb.incomplete": 200,
               f"{'2' * 64}.77777777.incomplete": 300}  # fmt: skip
    kept = [etag, f"{etag}.part", f"{'2' * 64}.incomplete", "notes.0a1b2c3d.txt"]
    for name, size in [*orphans.items(), *((name, 7) for name in kept)]:
        (blobs / name).write_bytes(b"x" * size)

    assert 600 == store.sweep(fake.REPO)
    assert ["parts.swept"] == [e.event for e in told if isinstance(e, Notice)]
    assert sorted(kept) == sorted(path.name for path in blobs.iterdir())
    assert 0 == store.sweep(fake.REPO)


def test_a_part_that_a_process_has_open_is_not_swept(store: Store) -> None:
    """A download that still runs keeps its file."""
    blobs = store.folder(fake.REPO).blobs
    blobs.mkdir(parents=True)
    orphan = blobs / f"{'2' * 64}.77777777.incomplete"

    with orphan.open("wb") as held:
        held.write(b"x" * 300)
        held.flush()
        assert 0 == store.sweep(fake.REPO)

    assert 300 == store.sweep(fake.REPO)


def test_sweeping_a_repository_that_is_not_here_wins_nothing(store: Store) -> None:
    """The first fetch of a node sweeps too."""
    assert 0 == store.sweep(fake.REPO)


def test_a_journal_whose_part_became_a_blob_goes(store: Store) -> None:
    """A crash between the final name and the end of the journal leaves it; one of a living part stays."""
    fake.fetch_all(store, LISTING, FILES)
    done = store.part_path(fake.REPO, LISTING.files[1].blob_id)
    done.with_name(done.name + "-journal").write_bytes(b"x")
    growing = store.part_path(fake.REPO, "9" * 64)
    growing.write_bytes(b"x")
    growing.with_name(growing.name + "-journal").write_bytes(b"x")

    store.sweep(fake.REPO)

    names = {path.name for path in done.parent.iterdir()}
    assert not done.with_name(done.name + "-journal").exists()
    assert {growing.name, growing.name + "-journal"} <= names


def test_reserved_blocks_of_a_part_are_seen(store: Store) -> None:
    """What the disk gave to a partial is known, for that file alone."""
    file = next(f for f in LISTING.files if f.path == SHARD)
    part = store.part_path(LISTING.repo, file.blob_id)
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(file.size_bytes))
    (local,) = [f for f in store.local(LISTING) if f.file == file]

    assert part.stat().st_blocks * 512 == local.reserved_bytes > 0
    assert {0} == {f.reserved_bytes for f in store.local(LISTING) if f.file.blob_id != file.blob_id}
