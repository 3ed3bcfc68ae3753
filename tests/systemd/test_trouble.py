"""kboot under a real systemd when something goes wrong: a boot that hangs, a stop at any time, an announced end."""

from __future__ import annotations

import pytest

from fakes.box import Box, NewBox
from systemd.test_services import engine_pids, install_hub, node, wait_for_answer, wait_for_record

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = """
import sys, threading
from pathlib import Path
from kboot.daemon import Daemon
from kboot.events import FileProgress, PhaseStarted
from kboot.host.inbox import Inbox
from kboot.host.notify import own_notifier
from kboot.options import Timing
from kboot.report.types import BootReport

record = Path("/run/kboot/handoff.json")

def prepare(emit, stop):
    emit(PhaseStarted("fetch", 1, 100))
    for count in range(120):
        emit(FileProgress("fetch", "a", 0 if sys.argv[1] == "stuck" else count, 100))
        if stop.wait(0.1):
            break
    record.write_text("{}")
    return BootReport("b", "p", "c", "done", 0.0, 1.0, None, None, "ledger", "", "k", (), (), (), None)

timing = Timing(stall_s=1.0, tick_s=0.2)
inbox = Inbox(record.parent / "kboot.sock")
sys.exit(Daemon("p", prepare, record, inbox, own_notifier(), lambda event: None, timing).serve())
"""


def scripted(new_box: NewBox, word: str) -> Box:
    """Return a running box whose kboot.service needs 12 s, with a start timeout of 8 s and a watchdog of 4 s."""
    box = node(new_box)
    box.write("/opt/slow.py", SCRIPT)
    short = f"ExecStart=\nExecStart=/opt/kboot/env/bin/python /opt/slow.py {word}\nTimeoutStartSec=8s\nWatchdogSec=4s\n"
    box.write("/etc/systemd/system/kboot.service.d/slow.conf", f"[Service]\n{short}Restart=no\n")
    box.write("/etc/systemd/system/kboot-engine.service.d/none.conf", "[Unit]\nConditionPathExists=/nonexistent\n")
    box.boot()
    return box


def test_slow_is_not_stuck(new_box: NewBox) -> None:
    """Twelve seconds of slow progress pass a start timeout of eight and a watchdog of four."""
    box = scripted(new_box, "slow")
    box.wait_until("kboot.service", ActiveState="active")

    assert {"NRestarts": "0", "Result": "success"} == box.show("kboot.service", "NRestarts", "Result")


def test_stuck_is_ended_by_systemd(new_box: NewBox) -> None:
    """The same boot without progress is ended: systemd's timeout, not kboot, decides."""
    box = scripted(new_box, "stuck")
    box.wait_until("kboot.service", ActiveState="failed")

    assert box.show("kboot.service", "Result")["Result"] in ("timeout", "watchdog")


def test_a_daemon_whose_loop_hangs_is_replaced(new_box: NewBox) -> None:
    """After READY the watchdog fires on a stopped process, systemd starts another, and the engine does not notice."""
    box = node(new_box)
    install_hub(box)
    box.write("/etc/systemd/system/kboot.service.d/watchdog.conf", "[Service]\nWatchdogSec=12s\n")
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    engine = box.show("kboot-engine.service", "MainPID")
    before = box.show("kboot.service", "MainPID")["MainPID"]
    box.run("sleep", "15")
    assert before == box.show("kboot.service", "MainPID")["MainPID"], box.journal("kboot.service")
    box.run("kill", "-STOP", before)
    box.wait_until("kboot.service", NRestarts="1")
    wait_for_record(box)

    assert engine == box.show("kboot-engine.service", "MainPID")
    assert "Watchdog timeout" in box.journal("kboot.service")


def test_an_announced_end_stops_engine_and_daemon(new_box: NewBox) -> None:
    """A notice stops the engine's service from inside kboot's sandbox, then kboot, both with success, for good.

    What the engine has compiled is in the seed by then.
    """
    box = node(new_box)
    box.write("/etc/kboot/profiles/demo.d/seed.toml", '[cache]\nseed = "/var/lib/kboot/seeds/{key}.tar.zst"\n')
    box.write("/var/lib/kboot/seeds/README", "")
    box.write("/etc/kboot/kboot.toml", 'schema = 1\nprofile = "demo"\nreclaim = ["file:/run/leave"]\n')
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    until = "for i in $(seq 600); do ls /var/lib/kboot/cache/*/complete && exit; sleep 0.1; done; exit 1"
    assert 0 == box.run("sh", "-c", until).returncode
    box.run("touch", "/run/leave")
    box.wait_until("kboot.service", ActiveState="inactive")
    box.wait_until("kboot-engine.service", ActiveState="inactive")

    assert "success" == box.show("kboot.service", "Result")["Result"]
    assert [] == engine_pids(box)
    assert "kboot-engine.service has stopped; its kernel cache is in its seed" in box.journal("kboot.service")
    assert 0 == box.run("sh", "-c", "ls /var/lib/kboot/seeds/*.tar.zst").returncode
