#!/usr/bin/env python3
"""Show what compare.py has found: a table for people, a picture, or a table written into a document.

    python benchmarks/gpu/report.py RESULTS.json [--svg FILE] [--into docs/performance.md]

`--into` replaces what stands between `<!-- table: NAME -->` and `<!-- end -->`, NAME being the results' file name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpubench.draw import bars
from gpubench.shown import heading, read_rows, written_into
from gpubench.stages import table


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
