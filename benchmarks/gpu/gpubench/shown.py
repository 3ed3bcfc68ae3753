"""How are results shown: in which order, under which heading, between which marks of a document?"""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpubench.stages import Row, rows

ORDER = (
    "stock-fresh",
    "stock-first",
    "kboot-first",
    "stock-kept",
    "kboot-again",
    "stock-restart",
    "kboot-restart",
)


def read_rows(results: Path) -> tuple[Row, ...]:
    """Return the rows of a results file in the order of the tables."""
    return rows(json.loads(results.read_text()), ORDER)


def heading(results: Path) -> str:
    """Return what was measured, on what, when."""
    document = json.loads(results.read_text())
    node = document["node"]
    gpus = node["gpus"]
    machine = f"{len(gpus)}x {gpus[0]['name']}" if gpus else "no GPU"
    engine = f"vLLM {node['packages']['vllm']}" if "vllm" in node["packages"] else "demo engine"
    size = document["model"]["weights_bytes"] / 2**30
    return f"Seconds to ready: {engine}, {machine}, {size:.1f} GiB in {document['model']['shards']} shards"


def written_into(text: str, name: str, new: str) -> str:
    """Return the document with the table between its marks replaced.

    Raises:
        ValueError: the document has no such marks.
    """
    pattern = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no marks for {name}")
    return pattern.sub(lambda found: f"{found[1]}{new}\n{found[2]}", text)
