"""A standby node under a real systemd: prepared at boot, serving when it is told to."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from fakes.box import Box, NewBox
from systemd.test_services import engine_pids, install_hub, node, wait_for_answer, wait_for_record

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

HOLDS = "standby: demo is warm, not serving; `kboot live` starts its engine"


def standby(new_box: NewBox) -> Box:
    """Return a booted box that is ready and stands by."""
    box = node(new_box)
    box.write("/etc/kboot/kboot.toml", 'schema = 1\nprofile = "demo"\nstandby = true\n')
    install_hub(box)
    box.boot()
    wait_for_record(box)
    box.wait_until("kboot-engine.service", ActiveState="inactive")
    return box


def kboot(box: Box, *args: str) -> CompletedProcess[str]:
    """Run kboot as an operator would, but with the boot id that services see: a container shows its shells another."""
    seen = 'umount /proc/sys/kernel/random/boot_id; exec kboot "$@"'
    return box.run("unshare", "--mount", "sh", "-c", seen, "kboot", *args)


def test_a_standby_node_serves_when_it_is_told_and_until_the_machine_is_started_again(new_box: NewBox) -> None:
    """Ready without an engine; live by a command, through restarts of both units; a reboot makes it a standby again."""
    box = standby(new_box)
    held = box.show("kboot.service", "StatusText"), box.show("kboot-engine.service", "Result", "NRestarts")
    assert "this node stands by" in box.journal("kboot-engine")
    assert [] == engine_pids(box)

    live = kboot(box, "live")
    assert (0, True) == (live.returncode, "demo answers after" in live.stdout), live.stdout + live.stderr
    told = box.wait_until("kboot.service", StatusText="ready: demo is prepared")
    wait_for_answer(box)
    box.systemctl("restart", "kboot", "kboot-engine")
    wait_for_record(box)
    wait_for_answer(box)
    box.stop()
    box.boot()
    wait_for_record(box)
    box.wait_until("kboot-engine.service", ActiveState="inactive")

    assert ({"StatusText": HOLDS}, {"Result": "success", "NRestarts": "0"}) == held
    assert "active" == told["ActiveState"]
    assert HOLDS == box.show("kboot.service", "StatusText")["StatusText"]
    assert [] == engine_pids(box)


def test_a_live_node_goes_back_to_standby(new_box: NewBox) -> None:
    """`kboot live --back` stops the engine's service; starting that alone does not serve again."""
    box = standby(new_box)
    assert 0 == kboot(box, "live").returncode
    back = kboot(box, "live", "--back")
    box.systemctl("start", "kboot-engine")
    box.wait_until("kboot-engine.service", ActiveState="inactive")

    assert (0, True) == (back.returncode, "kboot-engine.service has stopped" in back.stdout), back.stderr
    assert {"StatusText": HOLDS} == box.show("kboot.service", "StatusText")
    assert [] == engine_pids(box)
