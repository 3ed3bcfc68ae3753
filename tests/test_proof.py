"""What was only compared with an image is hashed in the background, and damage that this finds is not served again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from booting import Node, profile
from cli.cli_run import hub
from kboot.bake import BakeAsk, bake
from kboot.events import Event, Notice
from kboot.facts.residue import ImageFolders
from kboot.host.image import ImageTree
from kboot.host.real import RealHost
from kboot.profile.types import Profile, VerifyAsk
from kboot.proof import Proof, unproven
from kboot.sealing import SealAsk, seal_image

NOBODY = "http://127.0.0.1:9"  # discard: nobody listens
SHARD = "model-00002-of-00002.safetensors"
DEADLINE_S = 90.0


def quickly(when: str = "beside") -> Profile:
    return profile(verify=VerifyAsk(image="bake", image_hash=when))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of a sealed image with two shards that are large enough to be sampled."""
    folder = tmp_path_factory.mktemp("builder")
    tree = ImageTree(folder / "image")
    with hub(tmp_path_factory.mktemp("hub"), "--shards", "2", "--mib-per-shard", "17") as url:
        builder = Node(folder, url)
        paths = replace(builder.paths, state=folder / "image/var/lib/kboot")
        (folder / "image").mkdir()
        assert bake(profile(), builder.host, paths, BakeAsk(), tree, lambda _: None, builder.stop).baked is not None
    assert None is seal_image(tree, ImageFolders(), RealHost(), {}, SealAsk()).error
    return paths.state


@pytest.fixture
def node(image: Path, tmp_path: Path) -> Node:
    """A node that was started from a copy of it, booted with samples only."""
    shutil.copytree(image, tmp_path / "state", symlinks=True)
    node = Node(tmp_path, NOBODY)
    assert "done" == node.boot(quickly()).status
    return node


@contextmanager
def proving(node: Node, answers: Callable[[], bool] | None = None) -> Iterator[tuple[Proof, list[Event]]]:
    told: list[Event] = []
    proof = Proof(node.host, node.paths, told.append, answers)
    proof.begin()
    try:
        yield proof, told
    finally:
        proof.end()


def wait_for(told: list[Event], event: str) -> str:
    """Return a notice's text once it was told."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        found = [e.text for e in list(told) if isinstance(e, Notice) and e.event == event]
        if found:
            return found[0]
        assert time.monotonic() < deadline_s, told
        time.sleep(0.02)


def test_what_was_sampled_is_hashed(node: Node) -> None:
    """Afterwards every file is proven on this node, and the next boot claims so."""
    before = unproven(quickly(), node.paths)
    with proving(node) as (proof, told):
        proof.offer(quickly())
        claim = wait_for(told, "image.proven")
    report = node.boot(quickly())

    assert (2, 0) == (before, unproven(quickly(), node.paths))
    assert "hashed in this run" in claim
    assert "samples" not in report.verify_claim
    assert () == report.outcomes


def test_it_waits_until_the_engine_answers_where_the_profile_says_so(node: Node) -> None:
    """Nothing is read while an engine loads, with image_hash = "after"."""
    asked: list[int] = []

    def answers() -> bool:
        asked.append(unproven(quickly(), node.paths))
        return True

    with proving(node, answers) as (proof, told):
        proof.offer(quickly("after"))
        wait_for(told, "image.proven")

    assert [2] == asked


def test_an_engine_that_does_not_answer_keeps_it_waiting_and_it_ends_at_once(node: Node) -> None:
    """Told to stop, it stops; what was not hashed is still known as such."""
    asked: list[bool] = []
    with proving(node, lambda: bool(asked.append(True))) as (proof, told):
        proof.offer(quickly("after"))
        deadline_s = time.monotonic() + DEADLINE_S
        while not asked:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

    assert ([], 2) == (told, unproven(quickly(), node.paths))


def test_damage_between_the_samples_is_found_and_not_served_again(node: Node) -> None:
    """The record is taken away, the file is named, and the next boot refuses it."""
    with open(node.blob(SHARD), "r+b") as file:
        times = node.blob(SHARD).stat()
        file.seek(9_999_999)
        byte = file.read(1)[0]
        file.seek(9_999_999)
        file.write(bytes([byte ^ 1]))
    assert times.st_size == node.blob(SHARD).stat().st_size
    node.boot(quickly(), offline=True)
    with proving(node) as (proof, told):
        proof.offer(quickly())
        text = wait_for(told, "image.damaged")
    report = node.boot(quickly(), offline=True)

    assert SHARD in text
    assert not node.paths.handoff.exists()
    assert ("failed", True) == (report.status, SHARD in str(report.error))


def test_a_profile_that_hashes_before_the_hand_off_leaves_nothing(node: Node) -> None:
    """With image = "full" there is nothing to do afterwards, and nothing is said."""
    with proving(node) as (proof, told):
        proof.offer(profile())

    assert [] == told
