"""Showing profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kboot.host.paths import Paths
from kboot.profile.load import list_profiles, load_profile
from kboot.profile.render import profile_to_json, profile_to_text


@pytest.mark.parametrize("name", ["demo", "kimi-k3.1-pro", "deepseek-v4-pro"])
def test_what_is_shown_can_be_read_back(name: str, paths: Paths, tmp_path: Path) -> None:
    """The text form is TOML, and loads to the very same profile."""
    shown = load_profile(name, paths, ['tune.settings."/proc/sys/vm/swappiness"="1"'])
    copy = tmp_path / f"{name}.toml"
    copy.write_text(profile_to_text(shown))

    assert shown.digest == load_profile(str(copy), paths).digest


def test_each_value_stands_beside_its_origin(paths: Paths) -> None:
    """An operator sees at a glance what is default, shipped and set."""
    text = profile_to_text(load_profile("demo", paths, ["serve.stop_timeout_s=5"]))
    lines = {" ".join(line.split()) for line in text.splitlines()}

    assert "port = 8133 # profiles/models/demo.toml" in lines
    assert "stop_timeout_s = 5 # --set" in lines
    assert 'served_name = "" # default' in lines
    assert "# size_bytes is not set" in lines


def test_text_that_toml_must_escape_survives(paths: Paths, tmp_path: Path) -> None:
    """Quotes, backslashes, DEL and line ends come back as they were."""
    odd = 'a"b\\c\x7f\n\té'
    write = tmp_path / "odd.toml"
    write.write_text(
        profile_to_text(load_profile("demo", paths)).replace('title = "kboot demo"', f"title = {json.dumps(odd)}")
    )

    first = load_profile(str(write), paths)
    write.write_text(profile_to_text(first))

    assert odd == load_profile(str(write), paths).model.title


def test_the_json_form_is_plain(paths: Paths) -> None:
    """Every profile there is becomes JSON with digest and origins."""
    for summary in list_profiles(paths):
        document = json.loads(json.dumps(profile_to_json(load_profile(summary.name, paths))))

        assert {"digest", "origin", "checkpoint", "layout", "serve"} <= set(document)
