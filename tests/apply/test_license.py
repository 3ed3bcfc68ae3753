"""Licence terms: accepted, changed, missing."""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.license import accept, record_path, require, status
from kboot.errors import ActionFailed, ExitStatus, LicenseNotAccepted
from kboot.host.paths import Paths
from kboot.profile.load import load_profile

TEXT = b"You may. You must.\n"
SHA = hashlib.sha256(TEXT).hexdigest()
HUGE = (
    b'{"schema": 1, "repo": "r", "license": "l", "profile": "p", "commit": "c", "text_sha256": "t", '
    b'"text_bytes": 1e999}'
)
NOWHERE = Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c"))
K3 = load_profile("kimi-k3.1-pro", NOWHERE)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A node on which nobody accepted anything."""
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc")


def test_terms_nobody_accepted_stop_the_hand_off(paths: Paths) -> None:
    """Exit 16, the terms, and the command to run."""
    with pytest.raises(LicenseNotAccepted) as caught:
        require(K3, paths, SHA)

    error = caught.value
    assert (ExitStatus.LICENSE, "license-not-accepted") == (error.status, error.code)
    assert K3.license.summary == error.where
    assert error.hint is not None
    assert "kboot license accept --profile kimi-k3.1-pro" in error.hint


def test_an_acceptance_says_who_what_and_when(paths: Paths) -> None:
    """The record holds the text's hash, the commit and the name, and is readable by all."""
    accept(K3, TEXT, "c" * 40, "alice", paths)

    state = require(K3, paths, SHA)
    file = record_path(K3, paths)
    document = json.loads(file.read_text())

    assert "accepted" == state.status
    assert (SHA, "c" * 40, "alice", 19) == (
        document["text_sha256"],
        document["commit"],
        document["accepted_by"],
        document["text_bytes"],
    )
    assert (1, "license-acceptance") == (document["schema"], document["kind"])
    assert document["accepted_unix_s"] > 0
    assert 0o644 == stat.S_IMODE(file.stat().st_mode)
    assert [file.name] == [p.name for p in paths.licenses.iterdir()]


def test_a_changed_text_asks_again(paths: Paths) -> None:
    """Another hash blocks until the new text is accepted."""
    accept(K3, TEXT, "c" * 40, "alice", paths)
    new = TEXT + b"And pay.\n"
    new_sha = hashlib.sha256(new).hexdigest()

    with pytest.raises(LicenseNotAccepted) as caught:
        require(K3, paths, new_sha)
    assert "license-changed" == caught.value.code
    assert f"sha256 {SHA[:12]}… then, {new_sha[:12]}… now" in caught.value.message

    accept(K3, new, "d" * 40, "bob", paths)
    assert require(K3, paths, new_sha).passes


def test_a_renamed_licence_asks_again(paths: Paths) -> None:
    """The profile's own word for the terms is part of what was accepted."""
    accept(K3, TEXT, "c" * 40, "alice", paths)
    renamed = replace(K3, license=replace(K3.license, name="Kimi K3.1-Pro License 2"))

    assert "changed" == status(renamed, paths, SHA).status


def test_without_the_text_an_acceptance_stands_and_says_so(paths: Paths) -> None:
    """Before anything is fetched the record counts; that nothing was compared is told."""
    accept(K3, TEXT, "c" * 40, "alice", paths)

    state = status(K3, paths, None)

    assert "accepted" == state.status
    assert state.why.endswith("the text was not compared")


def test_most_models_need_no_acceptance(paths: Paths) -> None:
    """A profile that asks for none is never stopped, record or not."""
    assert "not-needed" == require(load_profile("kimi-k3", NOWHERE), paths, None).status


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"schema": 2}', b'{"schema": 1}', b'{"schema": 1, "repo": 3}', b"[" * 100_000, HUGE],
)
def test_a_damaged_record_accepts_nothing(content: bytes, paths: Paths) -> None:
    """What kboot did not write is no acceptance, and no crash."""
    accept(K3, TEXT, "c" * 40, "alice", paths)
    record_path(K3, paths).write_bytes(content)

    state = status(K3, paths, SHA)

    assert "missing" == state.status
    assert "cannot be read" in state.why


def test_another_models_record_accepts_nothing(paths: Paths) -> None:
    """A copied file does not carry an acceptance over."""
    accept(K3, TEXT, "c" * 40, "alice", paths)
    other = replace(K3, checkpoint=replace(K3.checkpoint, repo="moonshotai/Kimi-K9"))
    record_path(other, paths).write_bytes(record_path(K3, paths).read_bytes())

    assert "missing" == status(other, paths, SHA).status


def test_a_state_folder_that_cannot_be_written_is_an_action_that_failed(paths: Paths) -> None:
    """A file in place of the folder is told with its path; no acceptance is claimed."""
    paths.state.parent.mkdir(exist_ok=True)
    paths.state.write_text("not a folder")

    with pytest.raises(ActionFailed):
        accept(K3, TEXT, "c" * 40, "alice", paths)

    assert "missing" == status(K3, paths, SHA).status
