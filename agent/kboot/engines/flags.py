"""Does the installed engine know the flags and parsers of a command line?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Literal

from kboot.engines.common import version
from kboot.engines.flags_data import FLAGS, REASONING_PARSERS, TOOL_PARSERS, VERSIONS, Words
from kboot.values import dataclass

WordKind = Literal["flag", "tool parser", "reasoning parser"]
_TABLES: Mapping[WordKind, Mapping[str, Words]] = {
    "flag": FLAGS,
    "tool parser": TOOL_PARSERS,
    "reasoning parser": REASONING_PARSERS,
}
_PARSERS: Mapping[str, tuple[WordKind, str]] = {
    # flag → what its value names, and the flag with which a plugin brings others
    "--tool-call-parser": ("tool parser", "--tool-parser-plugin"),
    "--reasoning-parser": ("reasoning parser", "--reasoning-parser-plugin"),
}
_BETWEEN = re.compile(r"\d(?:\.?dev|a|b|rc)\d")
_NUMBER = re.compile(r"-\d")
_JOINED = ("-O", "-cc", "-ac", "-kc", "-tc")  # vLLM writes some values against the flag: -O3, -cc.mode=3


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word that a version does not know. known_in: other versions that do. near: words of this one like it."""

    kind: WordKind
    word: str
    known_in: tuple[str, ...]
    near: tuple[str, ...]

    @property
    def text(self) -> str:
        """ "tool parser kimi_k3 (known to 0.27.1 and later)"."""
        more = f"known to {self.known_in[0]} and later" if self.known_in else "known to no version kboot was told of"
        near = f"; near it: {', '.join(self.near)}" if self.near else ""
        return f"{self.kind} {self.word} ({more}{near})"


def known_versions(engine: str) -> tuple[str, ...]:
    """Return the versions whose words are known, oldest first; none for engines without such data."""
    return tuple(VERSIONS.get(engine, "").split())


def nearest_version(engine: str, installed: str | None) -> tuple[str | None, bool]:
    """Return the known version of the same minor number, and whether it is exactly the installed one.

    A build between releases ("0.28.0rc2.dev9+g1a2b") may know more or less than its number says (vllm#49215).
    """
    number = version(installed)
    for known in known_versions(engine):
        if version(known)[:2] == number[:2]:
            return known, version(known) == number[:3] and not _BETWEEN.search(installed or "")
    return None, False


def unknown_words(engine: str, known: str, args: Sequence[str]) -> tuple[UnknownWord, ...]:
    """Return what a known version does not know of these arguments, in their order.

    A flag may be shortened as far as it is unique, written with underscores, negated with --no-, and carry a key of its
    value (--compilation-config.mode), all as the engines' own parsers have it.
    """
    found: list[UnknownWord] = []
    names = {arg.partition("=")[0] for arg in args}
    for at, arg in enumerate(args):
        if not arg.startswith("-") or _NUMBER.match(arg) or arg in ("-", "--"):
            continue
        name, joined, value = arg.partition("=")
        if not _knows_flag(engine, known, name):
            found.append(_unknown(engine, known, "flag", name))
        if name in _PARSERS:
            kind, plugin = _PARSERS[name]
            word = value if joined else (args[at + 1] if at + 1 < len(args) else "")
            words = _words(kind, engine, known)
            if words and word not in words and plugin not in names:
                found.append(_unknown(engine, known, kind, word))
    return tuple(found)


def _knows_flag(engine: str, known: str, name: str) -> bool:
    flags = _words("flag", engine, known)
    plain = name.partition(".")[0].rstrip("+").replace("_", "-")
    if plain in flags or plain.replace("--no-", "--", 1) in flags:
        return True
    if not plain.startswith("--"):
        return any(plain.startswith(short) for short in _JOINED if short in flags or engine == "vllm")
    return len({flag for flag in flags if flag.startswith(plain)}) == 1


def _unknown(engine: str, known: str, kind: WordKind, word: str) -> UnknownWord:
    others = tuple(v for v in known_versions(engine) if v != known and _has(kind, engine, v, word))
    near = get_close_matches(word, sorted(_words(kind, engine, known)), 3, 0.75)
    return UnknownWord(kind, word, others, tuple(near))


def _has(kind: WordKind, engine: str, known: str, word: str) -> bool:
    return _knows_flag(engine, known, word) if kind == "flag" else word in _words(kind, engine, known)


@cache
def _words(kind: WordKind, engine: str, known: str) -> frozenset[str]:
    found = (
        words for versions, words in _TABLES[kind].get(engine, ()) if versions == "all" or known in versions.split()
    )
    words = frozenset(word for text in found for word in text.split())
    if kind != "flag":
        return words
    return frozenset(word if word.startswith("-") else f"--{word}" for word in words)
