"""A node holds at "warm, not serving", and goes live when it is told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import DEADLINE_S, Kboot, hub, wait_for

from booting import free_port

ENGINE_S = 200.0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo Hub."""
    with hub(tmp_path_factory.mktemp("hub")) as url:
        yield url


@pytest.fixture
def node(kboot: Kboot, endpoint: str) -> Kboot:
    """A node whose configuration names the demo profile, on a free port."""
    kboot.env["HF_ENDPOINT"] = endpoint
    drop_in = kboot.folder / "etc/profiles/demo.d/port.toml"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(f'[serve]\nport = {free_port()}\nhost = "127.0.0.1"\n')
    (kboot.folder / "etc/kboot.toml").write_text('profile = "demo"\nstandby = true\n')
    return kboot


def state(node: Kboot) -> str:
    return str(node("status", "--json").doc["state"])


@pytest.mark.timeout(400)
def test_a_boot_holds_until_it_is_told_and_then_serves(node: Kboot) -> None:
    """Standby: everything warm, no engine. `kboot live` returns when it answers; a signal ends it all with 0 or 130."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kboot", "boot", "--serve", "--json"],
        env=node.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: state(node) == "standby", process)
        held = node("status", "--json").doc
        live = subprocess.run(
            [sys.executable, "-m", "kboot", "live", "--json"],
            env=node.environ,
            capture_output=True,
            text=True,
            timeout=ENGINE_S,
        )
        serving = node("status", "--json").doc
    finally:
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=DEADLINE_S)

    assert (False, "handoff", "done") == (held["engine"]["answers"], *names(held)[-2:-1], held["phases"][-2]["status"])
    assert 0 == live.returncode, live.stderr
    doc = json.loads(live.stdout)
    assert ("serving", True) == (doc["state"], doc["seconds"] > 0)
    assert ("serving", True) == (serving["state"], serving["engine"]["answers"])
    report = json.loads(out)
    assert {"serve"} == {s["name"] for s in report["spans"] if s["lane"] == "kboot"}
    assert report["ready_unix_s"] > report["started_unix_s"]


def names(status: dict[str, object]) -> list[str]:
    phases = status["phases"]
    assert isinstance(phases, list)
    return [phase["name"] for phase in phases]


def test_what_a_hold_has_prepared_and_its_end_are_two_reports(node: Kboot) -> None:
    """A stop while it holds: the boot is on record as prepared, nothing served, and the status is that of a stop."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kboot", "boot", "--serve"],
        env=node.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: state(node) == "standby", process)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(DEADLINE_S)
    last = node("status", "--json").doc

    assert (0, "done", None) == (status, last["state"], last["ready_unix_s"])


def test_exec_of_a_node_that_stands_by_starts_nothing(node: Kboot) -> None:
    """Status 0 and one line: the engine's service ends in peace, and is started again by `kboot live`."""
    boot = node("boot")
    assert 0 == boot.status, boot.err
    ran = node("exec")

    assert (0, "") == (ran.status, ran.out)
    assert "this node stands by; `kboot live` starts its engine" in ran.err


def test_a_standby_that_is_no_word_is_a_profile_error(node: Kboot) -> None:
    """What exec reads at a glance is still checked: `standby = "yes"` is named, status 10."""
    (node.folder / "etc/kboot.toml").write_text('profile = "demo"\nstandby = "yes"\n')
    ran = node("exec")

    assert 10 == ran.status
    assert "standby" in ran.err


def test_live_says_what_is_missing(kboot: Kboot) -> None:
    """A node that does not stand by, and options that do not go together."""
    assert (13, "not-standing-by") == ((ran := kboot("live", "--json")).status, ran.doc["code"])
    assert 2 == kboot("live", "--back", "--no-wait").status
    assert 2 == kboot("boot", "--standby").status


def test_the_hold_is_a_matter_of_the_node_not_of_its_folder(node: Kboot) -> None:
    """`--standby` does for one boot what the configuration does for all; `live` may be said again, and taken back."""
    (node.folder / "etc/kboot.toml").write_text('profile = "demo"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "kboot", "boot", "--serve", "--standby"],
        env=node.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(lambda: state(node) == "standby", process)
        assert not Path(node.folder / "run/live").exists()
        back = node("live", "--back")
        woken, again = node("live"), node("live")
        late = node("live", "--back", "--json")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(DEADLINE_S)

    assert (0, "this node stands by") == (back.status, back.out[:19]), back.err
    assert (0, "demo answers after") == (woken.status, woken.out[:18]), woken.err
    assert (0, "demo answers already") == (again.status, again.out[:20]), again.err
    assert (13, "engine-without-service") == (late.status, late.doc["code"])
    assert "the next `kboot boot --serve --standby` holds" in late.doc["hint"]
