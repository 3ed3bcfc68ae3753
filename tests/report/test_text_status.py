"""How does the running or last boot read?"""

from __future__ import annotations

from collections.abc import Callable

from report_samples import T0

from kboot.report.text_status import status_text

Golden = Callable[[str, str], None]
RUNNING = {
    "profile": "demo",
    "state": "running",
    "text": "pid 71",
    "started_unix_s": T0,
    "phases": [
        {"name": "cache", "status": "done", "done_bytes": 0, "total_bytes": 0, "files_done": 0},
        {"name": "fetch", "status": "running", "done_bytes": 4 * 10**11, "total_bytes": 10**12, "files_done": 37},
    ],
    "failed": [{"path": "model-00003-of-00111.safetensors", "code": "stalled", "message": "no byte for 30 s"}],
    "eta_s": 338.0,
    "eta_basis": "rate of the last 10 s, median of 3 boots",
    "error": {"code": "locked", "message": "held by pid 9", "hint": "wait for it"},
}


def test_a_running_boot(golden: Golden) -> None:
    """Phases with bytes and files, when it will serve and by what, what failed and why."""
    golden("status.txt", status_text(RUNNING))


def test_an_announced_end_and_the_engines_answer_are_said() -> None:
    """Who takes the machine away, and whether the engine of the record answers; nothing where it cannot be asked."""
    engine = {"name": "vllm", "url": "http://127.0.0.1:8000/health", "answers": False}
    doc = {"state": "stopping", "reclaim": "aws: terminate at 06:30Z", "engine": engine}

    assert [
        "stopping",
        "  announced this machine will be taken away: aws: terminate at 06:30Z",
        "  vllm does not answer at http://127.0.0.1:8000/health",
    ] == status_text(doc).splitlines()
    assert "vllm answers at" in status_text({**doc, "engine": {**engine, "answers": True}})
    assert "vllm" not in status_text({**doc, "engine": {**engine, "answers": None}})
    by = "held by pid 7 (python3 -m http.server)"
    assert f": that port is {by}" in " ".join(status_text({**doc, "engine": {**engine, "by": by}}).split())
    unknown = status_text({**doc, "engine": {**engine, "answers": None, "by": "a process of another user"}})
    assert "whether that is vllm is not known: it is a process of another user" in " ".join(unknown.split())


def test_an_engine_that_nobody_started_yet_is_not_missed() -> None:
    """A node that stands by: no word about an engine that does not answer."""
    engine = {"name": "vllm", "url": "http://127.0.0.1:8000/health", "answers": False}

    assert ["standby", "  pid 7"] == status_text({"state": "standby", "text": "pid 7", "engine": engine}).splitlines()


def test_a_boot_that_has_not_come_to_its_engine_does_not_miss_it() -> None:
    """Neither while it prepares nor while it waits for other nodes, which it says; another one on the port is told."""
    engine = {"name": "vllm", "url": "http://127.0.0.1:8000/health", "answers": False}
    meet = {"name": "meet", "status": "running"}
    doc = {"state": "running", "engine": engine, "phases": [meet]}

    assert [
        "running",
        "  meet  running  waits for the other nodes: `kboot fleet status` shows each",
    ] == status_text(doc).splitlines()
    serves = {**doc, "phases": [{**meet, "status": "done"}, {"name": "serve", "status": "running"}]}
    assert [
        "running",
        "  vllm does not answer at http://127.0.0.1:8000/health",
        "  meet   done",
        "  serve  running",
    ] == [line.rstrip() for line in status_text(serves).splitlines()]
    assert "that port is held" in status_text({**doc, "engine": {**engine, "by": "held by pid 7"}})
    assert "vllm answers at" in status_text({**doc, "engine": {**engine, "answers": True}})


def test_what_a_document_does_not_have_is_not_shown() -> None:
    """Another version's daemon may leave keys out: what is there is shown."""
    assert "ready" == status_text({"state": "ready"})


def test_a_node_without_a_boot_is_not_prepared() -> None:
    """A word for a person; programs read "none"."""
    assert "not prepared" == status_text({"state": "none"})
