"""What does a node know of the image that it was started from, and what of that does it trust?"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from kboot.checkpoint import CheckpointFacts, LocalFile
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.paths import Paths
from kboot.profile.types import Profile
from kboot.store.baked import Baked, read_baked
from kboot.store.layout import is_commit


def image_of(paths: Paths, emit: Emit) -> Baked | None:
    """Return the manifest of the image; None where there is none, or a damaged one, which is told and not believed."""
    try:
        return read_baked(paths.state)
    except KbootError as exc:
        emit(Notice("image.unknown", f"{exc.message}: everything is proven as on any other disk"))
        return None


def pinned(profile: Profile, image: Baked | None) -> Profile:
    """Return the profile with the image's commit in place of a branch: every copy serves the same, and asks nobody."""
    ask = profile.checkpoint
    if image is None or image.repo.lower() != ask.repo.lower() or is_commit(ask.revision):
        return profile
    return replace(profile, checkpoint=replace(ask, revision=image.commit))


def as_image_says(checkpoint: CheckpointFacts, image: Baked | None, mode: Literal["full", "bake"]) -> CheckpointFacts:
    """Return the facts with what the image vouches for, where the profile lets it: else every byte is hashed first."""
    return replace(checkpoint, files=tuple(_of_image(local, image, mode) for local in checkpoint.files))


def _of_image(local: LocalFile, image: Baked | None, mode: Literal["full", "bake"]) -> LocalFile:
    if image is None or mode == "full":
        return replace(local, of_image="") if local.of_image else local
    if local.state != "present" or local.of_image:
        return local
    baked = image.file_of(local.file.blob_id)
    known = baked is not None and (baked.samples or baked.verity) and baked.size_bytes == local.file.size_bytes
    return replace(local, of_image="known") if known else local
