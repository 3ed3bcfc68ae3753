"""`kboot bake`: prepare, look, seal; and never the wrong machine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cli_run import Kboot, hub

CASES = Path(__file__).parents[1] / "cases"
TOKEN = "hf_" + "CanaryCanaryCanary42"


def put(root: Path, path: str, text: str = "x") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_prepared_then_sealed_in_one_call_of_each(kboot: Kboot, tmp_path: Path) -> None:
    """Bytes, manifest and doctor first; a tree with its builder's traces is sealed by another call, as in a build."""
    with hub(tmp_path) as endpoint:
        ran = kboot("bake", "--profile", "demo", "--json", env={"HF_ENDPOINT": endpoint, "HF_TOKEN": TOKEN})

    assert (0, "bake", 0) == (ran.status, ran.doc["kind"], ran.doc["exit_status"])
    assert ["kernel warm-up"] == ran.doc["deferred"]
    assert "profile to boot" in ran.doc["left_out"]  # this kboot.toml names none
    assert ran.doc["digest"] == json.loads((kboot.folder / "state/bake.json").read_text())["digest"]
    assert [] == [str(p) for p in kboot.folder.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]

    image = tmp_path / "image"
    put(image, "etc/machine-id", "0" * 32)
    shutil.copytree(kboot.folder / "state", image / "var/lib/kboot", symlinks=True)
    put(image, "var/lib/kboot/node.key", "k" * 32)
    sealed = kboot("bake", "--finish", "--root", str(image), "--json")

    assert (0, True) == (sealed.status, sealed.doc["seal"]["sealed"])
    assert {"/etc/machine-id", "/var/lib/kboot/ledger.db", "/var/lib/kboot/node.key"} <= {
        a["path"] for a in sealed.doc["seal"]["actions"]
    }
    assert (image / "var/lib/kboot/models/demo/config.json").is_file()


@pytest.mark.parametrize(("case", "found", "reported"), [("B147", 4, 0), ("B149", 0, 1)])
def test_cases_of_images_that_went_out_with_logins(
    kboot: Kboot, tmp_path: Path, case: str, found: int, reported: int
) -> None:
    """B147: four logins are taken away. B149: who may log in is reported, and goes only when asked."""
    shutil.copytree(CASES / case, tmp_path / "image")
    ran = kboot("bake", "--finish", "--root", str(tmp_path / "image"), "--json")
    again = kboot("bake", "--finish", "--root", str(tmp_path / "image"), "--remove-login-keys", "--json")

    assert (0, found, reported) == (ran.status, ran.doc["seal"]["found"], len(ran.doc["seal"]["reported"]))
    assert (0, reported, []) == (again.status, again.doc["seal"]["found"], again.doc["seal"]["reported"])


def test_a_bake_without_a_gpu_takes_its_targets_from_the_configuration(kboot: Kboot, tmp_path: Path) -> None:
    """B150: with the builder's environment of the case, no driver and no GPU: done, and the warm-up is deferred."""
    name, _, value = (CASES / "B150/env").read_text().strip().partition("=")
    with hub(tmp_path) as endpoint:
        ran = kboot("bake", "--profile", "demo", "--json", env={"HF_ENDPOINT": endpoint, name: value})

    expect = json.loads((CASES / "B150/case.json").read_text())["expect"]
    assert (expect["exit"], expect["deferred"]) == (ran.status, ran.doc["deferred"])


def test_the_machine_itself_is_not_sealed_by_mistake(kboot: Kboot) -> None:
    """Neither by `--finish` alone nor by `--root /`; nothing was looked at, let alone changed."""
    for words in (["--finish"], ["--finish", "--root", "/"]):
        ran = kboot("bake", *words, "--json")

        assert (2, "seal-not-an-image") == (ran.status, ran.doc["code"])


def test_words_of_sealing_without_it_are_a_mistake(kboot: Kboot) -> None:
    """`--this-machine` alone does nothing, and says so."""
    ran = kboot("bake", "--profile", "demo", "--this-machine")

    assert (2, True) == (ran.status, "--finish" in ran.err)


def test_preparing_works_inside_only(kboot: Kboot, tmp_path: Path) -> None:
    """The image's own interpreter compiles, its own files are judged: `--root` is for sealing."""
    ran = kboot("bake", "--profile", "demo", "--root", str(tmp_path), "--json")

    assert (2, "bake-inside") == (ran.status, ran.doc["code"])


def test_what_is_left_ends_with_a_status_and_its_name(kboot: Kboot, tmp_path: Path) -> None:
    """A build stops there."""
    image = tmp_path / "image"
    put(image, "etc/kboot/profiles/own.toml", f'sources = ["https://u:{TOKEN}@mirror"]')
    ran = kboot("bake", "--finish", "--root", str(image))

    assert 13 == ran.status
    assert "/etc/kboot/profiles/own.toml" in ran.err
    assert "must be taken away by hand" in ran.out
    assert TOKEN not in ran.out + ran.err


def test_folders_of_the_images_configuration_are_sealed(kboot: Kboot, tmp_path: Path) -> None:
    """`state_dir` and `token_file` of its kboot.toml are looked for in the image."""
    image = tmp_path / "image"
    put(image, "etc/machine-id", "")
    put(image, "etc/kboot/kboot.toml", 'schema = 1\nstate_dir = "/data/kboot"\ntoken_file = "/data/token"\n')
    put(image, "data/kboot/node.key", "k" * 32)
    put(image, "data/token", "opaque-company-token")
    ran = kboot("bake", "--finish", "--root", str(image), "--json")

    assert ["/data/kboot/node.key", "/data/token"] == [a["path"] for a in ran.doc["seal"]["actions"]]
    assert ["kboot"] == os.listdir(image / "data")


def test_a_dry_run_shows_what_would_go(kboot: Kboot, tmp_path: Path) -> None:
    """80 columns, one line and more for each thing, and nothing done."""
    image = tmp_path / "image"
    put(image, "root/.bash_history")
    ran = kboot("bake", "--finish", "--dry-run", "--root", str(image))

    assert (0, True) == (ran.status, (image / "root/.bash_history").exists())
    assert "remove /root/.bash_history" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())
