"""A prepared tree becomes an image: sealed, or told what stands in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.events import Event, PhaseFinished
from kboot.facts.residue import ImageFolders
from kboot.host.image import ImageTree
from kboot.host.real import RealHost
from kboot.report.sealed import SealReport
from kboot.sealing import SealAsk, seal_image

FOLDERS = ImageFolders()


def put(root: Path, path: str, text: str = "x") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def sealed(root: Path, ask: SealAsk = SealAsk()) -> SealReport:  # noqa: B008
    return seal_image(ImageTree(root), FOLDERS, RealHost(), {}, ask)


def test_a_look_changes_nothing(tmp_path: Path) -> None:
    """What would be taken out is told; the tree is as it was."""
    put(tmp_path, "etc/machine-id", "0" * 32)
    put(tmp_path, "root/.netrc", "machine x password y")
    report = sealed(tmp_path, SealAsk(dry_run=True))

    assert (["etc/machine-id", "root/.netrc"], ()) == ([a.path for a in report.actions], report.outcomes)
    assert None is report.error
    assert "machine x password y" == (tmp_path / "root/.netrc").read_text()


def test_a_seal_says_how_far_it_is(tmp_path: Path) -> None:
    """It searches, takes out, and searches again what it changed."""
    put(tmp_path, "etc/hosts", "127.0.0.1 localhost")
    seen: list[Event] = []
    seal_image(ImageTree(tmp_path), FOLDERS, RealHost(), {}, SealAsk(), seen.append)
    ended = {event.phase: event.bytes_done for event in seen if isinstance(event, PhaseFinished)}

    assert ["search", "seal", "recheck"] == list(ended)
    assert 19 == ended["search"]


def test_a_sealed_tree_has_nothing_left(tmp_path: Path) -> None:
    """Everything found is gone, and what stays on purpose is told."""
    put(tmp_path, "etc/machine-id", "0" * 32)
    put(tmp_path, "root/.ssh/authorized_keys", "ssh-ed25519 AAAA builder")
    report = sealed(tmp_path)

    assert (None, ()) == (report.error, report.left)
    assert ["root/.ssh/authorized_keys"] == [r.path for r in report.remains]


def test_a_token_in_a_persons_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    """The rest is sealed all the same; the command fails until a person has taken it away."""
    put(tmp_path, "etc/machine-id", "0" * 32)
    put(tmp_path, "root/notes", "hf_" + "A" * 20)
    report = sealed(tmp_path)

    assert report.error is not None
    assert "image-not-sealed" == report.error.code
    assert any("/root/notes" in line for line in report.error.where)
    assert "" == (tmp_path / "etc/machine-id").read_text()


@pytest.mark.parametrize(
    ("name", "emptied"), [("HF_TOKEN", True), ("NGC_API_KEY", True), ("VAULT_TOKEN", True), ("PGPASSWORD", False)]
)
def test_a_token_of_the_builders_environment_is_looked_for_by_its_value(
    tmp_path: Path, name: str, emptied: bool
) -> None:
    """It looks like no token, and a log holds it. A password may be an ordinary word."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "var/log/build.log", "login with company-secret-1")
    report = seal_image(ImageTree(tmp_path), FOLDERS, RealHost(), {name: "company-secret-1"}, SealAsk())

    assert (["var/log/build.log"] if emptied else [], None) == ([a.path for a in report.actions], report.error)
    assert ("" if emptied else "login with company-secret-1") == (tmp_path / "var/log/build.log").read_text()
