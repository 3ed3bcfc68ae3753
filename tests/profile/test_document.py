"""Reading one TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.errors import ProfileError
from kboot.profile.document import read_document


def error_of(data: bytes, tmp_path: Path) -> ProfileError:
    """Return the error that these bytes give."""
    path = tmp_path / "x.toml"
    path.write_bytes(data)
    with pytest.raises(ProfileError) as caught:
        read_document(path, "x.toml")
    return caught.value


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"schema = 1\nport 80\n", "(at line 2, column 6)"),
        (b"schema = \n", "(at line 1, column 10)"),
        (b'a = "open', "the file ends too early (at line 1, column 10)"),
        (b"[a]\nb = [1,\n\n", "the file ends too early (at line 4, column 1)"),
        (b"a = 1\na = 2\n", "(at line 2, column 6)"),
        (b"[a]\n[a]\n", "(at line 2, column 3)"),
        (b"a = 1\n[a]\n", "(at line 2, column 3)"),
        (b"a = 01\n", "(at line 1, column 6)"),
        (b"a = tru\n", "(at line 1, column 5)"),
        (b"a.b = 1\na = 2\n", "(at line 2, column 6)"),
        (b"schema = 1\n\xff\xfe = 2\n", "byte 0xff is not UTF-8 (at line 2, column 1)"),
        (b"\xef\xbb\xbfschema = 1\n", "it begins with a byte-order mark: save it without (at line 1, column 1)"),
        (b"s = 'caf\xe9'\n", "byte 0xe9 is not UTF-8 (at line 1, column 9)"),
        (b"\x00", "(at line 1, column 1)"),
        (b"a = " + b"[" * 5000, "values are nested more than 16 deep"),
        (b"a" + b".a" * 5000 + b" = 1\n", "values are nested more than 16 deep"),
        (b"<html><body>404</body></html>\n", "(at line 1, column 1)"),
    ],
)
def test_broken_toml_names_the_place(data: bytes, position: str, tmp_path: Path) -> None:
    """File, line and column, whatever is broken, and no traceback."""
    error = error_of(data, tmp_path)

    assert "profile-broken-toml" == error.code
    assert ("x.toml",) == error.where
    assert error.message.endswith(position), error.message


def test_a_missing_file_is_told_as_such(tmp_path: Path) -> None:
    """The code tells a missing file from a broken one."""
    with pytest.raises(ProfileError) as caught:
        read_document(tmp_path / "none.toml", "none.toml", "config")

    assert "config-not-found" == caught.value.code


def test_windows_line_ends_are_taken(tmp_path: Path) -> None:
    """A file edited on another system means the same."""
    path = tmp_path / "x.toml"
    path.write_bytes(b"[serve]\r\nport = 80\r\n")

    assert {"serve": {"port": 80}} == read_document(path, "x.toml").values
