"""What of a text may leave the node? Secrets, addresses and the node's names are replaced. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

_MIN_NAME = 3
_KEPT_NAMES = frozenset({"localhost", "localhost.localdomain"})
_KEPT_ADDRESSES = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::"})
_SECRETS = (
    (re.compile(r"\b(?:hf|ghp|gho|ghs|xox[abp]|sk|nvapi)[_-][A-Za-z0-9_-]{8,}"), "<secret>"),
    (re.compile(r"\bAKIA[0-9A-Z]{12,}"), "<secret>"),
    (re.compile(r"(?i)\bbearer\s+\S+"), "Bearer <secret>"),
    (
        re.compile(r"(?i)([\w.-]*(?:token|passw(?:or)?d|secret|api[_-]?key|credential)[\w.-]*\s*[=:]\s*)\S+"),
        r"\1<secret>",
    ),
    (re.compile(r"://[^/\s@]+@"), "://<secret>@"),
)
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_ADDRESS = re.compile(
    r"(?<![\w:.])(?:\d{1,3}(?:\.\d{1,3}){3}(?!\.?\w)|[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*(?![\w:]))"
)


def redact(text: str, names: Iterable[str] = ()) -> str:
    """Return the text without tokens, passwords, network and hardware addresses, and without these names.

    PCI addresses, version numbers and loopback stay: they are evidence and name nobody.
    """
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    text = _MAC.sub("<mac>", text)
    text = _ADDRESS.sub(_address, text)
    for name in sorted({part for each in names for part in (each, each.partition(".")[0])}, key=len, reverse=True):
        if len(name) >= _MIN_NAME and name not in _KEPT_NAMES:
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "<host>", text)
    return text


def redact_document(value: object, names: Iterable[str] = ()) -> object:
    """Return a JSON value with every text in it redacted, keys too."""
    known = tuple(names)
    if isinstance(value, str):
        return redact(value, known)
    if isinstance(value, Mapping):
        return {redact(str(key), known): redact_document(each, known) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [redact_document(each, known) for each in value]
    return value


def _address(match: re.Match[str]) -> str:
    text = match.group()
    dot = text[len(text.rstrip(".")) :]  # the end of a sentence
    bare = text.rstrip(".")
    try:
        ip_address(bare)
    except ValueError:
        return text
    return text if bare in _KEPT_ADDRESSES else f"<address>{dot}"
