"""What doctor reads before it judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kboot.checkpoint import Listing, RemoteFile
from kboot.events import Event
from kboot.host.paths import Paths
from kboot.probing import local_checkpoint
from kboot.profile.types import CheckpointAsk, LayoutAsk, Profile
from kboot.store.store import Store

PROFILE = Profile(
    name="model",
    schema=1,
    checkpoint=CheckpointAsk(repo="org/model", revision="a" * 40),
    layout=(LayoutAsk(name="cpu", gpu="none", gpus_per_node=0, engine="demo"),),
)
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def quiet(_: Event) -> None:
    """Emit to nobody."""


def test_a_checkpoint_nobody_links_to_is_not_published(tmp_path: Path) -> None:
    """`published` needs every link of the snapshot and the serving path."""
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")
    here = RemoteFile("model-1.safetensors", 0, EMPTY_SHA256, EMPTY_SHA256)
    missing = RemoteFile("model-2.safetensors", 7, "b" * 64, "b" * 64)
    listing = Listing("org/model", "a" * 40, "a" * 40, (here, missing), (), "test")
    store = Store(paths)
    store.remember(listing)
    part = store.part_path(listing.repo, here.blob_id)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(b"")
    store.admit(listing, here, part, "hub")
    found = local_checkpoint(paths, PROFILE, quiet)

    assert found is not None
    assert (False, ["verified", "absent"]) == (found.published, [f.state for f in found.files])
    assert local_checkpoint(paths, replace(PROFILE, checkpoint=CheckpointAsk(repo="org/other")), quiet) is None
