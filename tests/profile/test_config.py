"""kboot.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.errors import ProfileError
from kboot.host.paths import Paths
from kboot.profile.config import load_config
from kboot.profile.node_config import NodeConfig


def write(paths: Paths, text: str) -> Path:
    """Write `<config>/kboot.toml`."""
    paths.config.mkdir(parents=True)
    file = paths.config / "kboot.toml"
    file.write_text(text)
    return file


def test_no_file_means_all_defaults(paths: Paths) -> None:
    """A node without configuration is a node with the default one."""
    assert NodeConfig() == load_config(None, paths)


def test_the_file_of_the_configuration_folder_is_read(paths: Paths) -> None:
    """`<config>/kboot.toml` names the profile to boot."""
    write(paths, 'schema = 1\nprofile = "kimi-k3"\ntoken_file = "/etc/kboot/token"\n')

    assert NodeConfig(profile="kimi-k3", token_file="/etc/kboot/token") == load_config(None, paths)


def test_a_file_that_was_asked_for_must_be_there(paths: Paths, tmp_path: Path) -> None:
    """`--config` with a path that does not exist is an error, not a default."""
    with pytest.raises(ProfileError) as caught:
        load_config(tmp_path / "none.toml", paths)

    assert "config-not-found" == caught.value.code


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('state = "/x"\n', "state is unknown; the nearest known key is state_dir"),
        ('state_dir = "relative"\n', 'state_dir is "relative"; wanted: an absolute path'),
        ('profile = "../x"\n', 'profile is "../x"; wanted: a-z, 0-9'),
        ("profile = 3\n", "profile is 3; wanted: text"),
        ("[fetch]\nstreams = 1\n", "fetch is unknown; known here: metrics_file, metrics_port, operator, profile"),
        ('[operator]\nuse = "resale"\n', "operator.use is"),
        ("[operator]\nmonthly_users = -1\n", "operator.monthly_users is -1; wanted: at least 0"),
    ],
)
def test_a_bad_key_is_named(text: str, line: str, paths: Paths) -> None:
    """The configuration is checked as profiles are."""
    file = write(paths, text)

    with pytest.raises(ProfileError) as caught:
        load_config(None, paths)

    assert "config-not-valid" == caught.value.code
    assert caught.value.where[0].startswith(f"{file}: {line}"), caught.value.where


def test_a_token_in_place_of_its_file_is_not_repeated(paths: Paths) -> None:
    """A token written into kboot.toml is refused; the message does not carry it."""
    token = "hf_" + "x" * 34
    write(paths, f'token_file = "{token}"\n')

    with pytest.raises(ProfileError) as caught:
        load_config(None, paths)

    assert token not in str(caught.value.to_json())
    assert any("a Hub token" in line for line in caught.value.where)
