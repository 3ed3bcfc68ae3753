"""Finding, merging and reading profiles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from operator_files import SMALLEST, write_profile

from kboot.errors import ExitStatus, ProfileError
from kboot.host.paths import Paths
from kboot.profile.load import list_profiles, load_node_classes, load_profile
from kboot.profile.render import profile_to_json


def test_an_operators_profile_is_found_by_its_name(paths: Paths) -> None:
    """`<config>/profiles/small.toml` is profile "small", and its values are traced to that file."""
    path = write_profile(paths, "small.toml")

    profile = load_profile("small", paths)

    assert "small" == profile.name
    assert "org/small" == profile.checkpoint.repo
    assert str(path) == profile.origin["checkpoint.repo"]
    assert "default" == profile.origin["serve.port"]


def test_an_operators_profile_stands_in_place_of_a_shipped_one(paths: Paths) -> None:
    """A file of the operator's wins over a shipped profile of the same name."""
    write_profile(paths, "demo.toml")

    assert "org/small" == load_profile("demo", paths).checkpoint.repo


def test_a_path_needs_no_folder_of_profiles(paths: Paths, tmp_path: Path) -> None:
    """A path to a .toml file is read where it is; its stem is the profile's name."""
    path = tmp_path / "mine.toml"
    path.write_text(SMALLEST)

    profile = load_profile(str(path), paths)

    assert ("mine", str(path)) == (profile.name, profile.origin["schema"])


def test_drop_ins_are_laid_over_in_the_order_of_their_names(paths: Paths) -> None:
    """Later drop-ins win, `--set` wins over all; each value remembers who gave it."""
    write_profile(paths, "small.toml", SMALLEST + "[serve]\nport = 1\nhost = '::1'\n")
    first = write_profile(paths, "small.d/10-a.toml", "[serve]\nport = 2\nstop_timeout_s = 5\n")
    write_profile(paths, "small.d/20-b.toml", "[serve]\nport = 3\n")

    profile = load_profile("small", paths, ["serve.port=4"])

    assert ("::1", 4, 5) == (profile.serve.host, profile.serve.port, profile.serve.stop_timeout_s)
    assert "--set" == profile.origin["serve.port"]
    assert str(first) == profile.origin["serve.stop_timeout_s"]


def test_drop_ins_reach_shipped_profiles(paths: Paths) -> None:
    """A shipped profile is changed without copying it."""
    write_profile(paths, "demo.d/port.toml", "[serve]\nport = 9000\n")

    profile = load_profile("demo", paths)

    assert (9000, "kboot/demo-moe") == (profile.serve.port, profile.checkpoint.repo)


def test_lists_replace(paths: Paths) -> None:
    """A drop-in with one [[layout]] leaves exactly that layout."""
    drop_in = '[[layout]]\nname = "one"\ngpu = "none"\ngpus_per_node = 0\nengine = "demo"\n'
    write_profile(paths, "kimi-k3.d/mine.toml", drop_in)

    assert ["one"] == [layout.name for layout in load_profile("kimi-k3", paths).layout]


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("serve.host=127.0.0.1", "serve", "host", "127.0.0.1"),
        ("serve.port = 81", "serve", "port", 81),
        ("checkpoint.revision=v1.0-rc/2", "checkpoint", "revision", "v1.0-rc/2"),
        ('checkpoint.revision="1234567"', "checkpoint", "revision", "1234567"),
        ("warm.enabled=false", "warm", "enabled", False),
        ("warm.max_memory_fraction=1", "warm", "max_memory_fraction", 1.0),
        ("checkpoint.sources=['hub', 'file:///mnt/m']", "checkpoint", "sources", ("hub", "file:///mnt/m")),
        ("serve.served_name=", "serve", "served_name", ""),
        ("serve.served_name=a=b", "serve", "served_name", "a=b"),
        ('tune.settings."/proc/sys/vm/swappiness"="1"', "tune", "settings", {"/proc/sys/vm/swappiness": "1"}),
    ],
)
def test_set_takes_toml_or_plain_text(override: str, section: str, key: str, value: object, paths: Paths) -> None:
    """What TOML cannot read and opens no quote or bracket is text."""
    write_profile(paths, "small.toml")

    profile = load_profile("small", paths, [override])

    assert value == getattr(getattr(profile, section), key)


@pytest.mark.parametrize("override", ["serve.port", "=1", "serve.port=1\nx=2", 'a"b=1', "checkpoint.sources=['hub'"])
def test_set_that_cannot_be_read_is_refused(override: str, paths: Paths) -> None:
    """The error says what form is wanted."""
    write_profile(paths, "small.toml")

    with pytest.raises(ProfileError) as caught:
        load_profile("small", paths, [override])

    assert "profile-broken-toml" == caught.value.code
    assert caught.value.where[0].startswith("--set")


def test_a_number_for_text_says_how_to_quote_it(paths: Paths) -> None:
    """`--set checkpoint.revision=1.0` is a number to TOML; the error has the words that make it text."""
    write_profile(paths, "small.toml")

    with pytest.raises(ProfileError) as caught:
        load_profile("small", paths, ["checkpoint.revision=1.0"])

    assert "--set 'checkpoint.revision=\"1.0\"'" in caught.value.where[0]
    assert "`kboot profile show` shows every key and its value" == caught.value.hint


