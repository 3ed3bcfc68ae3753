"""What does a node know of the image that it was started from, and what of that does it trust?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from kboot.checkpoint import is_commit
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.files import atomic_write, exists, read_small
from kboot.plan.cache import differing
from kboot.store.ledger import forget_files, stored_rows
from kboot.store.shares import forget_records

if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts, LocalFile
    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.types import Profile
    from kboot.store.baked import Baked

ADOPTED = "image.json"
"""In the state folder: on which machine the image was last found. Never in an image that was sealed."""

_MARKS = ("/etc/machine-id", "/sys/class/dmi/id/product_uuid")
_LIMIT_BYTES = 64 << 10


def image_of(paths: Paths, emit: Emit) -> Baked | None:
    """Return the manifest of the image; None where there is none, or a damaged one, which is told and not believed."""
    try:
        if not exists(paths.image):
            return None
        from kboot.store.baked import read_baked

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


def adopt(paths: Paths, host: Host, emit: Emit) -> None:
    """Notice that this disk is a copy of an image on a machine that has not seen it yet.

    Identities in its ledger are then those of the machine before, if it was not sealed: on a copy of the whole disk
    they even hold, and still nobody here has hashed a byte. They are forgotten, so that everything is proven again.
    """
    image = image_of(paths, lambda _: None)
    if image is None or _is_known(image, paths, host):
        return
    try:
        if rows := stored_rows(paths.ledger):
            forget_files(paths.ledger, wipe=False)
        rows += forget_records(paths.shares)
        mark_as_known(image, paths, host)
    except KbootError as exc:
        emit(Notice("image.not_adopted", f"{exc.code}: {exc.message}"))
        return
    forgot = f"; {rows} files that another machine had hashed count as never hashed" if rows else ""
    emit(Notice("image.first_boot", f"first boot of image {image.digest[:12]} on this machine{forgot}"))


def mark_as_known(image: Baked, paths: Paths, host: Host) -> None:
    """Remember that this machine has seen the image: what its ledger says from now on was found out here."""
    document = {"schema": 1, "kind": "image", "digest": image.digest, "machine": _machine(host)}
    atomic_write(paths.state / ADOPTED, json.dumps(document).encode() + b"\n")


def _is_known(image: Baked, paths: Paths, host: Host) -> bool:
    with suppress(OSError, ValueError, AttributeError):
        document = json.loads(read_small(paths.state / ADOPTED, _LIMIT_BYTES))
        return bool(document.get("digest") == image.digest and document.get("machine") == _machine(host))
    return False


def _machine(host: Host) -> str:
    """Return what tells this machine from others, without giving its ids away."""
    told = []
    for path in _MARKS:
        with suppress(OSError):  # not there, or root's alone
            told.append(host.read_text(path).strip())
    return hashlib.sha256("\0".join(("kboot image", *told)).encode()).hexdigest()[:16]


def differences_from_image(image: Baked, layout: str, factors: Mapping[str, str]) -> tuple[str, ...]:
    """Return how this node differs from those that the image was made for, a sentence each.

    factors: of this node's cache key. What the image could not know is not compared.
    """
    target = next((t for t in image.targets if t.layout == layout), None)
    if target is None:
        made_for = ", ".join(t.layout for t in image.targets)
        return (f"the image was made for {made_for}; this node boots {layout}: its kernel caches are kept apart",)
    known = {name: value for name, value in factors.items() if name in target.factors}
    baked_driver = image.versions.get("driver", "")
    others = differing(target.factors, known)
    if baked_driver and "driver" not in target.factors and factors.get("driver", "none") not in (baked_driver, "none"):
        others = (*others, ("driver", baked_driver, factors["driver"]))
    return tuple(
        f"{name} was {old or 'absent'} when the image was made, is {new or 'absent'} here: kernel caches are kept apart"
        for name, old, new in others
    )
