"""`kboot fit`: does a model fit, and on what?"""

from __future__ import annotations

from cli_run import Kboot, hub

from fakes.hub import REPO, FakeHub, Status


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


def test_a_folder_is_measured_by_its_headers(kboot: Kboot) -> None:
    """A path is laid out by what its headers say; holes count, other files do not."""
    place = kboot.folder / "model"
    place.mkdir()
    header = b'{"a.weight":{"dtype":"BF16","shape":[3000000,5000],"data_offsets":[0,30000000000]}}'
    with open(place / "model.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 30 * 10**9)
    (place / "README.md").write_text("x" * 1000)
    ran = kboot("fit", str(place), "--json")

    assert (30 * 10**9, True) == (ran.doc["weights_bytes"], ran.doc["headers"])
    assert {30 * 10**9} == {row["rank"]["largest_bytes"] for row in ran.doc["rows"]}


def test_a_folder_of_another_format_is_measured_by_its_files(kboot: Kboot) -> None:
    """Without safetensors there are no headers: the size is divided evenly, and the answer says so."""
    place = kboot.folder / "model"
    place.mkdir()
    with open(place / "model.gguf", "wb") as file:
        file.truncate(30 * 10**9)
    ran = kboot("fit", str(place), "--json")

    assert (30 * 10**9, False) == (ran.doc["weights_bytes"], ran.doc["headers"])
    assert any("divided evenly" in note for note in ran.doc["notes"])


def test_a_repository_is_judged_before_a_byte_of_its_data_is_fetched(kboot: Kboot) -> None:
    """Headers come in ranges from the Hub; nothing of the checkpoint is on this disk afterwards."""
    with hub(kboot.folder) as endpoint:
        ran = kboot("fit", "kboot/demo-moe", "--json", env={"HF_ENDPOINT": endpoint})

    assert (0, True) == (ran.status, ran.doc["headers"])
    assert "routed experts" in ran.doc["tensors"]
    assert ran.doc["weights_from"].startswith("headers of ")
    assert not (kboot.folder / "state" / "hub").exists()


def test_a_profile_whose_source_is_away_is_judged_by_its_published_size(kboot: Kboot) -> None:
    """The answer says where the size comes from, and why not from the headers."""
    ran = kboot("fit", "kimi-k3.1-pro", "--json")

    assert ran.doc["weights_from"].startswith("as published, from the profile; ")
    assert "refuses connections" in ran.doc["weights_from"]


def test_costs_carry_their_date_and_the_rate_that_pays(kboot: Kboot) -> None:
    """Per hour of each layout that fits, and from how many tokens a second it is cheaper than the API."""
    costs = kboot("fit", "kimi-k3.1-pro", "--json", "--offline").doc["costs"]

    assert "8x-b300: $68.08 an hour (8x B300, spot, as of 2026-11-11)" in costs
    assert any(
        line.startswith("8x-b300: cheaper than the API")
        and "output tokens on: 1,891/s with 0 input tokens each" in line
        for line in costs
    )


def test_a_folder_without_weights_and_one_that_is_not_there_are_told_apart(kboot: Kboot) -> None:
    """Both are errors of their own."""
    (kboot.folder / "empty").mkdir()

    assert 11 == kboot("fit", str(kboot.folder / "empty")).status
    assert 2 == kboot("fit", "/nowhere/at/all").status
    assert 2 == kboot("fit", "kimi-k3.1-pro", "--gpu", "X900").status


def test_a_repository_that_is_not_here_needs_a_source(kboot: Kboot) -> None:
    """Offline, a repository without a listing on this disk is a missing fact."""
    assert 11 == kboot("fit", "owner/model", "--offline").status


def test_what_stands_behind_the_at_sign_must_be_a_revision(kboot: Kboot) -> None:
    """It becomes a part of a path and of a URL; what is too long for a path is no folder."""
    for revision in ("../../../etc/hostname", "a b", "\udcff", "a" * 5000):
        ran = kboot("fit", f"org/m@{revision}", "--json")
        assert (2, "revision-not-valid") == (ran.status, ran.doc["code"])


def test_who_waits_for_a_hub_is_told(kboot: Kboot) -> None:
    """A rate limit may hold an answer back for minutes."""
    with FakeHub({"model.gguf": b"weights"}) as limited:
        limited.api_status = [Status(429, {"Retry-After": "0"})]
        ran = kboot("fit", REPO, env={"HF_ENDPOINT": limited.url})

    assert "answers 429: too many requests; asking again in 0.50 s\n" in ran.err
