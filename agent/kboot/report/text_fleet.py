"""How do the nodes of a fleet read, a line each? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kboot.checks.words import count
from kboot.quantities import show_bytes
from kboot.report.render_text import Paint, join, no_paint, table, wrap


def fleet_text(doc: Mapping[str, Any], *, paint: Paint = no_paint) -> str:
    """Return the document of `kboot fleet status` for a person."""
    nodes = doc["nodes"]
    me = "this is none of them" if doc["me"] is None else f"this is rank {doc['me']}"
    lines = wrap(f"{doc['profile']}: {count(len(nodes), 'node')} of {doc['found_by']}; {me}", "")
    rows = [("rank", "node", "stage", "commit", "fetched", "")]
    rows += [_row(node) for node in nodes]
    head, *others = table(rows)
    lines += [paint(head, "faint"), *others]
    for word, text in filter(None, map(_why, nodes)):
        lines += wrap(text, f"  {paint(word, 'bad')} ")
    for difference in doc["differences"]:
        word = paint("differs", "bad" if difference["stops"] else "warn")
        lines += wrap(str(difference["text"]), f"  {word} ")
    return join(lines)


def _why(node: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return what a node that does not answer or has failed is about, which is a sentence; None of any other."""
    if not node["answers"]:
        return "no answer", f"{node['name']}: {str(node['verdict']).removeprefix('no answer: ')}"
    return (str(node["stage"]), f"{node['name']}: {node['why']}") if node["why"] else None


def _row(node: Mapping[str, Any]) -> tuple[str, str, str, str, str, str]:
    stage = str(node["stage"] or "-")
    if stage == "preparing" and node["phase"]:
        stage = str(node["phase"])
    total = int(node["total_bytes"] or 0)
    done = f"{show_bytes(int(node['have_bytes']))} of {show_bytes(total)}" if total else ""
    verdict = "no answer" if not node["answers"] else "" if node["why"] else str(node["verdict"])
    return str(node["rank"]), str(node["name"]), stage, str(node["commit"] or "-")[:12], done, verdict
