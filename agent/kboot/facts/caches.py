"""Which kernel caches are on this disk, made under which factors?"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kboot.facts.reader import Reader
from kboot.facts.types import CacheFacts, Gap
from kboot.host.paths import Paths
from kboot.host.types import Host

FACTORS_FILE = "factors.json"
COMPLETE_FILE = "complete"


def collect_caches(host: Host, paths: Paths) -> tuple[CacheFacts, tuple[Gap, ...]]:
    """Read factors.json of every cache folder; folders without one are not kboot's."""
    reader = Reader(host)
    top = host.machine_path(paths.cache)
    factors_of: dict[str, Mapping[str, str]] = {}
    complete: set[str] = set()
    for name in reader.names(top):
        source = f"{top}/{name}/{FACTORS_FILE}"
        if not host.exists(source):
            continue
        factors = _factors(reader, name, source)
        if factors is None:
            continue
        factors_of[name] = factors
        if host.exists(f"{top}/{name}/{COMPLETE_FILE}"):
            complete.add(name)
    return CacheFacts(factors_of, frozenset(complete)), reader.gaps


def _factors(reader: Reader, name: str, source: str) -> Mapping[str, str] | None:
    fact = f"caches.{name}"
    text = reader.text(fact, source)
    if text is None:
        return None
    try:
        factors = json.loads(text)
    except ValueError as exc:
        reader.gap(fact, source, f"not JSON: {exc}")
        return None
    if not isinstance(factors, dict) or not all(isinstance(value, str) for value in factors.values()):
        reader.gap(fact, source, "wants one JSON object of strings")
        return None
    return dict(sorted(factors.items()))