def test_the_digest_is_of_what_is_asked_not_of_where_it_stands(paths: Paths, tmp_path: Path) -> None:
    """Comments, order and place change nothing; one value changes all."""
    write_profile(paths, "small.toml", SMALLEST + "[serve]\nport = 8000\n")
    other = tmp_path / "small.toml"
    other.write_text("# a comment\n" + SMALLEST)

    digest = load_profile("small", paths).digest

    assert 64 == len(digest)
    assert digest == load_profile(str(other), paths).digest
    assert digest != load_profile("small", paths, ["serve.port=8001"]).digest


def test_every_value_has_an_origin(paths: Paths) -> None:
    """No key of the JSON form is without one, and no origin is of a key that is not there."""
    profile = load_profile("demo", paths)
    document = profile_to_json(profile)
    del document["origin"], document["digest"], document["name"]

    keys = {
        f"{section}.{key}" if isinstance(values, dict) else section
        for section, values in document.items()
        for key in (values if isinstance(values, dict) else [""])
    }

    assert keys == set(profile.origin)
    json.dumps(document)


def test_an_unknown_profile_names_the_nearest(paths: Paths) -> None:
    """A typing error is answered with the name that was meant, and all that are known."""
    with pytest.raises(ProfileError) as caught:
        load_profile("kimi-k3.1pro", paths)

    assert "profile-not-found" == caught.value.code
    assert ExitStatus.PROFILE == caught.value.status
    assert "did you mean kimi-k3.1-pro?" == caught.value.hint
    known = caught.value.where[0].removeprefix("known: ").split(", ")
    assert {"deepseek-v4-pro", "demo", "kimi-k3", "kimi-k3.1-pro"} <= set(known)
    assert known == sorted(known)


def test_a_folder_of_very_many_profiles_fills_no_screen(paths: Paths) -> None:
    """The first are named, the rest counted; the nearest is found among all."""
    (paths.config / "profiles").mkdir(parents=True, exist_ok=True)
    for number in range(100):
        (paths.config / f"profiles/node-{number:03}.toml").touch()
    with pytest.raises(ProfileError) as caught:
        load_profile("node-0999", paths)

    assert caught.value.where[0].endswith("more")
    assert 21 > caught.value.where[0].count(",")
    assert "did you mean node-099?" == caught.value.hint


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "UPPER", "", "x" * 65, "demo\n", "ü"])
def test_impossible_names_are_refused(name: str, paths: Paths) -> None:
    """A profile's name becomes a path under models/, so it is letters, digits, `.`, `_`, `-` only."""
    with pytest.raises(ProfileError) as caught:
        load_profile(name, paths)

    assert "profile-not-valid" == caught.value.code


def test_a_path_that_is_not_there_is_a_missing_profile(paths: Paths) -> None:
    """No path trick reaches another file: what has a slash is a path, and nothing else."""
    for asked in ("../profiles/demo", "./demo", "missing.toml", "/etc/passwd/x.toml"):
        with pytest.raises(ProfileError) as caught:
            load_profile(asked, paths)

        assert "profile-not-found" == caught.value.code


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_not_a_file_is_not_opened(kind: str, paths: Paths, tmp_path: Path) -> None:
    """A folder or a named pipe in place of a profile is an error at once."""
    path = tmp_path / "odd.toml"
    path.mkdir() if kind == "folder" else os.mkfifo(path)

    with pytest.raises(ProfileError) as caught:
        load_profile(str(path), paths)

    assert "profile-not-readable" == caught.value.code


def test_a_profile_of_many_megabytes_is_not_read(paths: Paths) -> None:
    """Memory is bounded whatever lies there."""
    write_profile(paths, "small.toml", SMALLEST + "#" * (1 << 20))

    with pytest.raises(ProfileError) as caught:
        load_profile("small", paths)

    assert "the profile cannot be read: it is larger than 1,048,576 bytes" == caught.value.message


def test_an_unreadable_file_says_so(paths: Paths) -> None:
    """The system's reason is given: here a link that points to itself."""
    path = write_profile(paths, "small.toml")
    path.unlink()
    path.symlink_to("small.toml")

    with pytest.raises(ProfileError) as caught:
        load_profile("small", paths)

    assert "profile-not-readable" == caught.value.code
    assert "Too many levels of symbolic links" in caught.value.message


def test_the_list_keeps_profiles_that_are_broken(paths: Paths) -> None:
    """One bad file hides nothing, itself included."""
    write_profile(paths, "bad.toml", "schema = ")
    write_profile(paths, "small.toml", SMALLEST + '[model]\ntitle = "Small"\n')
    write_profile(paths, "Odd Name.toml")

    found = {summary.name: summary for summary in list_profiles(paths)}

    assert ("Small", ("two",), None) == (found["small"].title, found["small"].layouts, found["small"].error)
    assert "profile-broken-toml" == getattr(found["bad"].error, "code", None)
    assert "profile-not-valid" == getattr(found["Odd Name"].error, "code", None)
    assert found["demo"].error is None


def test_an_operators_node_class_replaces_the_shipped_one(paths: Paths) -> None:
    """New prices need no new kboot."""
    folder = paths.config / "nodes"
    folder.mkdir(parents=True)
    (folder / "b300.toml").write_text(
        'gpu = "B300"\ntitle = "ours"\nmatch = ["NVIDIA B300"]\nmemory_bytes = 1\ngpus_per_node = 8\n'
        'compute_capability = [10, 3]\n[[price]]\nusd_per_hour = 50\ngpus = 8\nper = "contract"\nas_of = "2026-11-30"\n'
    )

    found = {c.gpu: c for c in load_node_classes(paths)}

    assert {"B200", "B300", "H100", "H200"} == set(found)
    assert [50.0] == [price.usd_per_hour for price in found["B300"].price]
