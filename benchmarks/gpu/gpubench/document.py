"""What is kept of a boot? One JSON object, without what would name the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpubench.watch import Command, Seen, engine_spans
from gpubench.ways import Setup, Way
from kboot.cpulist import format_cpu_list

_UUID = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ADDRESS = re.compile(r"\b(?!127\.|0\.0\.0\.0)\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_RANK = re.compile(r"_DP(\d+)")


def boot_document(label: str, way: Way, prepared: str, command: Command, seen: Seen, setup: Setup) -> dict[str, Any]:
    """Return everything that was seen of one boot; times in seconds since the command was started."""
    report = {} if command.own_log else _read(setup.node / "run" / "boot.json")
    began = _engine_began(report, seen, command)
    spans, reader = engine_spans(seen, command.engine, began)
    failure = reader.failure() if seen.ready_unix_s is None else None
    zero = seen.started_unix_s
    return {
        "label": label,
        "way": way.name,
        "means": way.means,
        "prepared": prepared,
        "command": list(command.argv),
        "ready_s": _since(seen.ready_unix_s, zero),
        "engine_ready_s": _since(seen.ready_unix_s, began),
        "engine_started_s": _since(began, zero),
        "engine_seen_s": _since(seen.engine_started_unix_s, zero),
        "answer_s": None if seen.answer_s is None else round(seen.answer_s, 3),
        "answer": seen.answer[:300],
        "why": seen.why,
        "failure": failure.text[:500] if failure else "",
        "phases": {
            s.name: {
                "start_s": _since(s.start_unix_s, zero),
                "end_s": _since(s.end_unix_s, zero),
                "seconds": None if s.seconds is None else round(s.seconds, 2),
            }
            for s in spans
        },
        "kboot_phases": [
            {
                "name": s["name"],
                "lane": s["lane"],
                "start_s": _since(s["start_unix_s"], zero),
                "seconds": round(s["end_unix_s"] - s["start_unix_s"], 3),
                "size_bytes": s["size_bytes"],
                "status": s["status"],
            }
            for s in report.get("spans", ())
        ],
        "kboot_status": report.get("status"),
        "kboot_claim": report.get("verify_claim"),
        "kboot_warnings": report.get("warnings"),
        "caches": {c.cache: {"hits": c.hits, "misses": c.misses} for c in reader.caches()},
        "reported_threads": reader.threads(),
        "cpu_s_of_all": round(seen.cpu_s, 1),
        "most_threads": dict(sorted(seen.most_threads.items())),
        "live": seen.live,
        "workers": _workers(seen, setup, command),
        "serving": seen.serving,
        "stopped": seen.stopped,
    }


def dose_document(label: str, threads: str, cpus: str, command: Command, seen: Seen) -> dict[str, Any]:
    """Return how long the weights took with so many threads."""
    spans, reader = engine_spans(seen, command.engine, seen.started_unix_s)
    lengths = {s.name: None if s.seconds is None else round(s.seconds, 2) for s in spans}
    return {
        "label": label,
        "threads": threads,
        "cpus": cpus,
        "until_workers_s": next(
            (_since(s.start_unix_s, seen.started_unix_s) for s in spans if s.name == "load model"), None
        ),
        "read_weights_s": lengths.get("read weights"),
        "load_model_s": lengths.get("load model"),
        "reported_threads": reader.threads(),
        "cpu_s_of_all": round(seen.cpu_s, 1),
        "why": seen.why,
        "stopped": seen.stopped,
    }


def scrubbed(document: Any, setup: Setup) -> Any:
    """Return the document without GPU UUIDs, addresses and this machine's folders."""
    if isinstance(document, dict):
        return {key: scrubbed(value, setup) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [scrubbed(value, setup) for value in document]
    return scrub(document, setup) if isinstance(document, str) else document


def scrub(text: str, setup: Setup) -> str:
    """Return the text without GPU UUIDs, addresses and this machine's folders."""
    text = _ADDRESS.sub("192.0.2.1", _UUID.sub(r"\1-…", text))
    for path, name in (
        (setup.model, "/models/synthetic-moe"),
        (setup.work, "/bench"),
        (setup.python.parent, "/opt/vllm/bin"),
        (setup.kboot.parent, "/opt/kboot/bin"),
    ):
        text = text.replace(str(path), name)
    return text


def _engine_began(report: Mapping[str, Any], seen: Seen, command: Command) -> float:
    """Return when the engine's command line was started: by this script, or by kboot as its own report has it."""
    if command.own_log:
        return seen.started_unix_s
    serve = [s["start_unix_s"] for s in report.get("spans", ()) if s["name"] == "serve"]
    return float(serve[0]) if serve else (seen.engine_started_unix_s or seen.started_unix_s)


def _workers(seen: Seen, setup: Setup, command: Command) -> list[dict[str, Any]]:
    """Return each live worker beside what kboot planned for the one on its GPU."""
    record = {} if command.own_log else _read(setup.node / "run" / "handoff.json")
    planned = record.get("workers", ())
    named = [row for row in seen.live if row["title"].startswith("VLLM::Worker")]
    found = []
    for row in named or [row for row in seen.live if row["title"].startswith("VLLM::EngineCore")]:
        rank = _RANK.search(row["title"])
        place = row["gpu"] if row["gpu"] is not None else int(rank[1]) if rank else 0
        plan = next((w for w in planned if (w["worker"] if row["gpu"] is None else w["gpu"]) == place), None)
        found.append(
            {
                **{key: row[key] for key in ("title", "gpu", "threads", "cpus", "cpus_of_threads", "omp_num_threads")},
                "planned": {"cpus": format_cpu_list(plan["cpus"]), "threads": plan["threads"]} if plan else None,
            }
        )
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def _since(moment: float | None, zero: float) -> float | None:
    return None if moment is None else round(moment - zero, 2)
