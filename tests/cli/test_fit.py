"""`kboot fit`: does a model fit, and on what?"""

from __future__ import annotations

from cli_run import Kboot


def test_a_profile_is_laid_on_its_layouts_and_one_node_of_each_class(kboot: Kboot) -> None:
    """The published 1,561 GB fit 8x B300 and not 8x B200, which is 25 GB short."""
    ran = kboot("fit", "kimi-k3.1-pro", "--json")
    over = {(r["gpu"], r["gpus"]): round(r["over_bytes"] / 1e9) for r in ran.doc["rows"]}

    assert (0, "fit", True) == (ran.status, ran.doc["kind"], ran.doc["fits"])
    assert (743, -25, 1511) == (over["B300", 8], over["B200", 8], over["B200", 16])
    assert "8x B300" in kboot("fit", "kimi-k3.1-pro").out


def test_what_does_not_fit_has_status_15_and_names_what_does(kboot: Kboot) -> None:
    """The question is answered with the table, the error with the nearest that fits."""
    ran = kboot("fit", "kimi-k3.1-pro", "--gpu", "B200", "--gpus", "8", "--nodes", "1")
    doc = kboot("fit", "kimi-k3.1-pro", "--gpu", "B200", "--gpus", "8", "--nodes", "1", "--json")

    assert (15, 15) == (ran.status, doc.status)
    assert "−25 GB" in ran.out
    assert "8x B300" in ran.err
    assert doc.doc["fits"] is False


def test_a_folder_is_measured_by_its_files(kboot: Kboot) -> None:
    """A path is laid out by the size of its weight files; holes count, other files do not."""
    place = kboot.folder / "model"
    place.mkdir()
    with open(place / "model.safetensors", "wb") as file:
        file.truncate(30 * 10**9)
    (place / "README.md").write_text("x" * 1000)

    assert 30 * 10**9 == kboot("fit", str(place), "--json").doc["weights_bytes"]


def test_a_folder_without_weights_and_one_that_is_not_there_are_told_apart(kboot: Kboot) -> None:
    """Both are errors of their own."""
    (kboot.folder / "empty").mkdir()

    assert 11 == kboot("fit", str(kboot.folder / "empty")).status
    assert 2 == kboot("fit", "/nowhere/at/all").status
    assert 2 == kboot("fit", "kimi-k3.1-pro", "--gpu", "X900").status


def test_a_repository_that_is_not_here_needs_a_source(kboot: Kboot) -> None:
    """Offline, a repository without a listing on this disk is a missing fact."""
    assert 11 == kboot("fit", "owner/model", "--offline").status
