"""`kboot boot`, `fetch`, `verify`, `warm`, `plan`, `exec` and `license` against a real Hub on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import DEADLINE_S, Kboot, hub, wait_for

from fakes.clock.build_clock import build

DEMO = ("--profile", "demo")


@pytest.fixture
def node(kboot: Kboot) -> Iterator[Kboot]:
    """A node whose Hub is on loopback."""
    with hub(kboot.folder) as endpoint:
        kboot.env["HF_ENDPOINT"] = endpoint
        yield kboot


def test_a_dry_run_and_a_plan_are_the_same_and_change_nothing(node: Kboot) -> None:
    """`plan` and `boot --dry-run` print one document, and the state folder holds no file of the checkpoint."""
    plan, dry = node("plan", *DEMO, "--json"), node("boot", *DEMO, "--dry-run", "--json")
    phases = {p["name"]: len(p["actions"]) for p in plan.doc["phases"]}

    assert (0, "plan", 0) == (plan.status, plan.doc["kind"], dry.status)
    assert plan.doc["phases"] == dry.doc["phases"]
    assert phases["fetch"] >= 6
    assert [] == list((node.folder / "state").rglob("*.safetensors"))
    assert not (node.folder / "run/handoff.json").exists()


def test_a_boot_prepares_and_a_second_one_has_nothing_to_do(node: Kboot) -> None:
    """The first boot fetches and ends with its timeline; the second plan is empty, and says by what it is proven."""
    first = node("boot", *DEMO)
    plan = node("plan", *DEMO)
    second = node("boot", *DEMO, "--json")

    assert (0, 0) == (first.status, second.status)
    assert "boot of demo: prepared in" in first.out
    assert "nothing to do, this node is ready" in plan.out
    assert ("boot", "done", []) == (second.doc["kind"], second.doc["status"], second.doc["outcomes"])
    assert "unchanged since they were hashed" in second.doc["verify_claim"]


def test_the_log_of_a_boot_is_json_lines_with_one_line_a_file(node: Kboot) -> None:
    """B144: stderr that is no terminal gets JSON lines without carriage returns, and ends with the totals."""
    ran = node("boot", *DEMO)
    lines = [json.loads(line) for line in ran.err.splitlines()]
    done = [d["path"] for d in lines if d["event"] == "file.done" and d["phase"] == "fetch"]

    assert "\r" not in ran.err
    assert 6 == len([p for p in done if p.endswith(".safetensors")])
    assert len(done) == len(set(done))
    assert ("boot.finished", "done") == (lines[-1]["event"], lines[-1]["status"])
    assert lines[-1]["bytes_fetched"] > 0


def test_the_checkpoint_alone_is_fetched_verified_and_warmed(node: Kboot) -> None:
    """Each part of the job is a command of its own; verifying and warming need no network."""
    assert 0 == node("fetch", *DEMO).status
    offline = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    verify = node("verify", *DEMO, "--mode", "full", "--json", env=offline)

    assert (0, "verify", True) == (verify.status, verify.doc["kind"], verify.doc["ok"])
    assert "verified" in node("verify", *DEMO, env=offline).out
    assert "" == node.on_terminal("verify", *DEMO, "--mode", "ledger")
    assert 0 == node("warm", *DEMO, env=offline).status
    assert 0 == node("fetch", *DEMO, "--offline", env=offline).status


def test_a_scrub_reads_the_disk_at_a_rate_and_tells_the_oldest_proof(node: Kboot) -> None:
    """In the background, at 50 MiB/s: everything is hashed, and the age of the oldest hash is in the document."""
    node("fetch", *DEMO)
    scrub = node("verify", *DEMO, "--mode", "full", "--background", "--rate-mib-s", "50", "--json")
    again = node("verify", *DEMO, "--mode", "full", "--background", "--older-than-h", "1", "--json")

    assert (0, True) == (scrub.status, scrub.doc["ok"])
    assert 0 <= scrub.doc["oldest_hash_age_s"] < 60
    assert (0, []) == (again.status, again.doc["outcomes"])


def test_a_clock_that_is_set_back_while_a_node_boots_makes_no_length_wrong(node: Kboot, tmp_path: Path) -> None:
    """Nothing ends before it began, in the report, its phases and the engine's; nor in the notice of its answer."""
    args = ("boot", *DEMO, "--serve", "--exit-when-ready", "--set", f"serve.port={free_port()}", "--json")
    boot = node(*args, env=build(tmp_path))
    report, after = boot.doc, node("status", "--json").doc
    starts = [span["start_unix_s"] for span in report["spans"] if span["lane"] == "kboot"]
    answers = [json.loads(line)["text"] for line in boot.err.splitlines() if '"engine.ready"' in line]

    assert 0 == boot.status, boot.err
    assert report["started_unix_s"] < report["ready_unix_s"] <= report["finished_unix_s"]
    assert starts == sorted(starts)
    assert [] == [s["name"] for s in report["spans"] if s["end_unix_s"] < s["start_unix_s"]]
    assert {"engine", "kboot"} <= {span["lane"] for span in report["spans"]}
    assert (2, False, []) == (len(report["workers"]), after["engine"]["answers"], after["workers"])  # they have ended
    assert [False] == [" -" in text for text in answers]


