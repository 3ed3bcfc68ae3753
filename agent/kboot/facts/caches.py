"""Which kernel caches are on this disk, made under which factors?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kboot.facts.cache_scan import scan_cache
from kboot.facts.reader import Reader
from kboot.facts.types import CacheFacts, NodeFacts
from kboot.jsontext import parse_json
from kboot.store.cache_files import COMPLETE, FACTORS

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.paths import Paths
    from kboot.host.types import Host

_MACHINE_ID = "/etc/machine-id"


def collect_caches(host: Host, paths: Paths) -> tuple[CacheFacts, tuple[Gap, ...]]:
    """Read factors.json of every cache folder; folders without one are not kboot's."""
    reader = Reader(host)
    top = host.machine_path(paths.cache)
    factors_of: dict[str, Mapping[str, str]] = {}
    complete: set[str] = set()
    for name in reader.names(top):
        if name.startswith("."):  # an import under way, what was put aside
            continue
        source = f"{top}/{name}/{FACTORS}"
        if not host.exists(source):
            continue
        factors = _factors(reader, name, source)
        if factors is None:
            continue
        factors_of[name] = factors
        if host.exists(f"{top}/{name}/{COMPLETE}"):
            complete.add(name)
    compiled = host.machine_path(paths.bytecode)
    bytecode = frozenset(n for n in reader.names(compiled) if host.exists(f"{compiled}/{n}/{COMPLETE}"))
    warmed = frozenset(reader.names(host.machine_path(paths.warmed)))
    return CacheFacts(factors_of, frozenset(complete), bytecode=bytecode, warmed=warmed), reader.gaps


def with_scan(facts: NodeFacts, host: Host, paths: Paths, key: str) -> NodeFacts:
    """Return the facts with what lies in the folder of this key."""
    scan = scan_cache(paths.cache / key, machine_mark(host))
    return replace(facts, caches=replace(facts.caches, scan=scan))


def machine_mark(host: Host) -> str:
    """Return what tells this machine from a copy of its disk elsewhere, without giving its id away; empty if unknown.

    Source: /etc/machine-id, which its manual asks to be hashed before it is shown.
    """
    try:
        text = host.read_text(_MACHINE_ID).strip()
    except OSError:
        return ""
    return hashlib.sha256(f"kboot {text}".encode()).hexdigest()[:16] if text else ""


def _factors(reader: Reader, name: str, source: str) -> Mapping[str, str] | None:
    fact = f"caches.{name}"
    text = reader.text(fact, source)
    if text is None:
        return None
    try:
        factors = parse_json(text)
    except ValueError as exc:
        reader.gap(fact, source, f"not JSON: {exc}")
        return None
    if not isinstance(factors, dict) or not all(isinstance(value, str) for value in factors.values()):
        reader.gap(fact, source, "wants one JSON object of strings")
        return None
    return dict(sorted(factors.items()))
