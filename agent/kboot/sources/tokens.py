"""Which Hub token is there, where does it come from, and who may see it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from kboot.errors import SourceError
from kboot.host.files import read_small
from kboot.sources.proxies import Origin
from kboot.values import dataclass

_LIMIT_BYTES = 4096
_TOKEN = re.compile(r"[!#-&(-~]+")  # what fits into a header, but for quotes

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Token:
    """value: the secret, empty = none. origin: where it comes from, for messages ("HF_TOKEN", a file's path)."""

    value: str = field(default="", repr=False)
    origin: str = ""


def find_token(env: Mapping[str, str], token_file: str = "") -> Token:
    """Return the token to use: `token_file`, HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, the Hub client's file.

    Raises:
        SourceError: code "token-file-not-readable": a file that was named cannot be read; "token-not-valid": what
            stands there can be no token. It is never shown.
    """
    if token_file:
        return _from_file(Path(token_file), named="token_file")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if value := env.get(name, "").strip():
            return _checked(value, name)
    if path := env.get("HF_TOKEN_PATH"):
        return _from_file(_place(path, env), named="HF_TOKEN_PATH")
    if env.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return Token()
    return _from_file(_default_file(env), named="")


def may_see_token(origin: Origin) -> bool:
    """Return whether a token may be sent there: never in clear text, except to this machine itself."""
    return origin.scheme == "https" or origin.is_loopback


def _default_file(env: Mapping[str, str]) -> Path:
    cache = env.get("XDG_CACHE_HOME") or f"{env.get('HOME') or '/nonexistent'}/.cache"
    return _place(env.get("HF_HOME") or f"{cache}/huggingface", env) / "token"


def _place(text: str, env: Mapping[str, str]) -> Path:
    """Return the path that the Hub's client takes it for, which no shell has read: "~/hf", "$HOME/hf"."""
    if text.partition("/")[0] == "~":
        text = env.get("HOME", "~") + text[1:]
    return Path(_VARIABLE.sub(lambda found: env.get(found[1] or found[2], found[0]), text))


def _from_file(path: Path, named: str) -> Token:
    try:
        data = read_small(path, _LIMIT_BYTES)
    except OSError as exc:
        if not named:
            return Token()
        raise SourceError(
            "token-file-not-readable",
            f"{named} names {path}, which cannot be read as a token",
            where=(exc.__class__.__name__,),
            hint=f"put the token there with mode 0600, or leave out {named}",
        ) from exc
    value = data.decode("utf-8-sig", "replace").strip()
    return _checked(value, str(path)) if value else Token()


def _checked(value: str, origin: str) -> Token:
    if _TOKEN.fullmatch(value):
        return Token(value, origin)
    raise SourceError(
        "token-not-valid",
        f"{origin} holds something that can be no token: it has {_oddity(value)}",
        hint="the token alone is wanted, in ASCII, without quotes (`docker run --env-file` keeps them) and 'Bearer'",
    )


def _oddity(value: str) -> str:
    if not value.isascii():
        return "characters that are not ASCII"
    if "\n" in value or "\r" in value:
        return "more than one line"
    return "quotes" if '"' in value or "'" in value else "blanks or control characters"