def test_two_commands_at_once_both_end_well(node: Kboot) -> None:
    """fetch, boot and boot on one fresh node at the same time: each ends with status 0, and the node is ready."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "kboot", word, *DEMO, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=node.environ,
        )
        for word in ("fetch", "boot", "boot")
    ]  # fmt: skip
    ended = [run.communicate(timeout=100) for run in runs]

    assert [(0, "done")] * 3 == [(r.returncode, json.loads(out)["status"]) for r, (out, _) in zip(runs, ended)], ended
    assert 0 == node("verify", *DEMO, "--mode", "full").status
    left = {p["name"]: p["actions"] for p in node("plan", *DEMO, "--json").doc["phases"] if p["name"] != "warm"}
    assert [[]] * len(left) == list(left.values())


def test_a_changed_shard_is_found_named_and_repaired(node: Kboot) -> None:
    """One flipped byte is status 12 with the file's name; --repair fetches that file again."""
    node("fetch", *DEMO)
    shard = sorted((node.folder / "state/models/demo").glob("*.safetensors"))[2]
    with open(shard, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    found = node("verify", *DEMO, "--mode", "full")
    repaired = node("verify", *DEMO, "--mode", "full", "--repair", "--json")

    assert 12 == found.status
    assert f"wrong verify {shard.name}" in found.out
    assert (0, True) == (repaired.status, repaired.doc["ok"])
    assert 0 == node("verify", *DEMO, "--mode", "full").status


def test_exec_refuses_what_has_changed_and_names_it(node: Kboot) -> None:
    """Without a record, and with a record that does not hold, exec has status 13 and says which file."""
    missing = node("exec", "--json")
    node("boot", *DEMO)
    shard = sorted((node.folder / "state/models/demo").glob("*.safetensors"))[0]
    os.utime(shard, (1, 1))
    stale = node("exec")

    assert (13, "handoff-missing") == (missing.status, missing.doc["code"])
    assert 13 == stale.status
    assert "error: handoff-stale" in stale.err
    assert shard.name in stale.err


def test_a_source_that_does_not_answer_is_one_error(kboot: Kboot) -> None:
    """Nobody listens at the Hub's address: status 17, the address named, no traceback, a failed boot on record."""
    for words in (["plan"], ["boot"], ["fetch"]):
        ran = kboot(*words, *DEMO)

        assert 17 == ran.status, ran.err
        assert "127.0.0.1:9" in ran.err
        assert "Traceback" not in ran.err
    last = kboot("status", "--json")
    assert (3, "failed", "boot") == (last.status, last.doc["state"], last.doc["what"])
    assert "connection-refused" == last.doc["error"]["code"]


def test_a_boot_can_be_watched_interrupted_and_goes_on(kboot: Kboot) -> None:
    """While it fetches, `status` shows it; SIGTERM ends it with 130; the next boot finishes."""
    with hub(kboot.folder, "--rate-mib-s", "1") as endpoint:
        kboot.env["HF_ENDPOINT"] = endpoint
        boot = subprocess.Popen(
            [sys.executable, "-m", "kboot", "boot", *DEMO],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=kboot.environ,
        )
        progress = kboot.folder / "run/progress.json"
        wait_for(lambda: progress.exists() and '"fetch"' in progress.read_text(), boot)
        status = kboot("status", "--json")
        boot.send_signal(signal.SIGTERM)

        assert 130 == boot.wait(DEADLINE_S)
        assert (0, "running", boot.pid) == (status.status, status.doc["state"], status.doc["pid"])
        assert not progress.exists()
    with hub(kboot.folder) as endpoint:
        kboot.env["HF_ENDPOINT"] = endpoint

        assert 0 == kboot("boot", *DEMO).status


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_serving_prints_its_result_when_the_engine_answers_and_ends_with_it(node: Kboot) -> None:
    """`boot --serve --json` prints one document at the answer, is shown as serving, and stops clean on SIGTERM."""
    serve = ("--set", f"serve.port={free_port()}", "--set", "serve.host=127.0.0.1")
    with open(node.folder / "out", "wb") as out, open(node.folder / "err", "wb") as err:
        boot = subprocess.Popen(
            [sys.executable, "-m", "kboot", "boot", *DEMO, *serve, "--serve", "--json"],
            stdout=out,
            stderr=err,
            env=node.environ,
        )
    wait_for(lambda: (node.folder / "out").read_text().endswith("}\n"), boot)
    status = node("status", "--json")
    boot.send_signal(signal.SIGTERM)

    assert 0 == boot.wait(DEADLINE_S)
    assert ("serving", boot.pid) == (status.doc["state"], status.doc["pid"])
    doc = json.loads((node.folder / "out").read_text())
    assert ("boot", "done") == (doc["kind"], doc["status"])
    assert doc["ready_unix_s"] is not None
    assert {"machine", "kboot", "engine"} >= {s["lane"] for s in doc["spans"]}
    events = [json.loads(line)["event"] for line in (node.folder / "err").read_text().splitlines()]
    assert "engine.line" in events
    assert 1 == events.count("boot.finished")


def test_a_smoke_test_of_the_engine_ends_by_itself(node: Kboot) -> None:
    """--exit-when-ready stops the engine once it has answered; the timeline has the engine's phases."""
    ran = node("boot", *DEMO, "--serve", "--exit-when-ready", "--set", f"serve.port={free_port()}")

    assert 0 == ran.status
    assert "boot of demo: ready to serve in" in ran.out
    assert "engine\n" in ran.out


def test_exec_becomes_the_engine_of_the_record(node: Kboot) -> None:
    """The process that ran `kboot exec` is the engine: it answers under that pid and takes its signals."""
    port = free_port()
    node("boot", *DEMO, "--set", f"serve.port={port}", "--set", "serve.host=127.0.0.1")
    with open(node.folder / "engine.log", "wb") as log:
        engine = subprocess.Popen([sys.executable, "-m", "kboot", "exec"], stdout=log, stderr=log, env=node.environ)
    wait_for(lambda: answers(f"http://127.0.0.1:{port}/health"), engine)
    argv = Path(f"/proc/{engine.pid}/cmdline").read_bytes()
    engine.send_signal(signal.SIGTERM)

    assert engine.wait(DEADLINE_S) in (0, -signal.SIGTERM)
    assert b"kboot.demo.engine" in argv or b"VLLM" in argv
    assert "becoming demo" in (node.folder / "engine.log").read_text()


def answers(url: str) -> bool:
    """Return whether a server answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_terms_are_shown_accepted_and_remembered(node: Kboot) -> None:
    """The licence text comes from the pinned commit; who accepted it is on record with the text's hash."""
    must = ("--set", "license.accept_required=true", "--set", 'license.name="Demo License"')
    refused = node("boot", *DEMO, *must)
    text = node("license", "show", *DEMO, "--text").out
    accepted = node("license", "accept", *DEMO, *must, "--as", "Operations", "--json")
    shown = node("license", "show", *DEMO, *must, "--json")

    assert 16 == refused.status
    assert "kboot license accept" in refused.err
    assert text.strip()
    assert (0, "Operations") == (accepted.status, accepted.doc["accepted_by"])
    assert ("accepted", "Operations") == (shown.doc["status"], shown.doc["record"]["accepted_by"])
    assert 0 == node("boot", *DEMO, *must).status


def test_boot_works_on_this_machine_only(kboot: Kboot) -> None:
    """A recorded machine can be planned for, not booted."""
    kboot("facts", "--record", str(kboot.folder / "node"))

    for words in (["boot"], ["fetch"], ["exec"], ["daemon"]):
        ran = kboot(*words, "--root", str(kboot.folder / "node"))
        assert 2 == ran.status, words
        assert "this machine only" in ran.err


def test_exit_when_ready_needs_serve(kboot: Kboot) -> None:
    """Options that do not go together are a usage error."""
    assert 2 == kboot("boot", "--exit-when-ready").status
    assert 2 == kboot("exec", *DEMO).status


def test_warming_what_is_not_here_says_so(kboot: Kboot) -> None:
    """`kboot warm` before any fetch has nothing to read, and must not look as if all were in memory."""
    with hub(kboot.folder) as endpoint:
        ran = kboot("warm", "--profile", "demo", env={"HF_ENDPOINT": endpoint})

    assert "of the checkpoint are not on this disk" in " ".join(ran.out.split())
    assert "`kboot fetch`" in ran.out
