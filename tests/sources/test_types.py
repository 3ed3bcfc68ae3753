import pytest

from kboot.sources.types import is_inside


@pytest.mark.parametrize("path", ["config.json", "a/b/model.safetensors", ".gitattributes", "a b/ü.txt", "..x/y"])
def test_plain_paths_are_inside(path: str) -> None:
    """Relative paths of names are taken as they are."""
    assert is_inside(path)


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a/./b", "a//b", "a/", "a\0b", "a\nb", "..", "a\\b", "x" * 5000]
)
def test_paths_that_lead_elsewhere_are_not(path: str) -> None:
    """Nothing a listing names may leave the folder, hide in a name or break a line of a log."""
    assert not is_inside(path)
