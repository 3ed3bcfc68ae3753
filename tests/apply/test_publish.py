import importlib.util
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.publish import publish
from kboot.checkpoint import Listing
from kboot.events import Event, Notice
from kboot.plan.types import PublishCheckpoint
from kboot.report.types import Outcome
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = {**fake.make(shards=2), "encoding/enc.py": b"pass\n"}
LISTING = replace(fake.listing(FILES), skipped=(("original/model.safetensors", "not in the index"),))
SHARD = "model-00001-of-00002.safetensors"


class Node:
    def __init__(self, folder: Path) -> None:
        self.store = Store(fake.paths_in(folder))
        self.model = self.store.paths.models / "tiny"
        self.told: list[Event] = []

    def publish(self, listing: Listing = LISTING) -> Outcome:
        return publish(PublishCheckpoint(listing, str(self.model), "test"), self.store, self.told.append)

    def notices(self) -> list[str]:
        return [e.event for e in self.told if isinstance(e, Notice)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    fake.fetch_all(node.store, LISTING, FILES)
    return node


def test_the_serving_path_has_every_wanted_file(node: Node) -> None:
    """Through the one stable path an engine reads the bytes that were proven."""
    outcome = node.publish()

    assert ("done", "", fake.COMMIT) == (outcome.status, outcome.before, outcome.after)
    assert FILES == {path: (node.model / path).read_bytes() for path in FILES}
    assert node.store.is_published(LISTING, node.model)


def test_links_are_durable_before_the_serving_path_leads_to_them(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is synced once, after its last link, not once for each: 111 shards would wait for the disk 111 times."""
    steps: list[tuple[str, str]] = []
    sync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append(("sync", os.readlink(f"/proc/self/fd/{fd}"))), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda old, new: (steps.append(("name", str(new))), rename(old, new)))

    node.publish()

    snapshot = node.store.snapshot_path(LISTING)
    links = [("name", str(snapshot / path)) for path in FILES]
    syncs = [("sync", str(snapshot)), ("sync", str(snapshot / "encoding"))]
    after_links = steps[max(map(steps.index, links)) :]
    assert sorted(syncs) == sorted(s for s in after_links[: after_links.index(("name", str(node.model)))] if s in syncs)
    assert ("sync", str(node.model.parent)) == steps[-1]
    made = [("sync", str(snapshot))]  # when the folder "encoding" was made in it
    assert sorted(syncs + made) == sorted(s for s in steps if s in syncs)


def test_every_link_is_relative(node: Node) -> None:
    """B046: a state folder that is moved, or baked below another root, still works."""
    node.publish()
    moved = node.store.paths.state.with_name("elsewhere")
    node.store.paths.state.rename(moved)

    assert FILES == {path: (moved / "models/tiny" / path).read_bytes() for path in FILES}


def test_publishing_again_changes_nothing(node: Node) -> None:
    """The second boot of a good node has nothing to do."""
    node.publish()
    before = {p: os.lstat(p).st_mtime_ns for p in node.store.paths.state.rglob("*") if "ledger" not in p.name}

    assert "unchanged" == node.publish().status
    assert before == {p: os.lstat(p).st_mtime_ns for p in node.store.paths.state.rglob("*") if "ledger" not in p.name}


def test_nothing_is_published_before_all_is_proven(node: Node) -> None:
    """One file that nobody hashed: no link, no ref, no serving path; the file and the next step are named."""
    blob = node.store.blob_path(LISTING.repo, LISTING.files[2].blob_id)
    blob.write_bytes(blob.read_bytes())

    outcome = node.publish()

    assert outcome.error is not None
    assert "not-proven" == outcome.error.code
    assert LISTING.files[2].path in outcome.error.where[0]
    assert not node.model.is_symlink()
    assert not (node.store.folder(fake.REPO).path / "refs").exists()


def test_a_moved_branch_moves_the_serving_path_in_one_step(node: Node) -> None:
    """The old snapshot stays whole; the path leads to the new one."""
    node.publish()
    files = {**FILES, "config.json": b'{"model_type": "tiny", "v": 2}'}
    new = fake.listing(files, commit="d" * 40)
    fake.fetch_all(node.store, new, files, only=["config.json"])

    outcome = node.publish(new)

    assert ("done", fake.COMMIT, "d" * 40) == (outcome.status, outcome.before, outcome.after)
    assert files["config.json"] == (node.model / "config.json").read_bytes()
    assert FILES["config.json"] == (node.store.snapshot_path(LISTING) / "config.json").read_bytes()


def test_dangling_and_wrong_links_are_put_right(node: Node) -> None:
    """B046: what an interrupted or moved cache left in the snapshot is replaced."""
    snapshot = node.store.snapshot_path(LISTING)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/missing")
    (snapshot / SHARD).symlink_to("/etc/hostname")
    (snapshot / "model-00002-of-00002.safetensors").write_bytes(b"a real file, not proven")

    assert "done" == node.publish().status
    assert FILES == {path: (node.model / path).read_bytes() for path in FILES}


def test_files_beside_the_wanted_ones_are_named(node: Node) -> None:
    """An engine may read what lies in the snapshot; what nobody proved is told, dangling links as such."""
    snapshot = node.store.snapshot_path(LISTING)
    snapshot.mkdir(parents=True)
    (snapshot / "extra.safetensors").symlink_to("../../blobs/missing")

    node.publish()

    (notice,) = [e for e in node.told if isinstance(e, Notice)]
    assert "extra.safetensors (leads to nothing)" in notice.text


def test_hard_linked_snapshots_stay_proven(node: Node) -> None:
    """B047: linking a blob changes its ctime; the ledger follows what kboot itself did, and nothing else."""
    for file in LISTING.files:
        assert "link" == node.store.link(LISTING, file, symlinks=False)

    assert {"verified"} == {f.state for f in node.store.local(LISTING)}
    assert () == node.store.unlinked(LISTING)
    assert "done" == node.publish().status


def test_a_hard_link_does_not_launder_a_changed_blob(node: Node) -> None:
    """A blob that changed since it was hashed is not verified by being linked."""
    file = LISTING.files[2]
    blob = node.store.blob_path(LISTING.repo, file.blob_id)
    blob.write_bytes(blob.read_bytes())

    node.store.link(LISTING, file, symlinks=False)

    assert "present" == next(f.state for f in node.store.local(LISTING) if f.file == file)


def test_a_directory_in_the_way_is_an_error(node: Node) -> None:
    """What an operator put there is not removed."""
    node.model.mkdir(parents=True)
    (node.model / "mine").touch()

    outcome = node.publish()

    assert "failed" == outcome.status
    assert (node.model / "mine").exists()


def offline(store: Store, revision: str) -> str:
    from huggingface_hub import snapshot_download

    return snapshot_download(fake.REPO, revision=revision, cache_dir=store.paths.hub, local_files_only=True)


@pytest.mark.parametrize("revision", ["main", fake.COMMIT])
def test_the_real_client_takes_the_snapshot_offline(node: Node, revision: str) -> None:
    """snapshot_download without a network gives the same folder that the serving path leads to."""
    node.publish()

    found = Path(offline(node.store, revision))

    assert node.model.resolve() == found.resolve()
    assert FILES == {path: (found / path).read_bytes() for path in FILES}


def test_the_real_client_finds_single_files_and_scans_the_cache(node: Node) -> None:
    """try_to_load_from_cache and `hf cache ls` see the repository, its commit and its branch."""
    from huggingface_hub import scan_cache_dir, try_to_load_from_cache

    node.publish()

    found = try_to_load_from_cache(fake.REPO, "encoding/enc.py", cache_dir=node.store.paths.hub)
    (repo,) = scan_cache_dir(node.store.paths.hub).repos
    (revision,) = repo.revisions

    assert b"pass\n" == Path(str(found)).read_bytes()
    assert (fake.REPO, fake.COMMIT, {"main"}) == (repo.repo_id, revision.commit_hash, set(revision.refs))


@pytest.mark.parametrize("lose", ["link", "blob"])
def test_the_real_client_notices_a_missing_shard(node: Node, lose: str, tmp_path: Path) -> None:
    """B044: because trees/<commit>.json is there; kboot's own verdict is the same."""
    from huggingface_hub.errors import IncompleteSnapshotError

    node.publish()
    shard = next(f for f in LISTING.files if f.path == SHARD)
    link = node.store.snapshot_path(LISTING) / SHARD
    (link if lose == "link" else node.store.blob_path(LISTING.repo, shard.blob_id)).unlink()

    with pytest.raises(IncompleteSnapshotError, match=SHARD):
        offline(node.store, "main")
    assert (shard,) == node.store.unlinked(LISTING)
    assert not node.store.is_published(LISTING, node.model)


def test_a_branch_with_a_slash_has_a_ref(tmp_path: Path) -> None:
    """refs/pr/1 is a file two folders down, as hub has it."""
    node = Node(tmp_path)
    listing = replace(LISTING, revision="refs/pr/1")
    fake.fetch_all(node.store, listing, FILES)

    node.publish(listing)

    assert fake.COMMIT == (node.store.folder(fake.REPO).path / "refs/refs/pr/1").read_text()
    assert node.model.resolve() == Path(offline(node.store, "refs/pr/1")).resolve()


def test_a_pinned_commit_has_no_ref(tmp_path: Path) -> None:
    """There is no branch to remember."""
    node = Node(tmp_path)
    listing = replace(LISTING, revision=fake.COMMIT)
    fake.fetch_all(node.store, listing, FILES)

    assert "done" == node.publish(listing).status
    assert node.store.is_published(listing, node.model)
    assert not (node.store.folder(fake.REPO).path / "refs").exists()


def test_the_tree_lists_what_is_served_and_remembers_the_rest(node: Node) -> None:
    """hub asks offline for what stands under `files`: skipped duplicates must not."""
    node.publish()

    tree = json.loads(node.store.folder(fake.REPO).tree(fake.COMMIT).read_bytes())

    assert sorted(FILES) == sorted(tree["files"])
    assert [["original/model.safetensors", "not in the index"]] == tree["kboot"]["skipped"]


def test_a_file_system_that_proves_files_is_let_to(node: Node) -> None:
    """With `verify.fs_verity` each proven file gets its digest; where there is none, that is told and all is served."""
    action = PublishCheckpoint(LISTING, str(node.model), "test")
    outcome = publish(action, node.store, node.told.append, enforce=True)
    found = node.store.local(LISTING)

    assert "done" == outcome.status
    assert {"verified"} == {local.state for local in found}
    assert () == node.store.unenforced(LISTING)
    assert ([] if all(local.enforced for local in found) else ["verity.not_here"]) == node.notices()


@pytest.fixture
def proving(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A mounted ext4 with fs-verity; skipped where this kernel has none, or this process may not mount."""
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if os.geteuid() or mkfs is None:
        pytest.skip("needs root and mkfs.ext4")
    if not Path("/sys/fs/ext4/features/verity").exists():
        pytest.skip("this kernel has no fs-verity for ext4 (CONFIG_FS_VERITY)")
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run([mkfs, "-q", "-O", "verity", "-b", "4096", str(image)], check=True, timeout=60)
    mounted = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, timeout=60)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    request.addfinalizer(lambda: subprocess.run(["umount", str(folder)], check=True, timeout=60))
    return folder


def test_the_kernel_proves_what_was_proven(proving: Path) -> None:
    """The ledger has each digest, a second look finds nothing to do, and nobody can write to the files any more."""
    node = Node(proving)
    fake.fetch_all(node.store, LISTING, FILES)
    action = PublishCheckpoint(LISTING, str(node.model), "test")
    publish(action, node.store, node.told.append, enforce=True)
    blob = node.store.blob_path(LISTING.repo, LISTING.files[0].blob_id)
    rows = node.store.ledger.rows(LISTING.repo).values()
    again = publish(action, node.store, node.told.append, enforce=True)
    node.store.ledger.close()

    assert all(local.enforced for local in node.store.local(LISTING))
    assert {"fs-verity sha256"} == {row.detail.partition(":")[0] for row in rows}
    assert "unchanged" == again.status
    with pytest.raises(PermissionError):
        blob.write_bytes(b"other")
    node.store.ledger.close()


def test_what_was_committed_in_place_of_weights_is_not_published(tmp_path: Path) -> None:
    """B062 in the commit itself: the hash is right, and an engine would only say "HeaderTooLarge"."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 24000\n"
    files = {**FILES, SHARD: pointer}
    listing = fake.listing(files)
    node = Node(tmp_path)
    fake.fetch_all(node.store, listing, files)
    error = node.publish(listing).error

    assert error is not None
    assert ("published-broken", 12) == (error.code, int(error.status))
    assert error.message.startswith(f"{SHARD}: is a git-lfs pointer of 130 bytes, real size 24000")
    assert not node.model.exists()
