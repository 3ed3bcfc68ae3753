"""Which names in the facts are those of the operator's machines? They must not leave with a ticket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kboot.facts.types import NodeFacts

_PUBLIC = ("huggingface.co", "hf.co", "localhost", "github.com", "amazonaws.com", "googleapis.com", "windows.net")
_URL_HOST = re.compile(r"://(?:[^/@\s]*@)?\[?([A-Za-z0-9._-]+)")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)+")
_ON = re.compile(r" on (\S+)")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def private_names(facts: NodeFacts) -> tuple[str, ...]:
    """Return this node's name, those of machines that hold locks, serve mounts or stand in settings."""
    found = {name for name in _names(facts) if not name.endswith(_PUBLIC) and not name.replace(".", "").isdigit()}
    return tuple(sorted(found))


def _names(facts: NodeFacts) -> Iterator[str]:
    if facts.os.hostname:
        yield facts.os.hostname
    for lock in facts.kept.locks or ():
        yield from _ON.findall(lock.holder)
    for mount in facts.mounts:
        yield from _URL_HOST.findall(mount.device)
        yield from _NAME.findall(mount.device.partition(":/")[0] if ":/" in mount.device else "")
    for setting in facts.upkeep.environ or ():
        yield from _URL_HOST.findall(setting.value)
        if setting.name.lower() in _PROXIES:
            yield from _NAME.findall(setting.value)
