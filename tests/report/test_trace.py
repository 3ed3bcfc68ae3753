"""How does a boot look in a trace viewer?"""

from __future__ import annotations

import json
from itertools import combinations

from report_samples import SHARD_BYTES, kimi_boot

from kboot.report.timeline import make_timeline
from kboot.report.trace import trace_document

DOC = trace_document(make_timeline(kimi_boot()))
COMPLETE = [e for e in DOC["traceEvents"] if e["ph"] == "X"]


def test_the_trace_is_json_with_events_in_microseconds_from_the_first_instant() -> None:
    """The kernel starts at 0; the fetch begins 15.1 s later and takes 946 s."""
    assert DOC == json.loads(json.dumps(DOC))
    by_name = {e["name"]: e for e in COMPLETE}

    assert 0 == by_name["kernel"]["ts"]
    assert (15_100_000, 946_000_000) == (by_name["fetch"]["ts"], by_name["fetch"]["dur"])
    assert by_name["fetch"]["args"]["critical"]
    assert "critical" not in by_name["cache"]["args"]


def test_events_of_one_thread_never_overlap() -> None:
    """A viewer nests what shares a thread, so what runs side by side is on threads of its own."""
    for one, other in combinations(COMPLETE, 2):
        if (one["pid"], one["tid"]) == (other["pid"], other["tid"]):
            # Rounding to whole microseconds may touch by one.
            assert one["ts"] + one["dur"] <= other["ts"] + 1 or other["ts"] + other["dur"] <= one["ts"] + 1


def test_every_file_is_an_event_with_its_bytes_and_source() -> None:
    """Shards can be followed one by one."""
    files = [e for e in COMPLETE if e["cat"] == "files"]

    assert 111 == len(files)
    assert SHARD_BYTES == files[0]["args"]["bytes"]
    assert "from hub" in files[0]["args"]["detail"]


def test_processes_are_named_after_the_lanes() -> None:
    """The viewer shows machine, kboot, engine and files in this order."""
    named = [e["args"]["name"] for e in DOC["traceEvents"] if e["name"] == "process_name"]

    assert ["machine", "kboot", "engine", "files"] == named
