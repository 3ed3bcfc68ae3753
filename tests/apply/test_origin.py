"""A node with an empty state disk takes the bytes from its image or from the network, whichever is faster now."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from booting import AskedHost, Node, profile
from cli.cli_run import hub
from kboot.apply.origin import image_copy, lazy_streams
from kboot.bake import BakeAsk, bake
from kboot.boot import boot
from kboot.events import Event, Notice
from kboot.facts.residue import ImageFolders
from kboot.host.image import ImageTree
from kboot.host.paths import Paths
from kboot.host.real import RealHost
from kboot.options import BootOptions
from kboot.report.types import BootReport
from kboot.sealing import SealAsk, seal_image

NOBODY = "http://127.0.0.1:9"  # discard: nobody listens


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub, with enough to be worth measuring."""
    with hub(tmp_path_factory.mktemp("hub"), "--shards", "2", "--mib-per-shard", "34") as url:
        yield url


@pytest.fixture(scope="module")
def image(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a sealed image."""
    folder = tmp_path_factory.mktemp("builder")
    builder = Node(folder, endpoint)
    tree = ImageTree(folder / "image")
    (folder / "image").mkdir()
    paths = replace(builder.paths, state=folder / "image/var/lib/kboot")
    assert bake(profile(), builder.host, paths, BakeAsk(), tree, lambda _: None, builder.stop).baked is not None
    assert None is seal_image(tree, ImageFolders(), RealHost(), {}, SealAsk()).error
    return paths.state


def booted(node: Node, image: Path, endpoint: str, **options: bool) -> BootReport:
    """Boot a node whose image is elsewhere."""
    host = AskedHost({"HF_ENDPOINT": endpoint, "PATH": "/usr/bin:/bin", "KBOOT_IMAGE_DIR": str(image)})
    return boot(profile(), host, node.paths, BootOptions(**options), node.seen.append, node.stop)


def sources_of(report: BootReport) -> set[str]:
    """Return where files came from, by the kind of place."""
    return {o.source.split(":")[0].split(" ")[0] for o in report.outcomes if o.phase == "fetch"}


def test_an_empty_state_disk_is_filled_from_the_image_without_a_network(image: Path, tmp_path: Path) -> None:
    """Every byte is hashed on its way, and nobody is asked: an instance store after power-on."""
    node = Node(tmp_path, NOBODY)
    report = booted(node, image, NOBODY)

    assert ("done", None) == (report.status, report.error)
    assert {"file"} == sources_of(report)
    assert "hashed in this run" in report.verify_claim
    assert "image.origin" in node.notices()


def test_offline_means_no_network_and_the_image_is_none(image: Path, tmp_path: Path) -> None:
    """What is on this machine is used."""
    report = booted(Node(tmp_path, NOBODY), image, NOBODY, offline=True)

    assert ("done", {"file"}) == (report.status, sources_of(report))


def test_both_are_measured_and_the_answer_is_told(image: Path, endpoint: str, tmp_path: Path) -> None:
    """With a source that answers, the notice has both rates."""
    node = Node(tmp_path, endpoint)
    report = booted(node, image, endpoint)

    assert ("done", None) == (report.status, report.error)
    assert "the image gives" in node.notices()["image.origin"]
    assert re.search(r"gives [\d.]+ [kMG]B/s, the network [\d.]+ [kMG]B/s; ", node.notices()["image.origin"])


def test_a_damaged_copy_in_the_image_is_not_taken(image: Path, endpoint: str, tmp_path: Path) -> None:
    """The hash is the commit's: wrong bytes come from elsewhere, and the image is named as who had them."""
    broken = tmp_path / "image"
    shutil.copytree(image, broken, symlinks=True)
    for blob in (broken / "hub/models--kboot--demo-moe/blobs").iterdir():
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 1
        blob.write_bytes(data)
    report = booted(Node(tmp_path / "node", endpoint), broken, endpoint)

    assert ("done", None) == (report.status, report.error)
    assert {"hub"} == sources_of(report)


def test_a_node_that_uses_its_images_own_folder_has_no_other(image: Path, tmp_path: Path) -> None:
    """Nor has one without an image."""
    told: list[Event] = []
    env = {"KBOOT_IMAGE_DIR": str(image)}

    assert None is image_copy(Paths(image, tmp_path, tmp_path), env, told.append)
    assert None is image_copy(Paths(tmp_path, tmp_path, tmp_path), {"KBOOT_IMAGE_DIR": str(tmp_path)}, told.append)
    assert [] == told


def test_a_snapshot_of_plain_files_is_taken_and_not_fetched_again(endpoint: str, tmp_path: Path) -> None:
    """hf-hub PR#172: a copy that followed links has no blobs; one file of it is wrong, and comes from the Hub."""
    node = Node(tmp_path, endpoint)
    only = frozenset({"fetch", "publish"})
    assert "done" == node.boot(only=only).status
    shard = "model-00002-of-00002.safetensors"
    (snapshot,) = (node.paths.hub / "models--kboot--demo-moe/snapshots").iterdir()
    for link in [path for path in snapshot.rglob("*") if path.is_symlink()]:
        data = link.read_bytes()
        link.unlink()
        link.write_bytes(bytes(len(data)) if link.name == shard else data)
    shutil.rmtree(snapshot.parents[1] / "blobs")
    report = node.boot(only=only)

    assert ("done", None, {"file"}) == (report.status, report.error, sources_of(report))
    assert [f"fetch {shard}"] == [o.title for o in report.outcomes if "hub " in o.source]
    assert all(path.is_symlink() for path in snapshot.rglob("*.safetensors"))
    assert "snapshot.copies" in node.notices()


def test_a_volume_with_all_its_blocks_is_read_as_usual(tmp_path: Path) -> None:
    """Neither this disk nor a file that is gone is called lazy."""
    told: list[Event] = []
    (tmp_path / "a").write_bytes(bytes(8 << 20))

    assert None is lazy_streams([tmp_path / "a"], told.append)
    assert None is lazy_streams([tmp_path / "absent"], told.append)
    assert [] == [e for e in told if isinstance(e, Notice)]
