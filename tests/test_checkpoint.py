"""What a listing may name."""

from __future__ import annotations

import pytest

from kboot.checkpoint import is_commit, is_file_size, is_inside


@pytest.mark.parametrize("path", ["config.json", "a/b/model.safetensors", ".gitattributes", "a b/ü.txt", "..x/y"])
def test_plain_paths_are_inside(path: str) -> None:
    """Relative paths of names are taken as they are."""
    assert is_inside(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../x", "a/../../x", "a/./b", "./a", "a/.", "a//b", "a/", ".."),
        *("a\0b", "a\nb", "a\x1bb", "a\ud800", "a\\b", "x" * 256, "/".join(["x" * 200] * 21)),
    ],
)
def test_paths_that_lead_elsewhere_are_not(path: str) -> None:
    """Nothing a listing names may leave the folder, hide in a name, break a line of a log or be too long to be made."""
    assert not is_inside(path)


def test_a_commit_is_forty_digits() -> None:
    """Branches, tags and short hashes move; only a full commit is a pin."""
    assert is_commit("0123456789abcdef" * 2 + "01234567")
    assert not is_commit("main") and not is_commit("a" * 39) and not is_commit("A" * 40)


def test_a_size_is_one_that_a_file_can_have() -> None:
    """What no file system and no database holds is none, nor what only looks like a number."""
    assert is_file_size(0) and is_file_size((1 << 63) - 1)
    assert not any(is_file_size(value) for value in (-1, 1 << 63, True, 1.0, "1", None))
