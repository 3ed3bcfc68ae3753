"""When several documents speak of the same keys, which value counts, and whose is it?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from kboot.profile.document import Document
from kboot.values import dataclass

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Merged:
    """values: the tables, merged. origin: dotted key of every value → the document that gave it. base: the first."""

    values: Mapping[str, Any]
    origin: Mapping[str, str]
    base: str

    def origin_of(self, path: Sequence[str | int]) -> str:
        """Return who gave a key; for one that is not there, who gave the nearest table or list around it."""
        for end in range(len(path), 0, -1):
            key = dotted(path[:end])
            if key in self.origin:
                return self.origin[key]
            inside = sorted(where for name, where in self.origin.items() if name.startswith(f"{key}."))
            if inside:
                return self.base if self.base in inside else inside[0]
        return self.base


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value that replaces as a whole (text, number, list), with where it came from."""

    value: Any
    origin: str


def merge_documents(documents: Sequence[Document]) -> Merged:
    """Lay later documents over earlier ones: tables merge key by key, everything else (lists too) replaces."""
    trees = [_tagged(document.values, document.origin) for document in documents]
    tree: dict[str, Any] = reduce(_over, trees, {})
    origin = {dotted(path): leaf.origin for path, leaf in _leaves(tree)}
    return Merged(_values(tree), origin, documents[0].origin)


def dotted(path: Sequence[str | int]) -> str:
    """Return a key as TOML writes it: `tune.settings."/proc/sys/vm/swappiness"`, `layout[0].gpu`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            text += f".{name}" if text else name
    return text


def _tagged(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    return {
        key: _tagged(value, origin) if isinstance(value, dict) else _Leaf(value, origin)
        for key, value in values.items()
    }


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        result[key] = _over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _values(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _values(node) if isinstance(node, dict) else node.value for key, node in tree.items()}


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], _Leaf]]:
    for key, node in tree.items():
        if isinstance(node, dict):
            yield from _leaves(node, (*path, key))
        else:
            yield (*path, key), node
