"""`systemctl stop kboot` in every phase of a boot, at an instant that the test chooses."""

from __future__ import annotations

import json

import pytest

from fakes.box import Box, NewBox
from systemd.test_services import install_hub, node, wait_for_answer, wait_for_record

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(600)]

HOLD = """
import sys
from pathlib import Path
import kboot.daemon
from kboot.events import PhaseStarted

phase, boot = sys.argv.pop(1), kboot.daemon.boot

def held(profile, host, paths, options, emit, stop, *more, **named):
    def tell(event):
        emit(event)
        if isinstance(event, PhaseStarted) and event.phase == phase:
            Path("/run/kboot/held").write_text(phase)
            stop.wait(120)

    return boot(profile, host, paths, options, tell, stop, *more, **named)

kboot.daemon.boot = held
from kboot.__main__ import main
main()
"""
"""The daemon as its unit runs it, but that it waits at the beginning of one phase until it is told to stop."""

COLD = """
import os, pathlib
for path in pathlib.Path("/var/lib/kboot/hub").rglob("*"):
    if path.is_file():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
"""

OF_A_FIRST_BOOT = ("plan", "tune", "cache", "fetch", "publish", "handoff")
OF_A_LATER_BOOT = ("verify", "warm")
"""Phases that have work where the files are on the disk, not all of them in memory."""

ASKS = """
[verify]
mode = "full"
[tune.settings]
"/proc/sys/net/ipv4/ip_default_ttl" = "63"
"""
"""The setting belongs to the network of the box alone."""


@pytest.fixture
def box(new_box: NewBox) -> Box:
    """A booted box with a Hub, in which kboot starts when it is told to."""
    box = node(new_box)
    install_hub(box)
    box.write("/etc/kboot/profiles/demo.d/asks.toml", ASKS)
    box.write("/opt/hold.py", HOLD)
    for unit in ("kboot", "kboot-engine"):
        (box.root / f"etc/systemd/system/multi-user.target.wants/{unit}.service").unlink()
    box.boot()
    return box


def stopped_in(box: Box, phase: str) -> dict[str, str]:
    """Start kboot, stop it when it has come to a phase, and return what systemd says of that."""
    exec_start = f"ExecStart=\nExecStart=/opt/kboot/env/bin/python /opt/hold.py {phase} daemon"
    box.run("mkdir", "-p", "/run/systemd/system/kboot.service.d")
    box.run("sh", "-c", f"printf '[Service]\\n%s\\n' '{exec_start}' > /run/systemd/system/kboot.service.d/hold.conf")
    box.systemctl("daemon-reload")
    box.run("rm", "-f", "/run/kboot/held")
    box.systemctl("start", "--no-block", "kboot")
    until = 'for i in $(seq 600); do [ "$(cat /run/kboot/held 2>/dev/null)" = "$1" ] && exit; sleep 0.1; done; exit 1'
    assert 0 == box.run("sh", "-c", until, "sh", phase).returncode, phase + box.journal("kboot")[-3000:]
    box.systemctl("stop", "kboot")
    return box.show("kboot.service", "ActiveState", "Result", "ExecMainStatus")


def left_running(box: Box) -> list[str]:
    """Return the processes of kboot that are not the Hub."""
    hub = box.show("hub.service", "MainPID")["MainPID"]
    return [pid for pid in box.run("pgrep", "-f", "/opt/kboot/env/bin").stdout.split() if pid != hub]


def test_a_stop_in_any_phase_is_a_success_and_the_next_start_goes_on(box: Box) -> None:
    """SIGTERM in each phase: ended with 0 and nothing left running; after all of them a start finishes and serves."""
    ended = {}
    for phase in OF_A_FIRST_BOOT:
        box.run("sh", "-c", "rm -rf /var/lib/kboot/*/* /var/lib/kboot/ledger.db*")
        ended[phase] = stopped_in(box, phase), left_running(box)
    for phase in OF_A_LATER_BOOT:
        assert 0 == box.run("/opt/kboot/env/bin/python", "-c", COLD).returncode
        ended[phase] = stopped_in(box, phase), left_running(box)
    box.run("rm", "/run/systemd/system/kboot.service.d/hold.conf")
    box.systemctl("daemon-reload")
    box.systemctl("start", "kboot", "kboot-engine")
    wait_for_record(box)
    wait_for_answer(box)
    verified = box.run("kboot", "verify", "--mode", "full", "--json")

    clean = ({"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}, [])
    assert dict.fromkeys((*OF_A_FIRST_BOOT, *OF_A_LATER_BOOT), clean) == ended
    assert 0 == verified.returncode, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["kind"] == "verify"
