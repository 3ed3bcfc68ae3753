"""Metrics of a node at one moment, checked by the rules of the exposition format."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kboot.report.metrics import NodeView, metrics_text
from kboot.report.types import BootReport, Outcome, WorkerCheck

WORKER = WorkerCheck(0, 0, 10, "title", (0,), (0,), 4, 4, 4, 0, 1.0, 0.0, 0, 0.0, ())
REPORT = BootReport(
    *("b", "k3", "c", "done", 100.0, 200.0, None, 190.0, "full", "claim", "key", ()),
    outcomes=(Outcome("fetch", "t", "r", "done", 0.0, 1.0, 4096),),
    warnings=(),
    error=None,
)
STATUS: dict[str, Any] = {
    "profile": "k3",
    "state": "ready",
    "attempt": 0,
    "phases": [
        {"name": "fetch", "status": "done", "done_bytes": 5, "total_bytes": 9, "files_done": 1, "seconds": 1.5},
        {"name": "warm", "status": "running", "done_bytes": 0, "total_bytes": 0, "files_done": 0, "seconds": 0.25},
    ],
}
VIEW = NodeView(
    version="1.0",
    now_unix_s=1000.0,
    status=STATUS,
    report=REPORT,
    workers=(WORKER, replace(WORKER, pid=None, findings=("no process of it",))),
    engine_ready=True,
    verified_unix_s=400.0,
    cache_key="key",
    cache_complete=True,
    reclaim="",
    cpu_s=1.25,
    rss_bytes=1 << 20,
)


PAIR = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'


def parse(text: str) -> dict[str, float]:
    """Return every sample by its name and labels; fails where promtool would: format, order, names, duplicates."""
    found: dict[str, float] = {}
    described: dict[str, str] = {}
    current = ""
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ", 3)[2]
            assert current not in described, f"{current} is described twice"
            described[current] = line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current
            assert kind in ("gauge", "counter")
            assert (kind == "counter") == name.endswith("_total")
        else:
            sample = re.fullmatch(rf"([a-z_:][a-z0-9_:]*)(\{{{PAIR}(?:,{PAIR})*\}})? (\S+)", line)
            assert sample, line
            assert sample[1] == current
            key = line.rpartition(" ")[0]
            assert key not in found, f"{key} twice"
            found[key] = float(sample[3])
    assert all(described.values())
    return found


def test_what_an_operator_looks_for_is_there() -> None:
    """Phases, bytes, shards, the age of the proof, workers off plan, readiness, the last boot, the cache."""
    found = parse(metrics_text(VIEW))

    assert {
        'kboot_phase_seconds{phase="fetch"}': 1.5,
        'kboot_phase_bytes{phase="fetch"}': 5,
        'kboot_phase_wanted_bytes{phase="fetch"}': 9,
        'kboot_phase_files_done{phase="fetch"}': 1,
        'kboot_phase_running{phase="warm"}': 1,
        "kboot_verify_age_seconds": 600,
        "kboot_workers_planned": 2,
        "kboot_workers_found": 1,
        "kboot_workers_off_plan": 1,
        "kboot_engine_ready": 1,
        "kboot_last_boot_seconds": 90,
        "kboot_last_boot_success": 1,
        "kboot_last_boot_fetched_bytes": 4096,
        'kboot_cache_complete{key="key"}': 1,
        'kboot_state{state="ready"}': 1,
        'kboot_state{state="waiting"}': 0,
        "kboot_reclaim_notice": 0,
    }.items() <= found.items()


def test_what_is_not_known_is_left_out() -> None:
    """A node that has never booted has no numbers about boots, engines and proofs: none is not zero."""
    bare = replace(VIEW, status={}, report=None, workers=(), engine_ready=None, verified_unix_s=None, cache_key="")
    found = parse(metrics_text(bare))

    assert not [
        key for key in found if re.match("kboot_(last_boot|phase|workers|engine|verif|cache|boot_attempt)", key)
    ]
    assert 1.25 == found["kboot_process_cpu_seconds_total"]


@given(st.text(), st.text())
def test_any_name_gives_valid_lines(profile: str, key: str) -> None:
    """Quotes, backslashes and line ends in names are escaped."""
    view = replace(VIEW, status={**STATUS, "profile": profile}, cache_key=key)
    lines = metrics_text(view).split("\n")

    assert {"kboot_info", "kboot_cache_complete"} - {"kboot_cache_complete" if not key else ""} <= {
        line.split("{")[0] for line in lines
    }
    assert all(line.startswith(("# ", "kboot_")) for line in lines if line)
