"""What do kboot's environment files set, and which lines does systemd read otherwise than a shell? Text in, values out.

Format: https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#EnvironmentFile=
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from kboot.facts.upkeep_types import EnvLine
from kboot.values import dataclass

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK = " \t"
_COMMENT = ("", "#", ";")
_ESCAPED_IN_QUOTES = '"\\`$'
_SINGLE_QUOTED = re.compile(r"'[^']*'")
_REFERENCE = re.compile(r"(?<!\\)(?:\$[\w{(]|`)")


@dataclass(frozen=True, slots=True)
class Assignment:
    """line: where it begins, from 1. key, raw: what stands before and behind "=". value: as systemd has it."""

    line: int
    key: str
    raw: str
    value: str

    @property
    def counts(self) -> bool:
        """Return whether systemd takes it: its key is the name of a variable."""
        return _NAME.fullmatch(self.key) is not None


def assignments(text: str) -> tuple[Assignment, ...]:
    """Return what a file says in its order; the last one of a name counts."""
    found = []
    for number, line in _lines(text):
        if line.lstrip(_BLANK)[:1] in _COMMENT:
            continue
        key, equals, raw = line.partition("=")
        if equals:
            found.append(Assignment(number, key.strip(_BLANK), raw, _value(raw)))
    return tuple(found)


def odd_lines(path: str, text: str) -> tuple[EnvLine, ...]:
    """Return the lines whose writer probably expected what a shell would have made of them."""
    found = []
    for each in assignments(text):
        if says := _odd(each):
            found.append(EnvLine(path, each.line, each.key if each.counts else "", says))
    return tuple(sorted([*found, *_swallowed(path, text)], key=lambda e: e.line))


def _swallowed(path: str, text: str) -> Iterator[EnvLine]:
    """Yield the lines below a comment that ends in a backslash: they belonged to it until systemd 254."""
    for (_, above), (number, line) in pairwise(_lines(text)):
        is_comment = above.lstrip(_BLANK).startswith(("#", ";"))
        name, equals, _ = line.partition("=")
        if is_comment and _ends_escaped(above) and equals and name.lstrip(_BLANK)[:1] not in _COMMENT:
            name = name.strip(_BLANK)
            yield EnvLine(path, number, name, f"{name} is not set before systemd 254: the comment above ends in \\")


def _odd(each: Assignment) -> str:
    if each.key.startswith("export ") and _NAME.fullmatch(each.key.removeprefix("export ").strip()):
        return f"{each.key} is not set: systemd ignores lines with `export`"
    if not each.counts:
        return f"{each.key[:40]!r} is no name of a variable: systemd ignores the line"
    if _REFERENCE.search(_SINGLE_QUOTED.sub("''", each.raw)):
        return f"{each.key}: the variable reference is not expanded, its value is {each.value!r}"
    words = _words(each.raw)
    if words is None or words == each.value:
        return ""
    kept = " with the comment" if re.search(r"(?:^|\s)#", each.raw) else ""
    return f"{each.key} is {each.value!r}{kept}; a shell would have taken {words!r}"


def _words(raw: str) -> str | None:
    """Return what a shell assigns; None where it would call the line an error."""
    try:
        words = shlex.split(raw)
    except ValueError:
        return None
    first = words[0] if words and raw[:1] not in _BLANK else ""
    return "" if raw.startswith("#") else first


def _lines(text: str) -> list[tuple[int, str]]:
    """Return the logical lines: a value goes on behind a newline that is escaped or inside quotes."""
    found: list[tuple[int, str]] = []
    begun, quote, kept = 0, "", ""
    for number, line in enumerate(text.split("\n"), 1):
        whole = kept + line
        begun = begun if kept else number
        quote = _open_quote(whole)
        if quote or (_ends_escaped(whole) and "=" in whole and whole.lstrip(_BLANK)[:1] not in _COMMENT):
            kept = whole + "\n"
            continue
        found.append((begun, whole))
        kept = ""
    return [*found, (begun, kept.rstrip("\n"))] if kept else found


def _open_quote(line: str) -> str:
    if line.lstrip(_BLANK).startswith(("#", ";")) or "=" not in line:
        return ""
    return _parse(line.partition("=")[2])[1]


def _ends_escaped(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _value(raw: str) -> str:
    return _parse(raw)[0]


def _parse(raw: str) -> tuple[str, str]:
    """Return the value, and the quote that is still open at its end.

    A quote counts at the beginning of the value and right behind another quoted part; inside a bare word it is text.
    """
    out: list[str] = []
    quote, bare, blanks, at = "", False, 0, 0
    while at < len(raw):
        c = raw[at]
        at += 1
        if quote:
            if c == quote:
                quote, bare = "", False
            elif c == "\\" and quote == '"' and at < len(raw):
                out.append("" if raw[at] == "\n" else raw[at] if raw[at] in _ESCAPED_IN_QUOTES else c + raw[at])
                at += 1
            else:
                out.append(c)
        elif c == "\r":
            break  # ends a line as \n does, except inside quotes
        elif not bare and c in ("'", '"'):
            quote = c
        elif c == "\\":
            bare, blanks = True, 0
            out.append("" if raw[at : at + 1] in ("\n", "\r", "") else raw[at])
            at += 1
        elif bare or c not in _BLANK:
            bare, blanks = True, blanks + 1 if c in _BLANK else 0
            out.append(c)
    return "".join(out[: len(out) - blanks] if blanks and not quote else out), quote
