"""`kboot profile`: which profiles are there, what do they say, and are they valid?"""

from __future__ import annotations

from cli_run import Kboot


def test_the_shipped_profiles_are_listed_and_all_valid(kboot: Kboot) -> None:
    """Every profile that comes with kboot is listed and passes its check."""
    names = {p["name"] for p in kboot("profile", "list", "--json").doc["profiles"]}

    assert {"demo", "kimi-k3.1-pro", "deepseek-v4-pro"} <= names
    assert "demo" in kboot("profile", "list").out
    assert (0, True) == (
        kboot("profile", "check", "--all").status,
        kboot("profile", "check", "--all", "--json").doc["valid"],
    )


def test_the_list_shows_the_layouts_and_the_file(kboot: Kboot) -> None:
    """As its help says; no line is wider than a terminal."""
    out = kboot("profile", "list").out

    assert "demo: kboot demo\n  layouts  demo-2-workers\n  from     kboot" in out
    assert [] == [line for line in out.splitlines() if len(line) > 80]


def test_a_file_that_is_not_there_is_called_a_file(kboot: Kboot) -> None:
    """What has a slash is a path: no list of names answers it."""
    said = kboot("plan", "--profile", "./nosuch.toml").err

    assert "there is no file ./nosuch.toml" in said
    assert "known:" not in said


def test_verify_of_what_this_disk_does_not_know_speaks_of_this_disk(kboot: Kboot) -> None:
    """Nobody said --offline, so the error does not; status 17, as its help says."""
    ran = kboot("verify", "--profile", "demo", "--set", "checkpoint.repo=kboot/other")

    assert 17 == ran.status
    assert "nothing is known of kboot/other at main on this disk" in ran.err
    assert "kboot fetch --profile demo" in ran.err
    assert "--offline" not in ran.err


def test_an_endpoint_that_is_no_url_is_named(kboot: Kboot) -> None:
    """The error shows what was given and which variable it came from."""
    said = kboot("fetch", "--profile", "demo", env={"HF_ENDPOINT": "notaurl"}).err

    assert "'notaurl' is not an http or https URL" in said
    assert "HF_ENDPOINT" in said


def test_a_profile_is_shown_with_the_origin_of_each_value(kboot: Kboot) -> None:
    """What --set lays over a profile is shown as coming from there."""
    text = kboot("profile", "show", "demo", "--set", "serve.port=8123").out
    doc = kboot("profile", "show", "demo", "--set", "serve.port=8123", "--json").doc

    assert "port = 8123" in text
    assert ("profile", 8123) == (doc["kind"], doc["serve"]["port"])
    assert "--set" in doc["origin"]["serve.port"]


def test_the_configurations_profile_is_meant_where_none_is_named(kboot: Kboot) -> None:
    """kboot.toml names the node's profile; where it does not either, that is an error with a hint."""
    assert 10 == kboot("profile", "check").status
    assert "hint: `kboot profile list`" in kboot("profile", "check").err

    (kboot.folder / "etc/kboot.toml").write_text('profile = "demo"\n')

    assert "demo: valid" in kboot("profile", "check").out


def test_a_profile_that_is_not_valid_names_every_problem(kboot: Kboot) -> None:
    """Unknown keys and impossible values are named at once; with --json they are in the document."""
    path = kboot.folder / "mine.toml"
    path.write_text('schema = 1\n[checkpoint]\nrepo = "a/b"\nrepoo = 1\n[serve]\nport = 99999999\n')
    text, doc = kboot("profile", "check", str(path)), kboot("profile", "check", str(path), "--json")

    assert (10, 10) == (text.status, doc.status)
    assert "repoo" in text.err
    assert "port" in text.err
    assert "profile-not-valid" == doc.doc["code"]


def test_check_all_finds_the_one_that_is_not_valid(kboot: Kboot) -> None:
    """One bad profile of the operator's makes the check of all fail, naming it."""
    (kboot.folder / "etc/profiles").mkdir()
    (kboot.folder / "etc/profiles/bad.toml").write_text("schema = 2\n")
    ran = kboot("profile", "check", "--all")

    assert 10 == ran.status
    assert "bad: not valid" in ran.out
    assert "demo: valid" in ran.out


def test_an_unknown_profile_is_one_clear_error_everywhere(kboot: Kboot) -> None:
    """Commands that take a profile answer alike: code, what is known, status 10."""
    for words in (["plan"], ["boot"], ["fetch"], ["verify"], ["warm"], ["doctor"], ["license", "show"], ["daemon"]):
        ran = kboot(*words, "--profile", "demoo")

        assert 10 == ran.status, words
        assert ran.err.startswith("error: profile-not-found\n"), ran.err
        assert "did you mean demo?" in ran.err
