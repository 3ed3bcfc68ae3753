"""What of a text may leave the node? Secrets, addresses and the node's names are replaced. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address

from kboot.secret_shapes import hide

_WORD = 3
"""A name of fewer letters, "ai" or "x", is more often a word, one of digits a number: they go where a machine is."""

_HOST_KEYS = frozenset({"hostname", "host", "node", "nodename", "machine", "server", "me", "holder"})
_KEPT_NAMES = frozenset({"localhost", "localhost.localdomain"})
_KEPT_ADDRESSES = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::"})
_NAME = r"[\w.-]*(?:token(?!s(?![a-z])|iz)|passw(?:or)?d|secret|api[_-]?key|access[_-]?key|credential)[\w.-]*"
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|\S+)"""
_NAMED_SO = re.compile(rf"(?i){_NAME}")
_OPTION = re.compile(rf"(?i)--?{_NAME}")
_SECRETS = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|.*)", re.DOTALL),
        "<secret>",
    ),
    (re.compile(r"\b(?:hf|gh[opsu]|github_pat|glpat|xox[abp]|sk|nvapi)[_-][A-Za-z0-9_-]{8,}"), "<secret>"),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"), "<secret>"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]+)?"), "<secret>"),
    (re.compile(r"(?i)\bbearer\s+\S+"), "Bearer <secret>"),
    (re.compile(r"(?i)(\bauthorization[\"']?\s*[=:]\s*)(?:basic\s+)?(?!Bearer <)\S+"), r"\1<secret>"),
    (re.compile(rf"(?i)({_NAME}[\"']?\s*[=:]\s*){_VALUE}"), r"\1<secret>"),
    (re.compile(rf"(?i)(?<!\S)(--?{_NAME}\s+)(?!-){_VALUE}"), r"\1<secret>"),
    (re.compile(r"://[^/\s@]+@"), "://<secret>@"),
    (re.compile(r"(://[^\s?\"'<>]+\?)[^\s\"'<>)]+"), r"\1<secret>"),
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
    text = hide(text, "<secret>")
    text = _MAC.sub("<mac>", text)
    text = _ADDRESS.sub(_address, text)
    for name in sorted({part for each in names for part in (each, each.partition(".")[0])}, key=len, reverse=True):
        if name and name not in _KEPT_NAMES:
            text = _without(name, text)
    return text


def _without(name: str, text: str) -> str:
    """Return the text without a machine's name: a word of its own, or of a short one the places of names."""
    bare = re.escape(name)
    if not name.isdigit() and (len(name) >= _WORD or not name.isalpha()):
        return re.sub(rf"(?<![\w-]){bare}(?![\w-])", "<host>", text)
    before = r"(?:(?<=://)|(?<=@)|(?<=\bon )|(?<=\bhost )|(?<=\bnode )|(?<=hostname[ =:])|(?<=hostname: ))"
    return re.sub(rf"{before}{bare}(?![\w-])|(?<![\w./-]){bare}(?=:/|\.\w)", "<host>", text)


def redact_document(value: object, names: Iterable[str] = ()) -> object:
    """Return a JSON value with every text in it redacted, keys too."""
    known = tuple(names)
    if isinstance(value, str):
        return redact(value, known)
    if isinstance(value, Mapping):
        return {redact(str(key), known): _redact_named(str(key), each, known) for key, each in value.items()}
    if isinstance(value, list | tuple):
        before = ("", *value)  # of ["--api-key", "x"] the second is a secret
        return [
            _redact_named(b, each, known)
            if isinstance(b, str) and _OPTION.fullmatch(b)
            else redact_document(each, known)
            for b, each in zip(before, value, strict=False)
        ]
    return value


def _redact_named(name: str, value: object, names: tuple[str, ...]) -> object:
    """Return a value without secrets; a text whose name says that it is one goes as a whole."""
    if isinstance(value, str) and value and _NAMED_SO.fullmatch(name):
        return value if value.startswith("/") else "<secret>"  # the path of a token file is evidence
    if name.lower() in _HOST_KEYS and value in names and value not in _KEPT_NAMES:
        return "<host>"
    return redact_document(value, names)


def _address(match: re.Match[str]) -> str:
    text = match.group()
    dot = text[len(text.rstrip(".")) :]  # the end of a sentence
    bare = text.rstrip(".")
    try:
        ip_address(bare)
    except ValueError:
        return text
    return text if bare in _KEPT_ADDRESSES else f"<address>{dot}"
