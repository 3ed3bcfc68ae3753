"""A node that was started from an image trusts of it what can be told, and says how far that goes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from booting import Node, profile
from cli.cli_run import hub
from kboot.apply.first_boot import differences_from_image
from kboot.bake import BakeAsk, bake
from kboot.errors import VerificationFailed
from kboot.events import Notice
from kboot.facts.residue import ImageFolders
from kboot.host.image import ImageTree
from kboot.host.real import RealHost
from kboot.profile.types import CheckpointAsk, Profile, VerifyAsk
from kboot.sealing import SealAsk, seal_image
from kboot.store.baked import Baked, BakedTarget, read_baked, write_baked
from kboot.store.samples import ranges_of

NOBODY = "http://127.0.0.1:9"  # discard: nobody listens
SHARD = "model-00002-of-00002.safetensors"
QUICKLY = VerifyAsk(image="bake")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub with two shards that are large enough to be sampled."""
    with hub(tmp_path_factory.mktemp("hub"), "--shards", "2", "--mib-per-shard", "17") as url:
        yield url


@pytest.fixture(scope="module")
def image(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a sealed image."""
    folder = tmp_path_factory.mktemp("builder")
    builder = Node(folder, endpoint)
    state = folder / "image/var/lib/kboot"
    paths = replace(builder.paths, state=state)
    report = bake(profile(), builder.host, paths, BakeAsk(), ImageTree(folder / "image"), _quiet, builder.stop)
    assert report.error is None
    assert report.baked is not None
    sealed = seal_image(ImageTree(folder / "image"), ImageFolders(), RealHost(), {}, SealAsk())
    assert sealed.error is None
    return state


def _quiet(_: object) -> None:
    pass


@pytest.fixture
def node(image: Path, tmp_path: Path) -> Node:
    """A node that was started from a copy of it, with nobody to ask."""
    shutil.copytree(image, tmp_path / "state", symlinks=True)
    return Node(tmp_path, NOBODY)


def flip_a_bit(node: Node, offset: int) -> None:
    with open(node.blob(SHARD), "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def quickly(**verify: object) -> Profile:
    return profile(verify=replace(QUICKLY, **verify))  # type: ignore[arg-type]


def test_every_byte_is_proven_once_and_nobody_is_asked(node: Node) -> None:
    """The default: what came in an image is hashed before the hand-off; a second boot has nothing to do."""
    first = node.boot()
    second = node.plan()

    assert ("done", None) == (first.status, first.error)
    assert {"verify"} == {o.phase for o in first.outcomes if o.size_bytes}
    assert first.verify_claim.endswith("hashed in this run")
    assert () == second.actions


def test_a_branch_means_the_images_commit(node: Node) -> None:
    """The profile says main: no source is asked what that is now."""
    node.boot()
    baked = read_baked(node.paths.state)

    assert baked is not None
    assert baked.commit == node.plan().listing.commit
    assert {"source.waiting", "checkpoint.local_copy"}.isdisjoint(node.notices())


def test_samples_are_compared_now_and_nothing_more_is_claimed(node: Node) -> None:
    """With verify.image = "bake" the large files are sampled, the small ones hashed, and the claim says which."""
    report = node.boot(quickly())
    actions = {o.title for o in report.outcomes if o.phase == "verify"}

    assert ("done", None) == (report.status, report.error)
    assert f"verify {SHARD} (bake)" in actions
    assert "2 only compared with the image in samples, to be hashed in the background" in report.verify_claim
    assert sum(o.size_bytes for o in report.outcomes if o.title.endswith("(bake)")) < 3 << 20


def test_a_second_quick_boot_compares_nothing_again_and_a_profile_that_wants_all_hashes_all(node: Node) -> None:
    """What was sampled keeps its identity; it is never taken for hashed."""
    node.boot(quickly())
    again, full = node.plan(quickly()), node.plan(profile())

    assert () == again.actions
    assert [f"verify model-0000{n}-of-00002.safetensors (full)" for n in (1, 2)] == sorted(
        f"verify {a.file.path} ({a.mode})"
        for a in full.actions
        if hasattr(a, "mode")  # the hand-off is written again as well
    )


def test_a_changed_range_is_found_by_samples(node: Node) -> None:
    """What the samples see is refused at once, named, and never handed off."""
    file = next(f for f in node.plan().listing.files if f.path == SHARD)
    flip_a_bit(node, ranges_of(file)[5][0])
    report = node.boot(quickly(), offline=True)

    assert "failed" == report.status
    assert isinstance(report.error, VerificationFailed)
    assert SHARD in report.error.message
    assert not node.paths.handoff.exists()


def test_a_changed_byte_is_found_by_the_whole_hash(node: Node) -> None:
    """Anywhere at all, with the range in which it lies."""
    flip_a_bit(node, (17 << 20) - 4321)
    report = node.boot(offline=True)

    assert isinstance(report.error, VerificationFailed)
    assert SHARD in report.error.message
    assert "failed" == report.status


def test_with_a_source_a_damaged_range_is_mended_in_the_same_boot(node: Node, endpoint: str) -> None:
    """Only the 16 MiB around the wrong byte are fetched; the report names the damage."""
    flip_a_bit(node, (17 << 20) - 4321)
    online = Node(node.folder, endpoint)
    report = online.boot()

    assert ("done", None) == (report.status, report.error)
    assert any(SHARD in warning and "mended" in warning for warning in report.warnings)


def test_a_damaged_manifest_is_not_believed(node: Node) -> None:
    """Then every byte is proven as on any other disk, and it is told."""
    path = node.paths.state / "bake.json"
    path.write_text(path.read_text().replace('"kboot/demo-moe"', '"other/model"', 1))
    pin = profile(verify=QUICKLY, checkpoint=CheckpointAsk(repo="kboot/demo-moe"))
    plan = node.plan(pin, offline=True)

    assert "image.unknown" in node.notices()
    assert {"full"} == {a.mode for a in plan.actions if hasattr(a, "mode")}


def test_a_file_that_the_manifest_does_not_have_is_hashed(node: Node) -> None:
    """It was fetched later, or left out of the image."""
    baked = read_baked(node.paths.state)
    assert baked is not None
    write_baked(replace(baked, files=tuple(f for f in baked.files if f.path != SHARD)), node.paths.state)
    modes = {a.file.path: a.mode for a in node.plan(quickly()).actions if hasattr(a, "mode")}

    assert ("full", "bake") == (modes[SHARD], modes["model-00001-of-00002.safetensors"])


def test_a_token_file_that_was_sealed_away_does_not_stop_a_node_with_everything(node: Node) -> None:
    """kboot.toml names it, nobody has put it there yet, and it is not needed."""
    report = node.boot(token_file=str(node.folder / "absent"))

    assert ("done", None) == (report.status, report.error)
    assert any(e.event == "source.no_token" for e in node.seen if isinstance(e, Notice))


def test_a_first_boot_is_told_once(node: Node) -> None:
    """It names the image; the second boot of the same machine is none."""
    node.boot()
    first = node.notices()
    node.seen.clear()
    node.boot()
    baked = read_baked(node.paths.state)

    assert baked is not None
    assert baked.digest[:12] in first["image.first_boot"]
    assert "image.first_boot" not in node.notices()


def test_what_another_machine_hashed_counts_for_nothing_here(node: Node) -> None:
    """A copy of a whole disk that was not sealed: its ledger holds by every identity, and is not believed."""
    node.boot()
    (node.paths.state / "image.json").write_text('{"digest": "x", "machine": "another"}')
    node.seen.clear()
    report = node.boot()

    assert report.verify_claim.endswith("hashed in this run")
    assert "another machine" in node.notices()["image.first_boot"]
    assert {"verify"} == {o.phase for o in report.outcomes if o.size_bytes}


def test_the_machine_that_baked_goes_on_trusting_what_it_hashed(endpoint: str, tmp_path: Path) -> None:
    """A boot on the builder itself is no first boot."""
    builder = Node(tmp_path, endpoint)
    (tmp_path / "image").mkdir()
    bake(profile(), builder.host, builder.paths, BakeAsk(), ImageTree(tmp_path / "image"), _quiet, builder.stop)
    report = builder.boot(offline=True)

    assert "image.first_boot" not in builder.notices()
    assert "unchanged since they were hashed" in report.verify_claim


def test_what_is_other_than_baked_is_named() -> None:
    """Driver, version and layout: each in a sentence; what the image could not know is not compared."""
    target = BakedTarget("8x-b300", "B300", 8, 1, "vllm", {"engine_version": "0.33.0", "gpu_arch": "sm103"})
    image = Baked("p", "", "r", "c", "", {"driver": "580.95"}, (target,), (), (), (), (), (), (), 0.0)
    here = {"engine_version": "0.33.0", "gpu_arch": "sm103", "driver": "590.44", "gpu_name": "NVIDIA B300"}
    kept = "kernel caches are kept apart"

    assert () == differences_from_image(image, "8x-b300", {**here, "driver": "580.95"})
    assert (f"driver was 580.95 when the image was made, is 590.44 here: {kept}",) == differences_from_image(
        image, "8x-b300", here
    )
    assert "gpu_arch was sm103" in differences_from_image(image, "8x-b300", {**here, "gpu_arch": "sm100"})[0]
    assert ("the image was made for 8x-b300; this node boots 4x-h200: its kernel caches are kept apart",) == (
        differences_from_image(image, "4x-h200", here)
    )


def test_a_node_like_the_image_has_no_warning_of_it(node: Node) -> None:
    """Layout, engine and versions are the baked ones."""
    assert not [w for w in node.plan(offline=True).warnings if "image" in w]
