"""What does one TOML file (or one `--set`) say, and can it be read at all?"""

from __future__ import annotations

import codecs
import errno
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any

from kboot.errors import ProfileError
from kboot.host.files import read_small
from kboot.profile.secrets import secrets_in
from kboot.values import dataclass

MAX_BYTES = 1 << 20
MAX_DEPTH = 16
_HAS_POSITION = re.compile(r"\(at line \d+, column \d+\)$")
_TOKEN_HINT = "put Hub tokens in the file that `token_file` of kboot.toml names (mode 0600), or in HF_TOKEN"


@dataclass(frozen=True, slots=True)
class Document:
    """What was read. origin: how its file is named to people. secrets: lines that hold credentials, described."""

    origin: str
    values: Mapping[str, Any]
    secrets: tuple[str, ...] = ()


def read_document(path: Path, origin: str, noun: str = "profile") -> Document:
    """Read one TOML file.

    noun: "profile" or "config"; the first word of every error code.

    Raises:
        ProfileError: no such file, not readable, not UTF-8, not TOML (with line and column).
    """
    text = _decode(_read(path, origin, noun), origin, noun)
    return Document(origin, parse(text, origin, noun), _secret_lines(text))


def parse(text: str, origin: str, noun: str = "profile") -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ProfileError: `<noun>-broken-toml`, with line and column.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise _broken(noun, origin, _with_position(str(exc), text)) from exc
    except RecursionError as exc:
        raise _broken(noun, origin, f"values are nested more than {MAX_DEPTH} deep") from exc
    if _deeper_than(values, MAX_DEPTH):
        raise _broken(noun, origin, f"values are nested more than {MAX_DEPTH} deep")
    return values


def is_missing(path: Path) -> bool:
    """Return whether there is nothing; what may not be looked at is there, and reading it tells why it cannot."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _read(path: Path, origin: str, noun: str) -> bytes:
    """A folder, pipe or device in place of the file is refused before it can block."""
    try:
        if not S_ISREG(path.stat().st_mode):
            raise ProfileError(f"{noun}-not-readable", f"the {noun} is not a regular file", where=(origin,))
        return read_small(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise ProfileError(f"{noun}-not-found", f"there is no such {noun} file", where=(origin,)) from exc
    except OSError as exc:
        too_large = f"it is larger than {MAX_BYTES:,} bytes"
        said = too_large if exc.errno == errno.EFBIG else exc.strerror or str(exc)
        raise ProfileError(
            f"{noun}-not-readable",
            f"the {noun} cannot be read: {said}",
            where=(origin,),
            hint=f"see who may read it: `namei -l {path}`",
        ) from exc


def _decode(data: bytes, origin: str, noun: str) -> str:
    if data.startswith(codecs.BOM_UTF8):
        raise _broken(noun, origin, "it begins with a byte-order mark: save it without (at line 1, column 1)")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        before = data[: exc.start]
        line = before.count(b"\n") + 1
        column = exc.start - before.rfind(b"\n")
        text = f"byte 0x{data[exc.start]:02x} is not UTF-8 (at line {line}, column {column})"
        raise _broken(noun, origin, text) from exc


def _broken(noun: str, origin: str, said: str) -> ProfileError:
    return ProfileError(
        f"{noun}-broken-toml",
        f"the {noun} is not TOML: {said}",
        where=(origin,),
        hint="TOML is described at https://toml.io; text stands in double quotes",
    )


def _with_position(said: str, text: str) -> str:
    """Give "(at end of document)", tomllib's only other place, as a line and a column."""
    if _HAS_POSITION.search(said):
        return said
    lines = text.split("\n")
    plain = said.removesuffix(" (at end of document)")
    return f"{plain}, the file ends too early (at line {len(lines)}, column {len(lines[-1]) + 1})"


def _deeper_than(values: Mapping[str, Any], depth: int) -> bool:
    """Measure without recursion: dotted keys can nest thousands of tables in one line."""
    level: list[Any] = [values]
    for _step in range(depth):
        level = [child for node in level for child in _children(node)]
    return bool(level)


def _children(node: object) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list) else []


def _secret_lines(text: str) -> tuple[str, ...]:
    return tuple(
        f"line {number} holds {kind}; {_TOKEN_HINT}"
        for number, line in enumerate(text.split("\n"), start=1)
        for kind in secrets_in(line)
    )


def parse_override(text: str) -> Document:
    """Read `section.key=value` of `--set`: the key as TOML writes it, the value as TOML or as plain text.

    Plain text (`serve.host=127.0.0.1`) is what is not TOML and opens no quote, list or table.

    Raises:
        ProfileError: `profile-broken-toml`; the value is not repeated.
    """
    key, value = _split_override(text)
    if not key or "\n" in text or "#" in key:
        raise ProfileError(
            "profile-broken-toml",
            "--set has no `=` after a key of TOML: KEY=VALUE is wanted",
            where=("--set",),
            hint="for example --set serve.port=8001",
        )
    origin = f"--set {key}"
    secrets = tuple(f"the value holds {kind}; {_TOKEN_HINT}" for kind in secrets_in(value))
    return Document("--set", _override(key, value, origin), secrets)


def _split_override(text: str) -> tuple[str, str]:
    """Split at the first `=` outside double quotes; two empty texts where there is none."""
    inside = False
    for at, char in enumerate(text):
        if char == '"':
            inside = not inside
        elif char == "=" and not inside:
            return text[:at].strip(), text[at + 1 :].strip()
    return "", ""


def _override(key: str, value: str, origin: str) -> dict[str, Any]:
    try:
        tomllib.loads(f"{key} = {value}")
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        if value[:1] in ('"', "'", "[", "{"):
            raise _broken("profile", origin, "the value opens a quote, list or table that TOML cannot read") from exc
        value = json.dumps(value, ensure_ascii=False)
    return parse(f"{key} = {value}", origin)
