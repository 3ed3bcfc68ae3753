#!/usr/bin/env python3
"""Show what compare.py has found: a table for people, a picture, or a table written into a document.

    python benchmarks/gpu/report.py RESULTS.json [--svg FILE] [--into docs/performance.md]

`--into` replaces what stands between `<!-- table: NAME -->` and `<!-- end -->`, NAME being the results' file name.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpubench.draw import bars
from gpubench.stages import Row, rows, table

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


def main(argv: list[str]) -> int:
    """Print the table, or write it and the picture where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--into", type=Path)
    asked = parser.parse_args(argv)
    found = read_rows(asked.results)
    if asked.svg:
        asked.svg.write_text(bars(found, heading(asked.results)))
    if asked.into:
        asked.into.write_text(written_into(asked.into.read_text(), asked.results.name, table(found)))
    print(heading(asked.results))
    print(table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
