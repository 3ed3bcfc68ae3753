"""Which benchmark runs, and how is its document printed?"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kbench import bake, cache, doctor, fetch, fit, fleet, fleet_sim, pin, startup, verify
from kbench.document import Document, as_json, as_text
from kbench.machine import host_facts

BENCHMARKS: dict[str, Callable[[argparse.Namespace, Path], Document]] = {
    "bake": bake.run,
    "cache": cache.run,
    "doctor": doctor.run,
    "fetch": fetch.run,
    "fit": fit.run,
    "fleet": fleet.run,
    "fleet_sim": fleet_sim.run,
    "pin": pin.run,
    "startup": startup.run,
    "verify": verify.run,
}


def main(argv: list[str]) -> int:
    """Return 0 when the benchmark ran; 1 with one line on stderr when it could not."""
    asked = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _end)  # so that the origin is stopped and what was received is removed
    with tempfile.TemporaryDirectory(prefix="kboot-bench-", dir=asked.work) as work:
        try:
            document = BENCHMARKS[asked.name](asked, Path(work))
        except (OSError, RuntimeError) as exc:
            print(f"benchmarks/run: {asked.name}: {exc}", file=sys.stderr)
            return 1
    host = host_facts()
    print(json.dumps(as_json(document, host), indent=2, sort_keys=True) if asked.json else as_text(document, host))
    return 0


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/run", description="Measure kboot against what people use today.")
    parser.add_argument("name", choices=sorted(BENCHMARKS))
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    parser.add_argument("--rounds", type=_positive, default=5, help="repetitions of every method (default 5)")
    parser.add_argument("--work", type=Path, default=None, help="folder on a local disk for what is received")
    parser.add_argument(
        "--shards", type=_positive, default=24, help="bake, fetch, verify: number of shards (default 24)"
    )
    parser.add_argument(
        "--mib", type=_positive, default=128, help="bake, fetch, verify: MiB of each shard (default 128)"
    )
    parser.add_argument("--nodes", type=_positive, default=8, help="fleet: number of nodes (default 8)")
    parser.add_argument("--mbit", type=_positive, default=200, help="fleet: Mbit/s of the origin's line (default 200)")
    parser.add_argument("--fleet-mib", type=_positive, default=16, help="fleet: MiB of each shard (default 16)")
    parser.add_argument("--origin", type=Path, default=None, help="fetch: folder for what is served (default /dev/shm)")
    parser.add_argument("--origin-workers", type=_positive, default=1, help="fetch: workers of its nginx (default 1)")
    parser.add_argument("--workers", type=_positive, default=8, help="pin: worker processes (default 8)")
    parser.add_argument("--files", type=_positive, default=20_000, help="cache: number of files (default 20000)")
    parser.add_argument("--tree-mib", type=_positive, default=2048, help="cache: MiB of all of them (default 2048)")
    parser.add_argument("--most-nodes", type=_positive, default=1024, help="fleet_sim: largest fleet (default 1024)")
    parser.add_argument(
        "--without", type=_names, default=(), help="fetch, fleet, verify: methods to leave out, such as hf,chain"
    )
    parser.add_argument("--quiet-s", type=float, default=30.0, help="longest wait for an idle machine before each run")
    parser.add_argument(
        "--no-fill", action="store_true", help="bake, fetch, fleet, verify: do not fill the page cache first"
    )
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
