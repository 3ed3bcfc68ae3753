"""Doctor under a real systemd: units that failed, environment files as the services got them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fakes.box import Box, NewBox

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

KBOOT = "/opt/kboot/env/bin/kboot"
FAILING = "[Service]\nType=oneshot\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n"


def findings(box: Box, *more: str) -> dict[str, dict[str, Any]]:
    """Return what doctor says in the box, by check, once systemd answers it; on a busy machine that takes a while."""
    deadline_s = time.monotonic() + 120
    while True:
        ran = box.run(KBOOT, "doctor", "--json", *more)
        assert ran.returncode in (0, 3, 4), ran.stdout + ran.stderr
        found = {f["id"]: f for f in json.loads(ran.stdout)["findings"]}
        if found["sys.failed_units"]["status"] != "unknown" or time.monotonic() > deadline_s:
            return found


def test_units_that_systemd_gave_up_are_found(new_box: NewBox) -> None:
    """The fabric manager's matters, another's does not; a line of the environment file is not what it seems."""
    box = new_box()
    for name in ("nvidia-fabricmanager", "unrelated"):
        box.write(f"/etc/systemd/system/{name}.service", FAILING)
    for name in ("kboot", "kboot-engine"):  # without a profile they would be among the failed ones
        box.write(f"/etc/systemd/system/{name}.service.d/none.conf", "[Unit]\nConditionPathExists=/nonexistent\n")
    box.write("/etc/kboot/env", "export HF_HOME=/data/hf\n")
    box.boot()
    for name in ("nvidia-fabricmanager", "unrelated"):
        box.systemctl("start", f"{name}.service")
    found = findings(box)

    assert "warn" == found["sys.failed_units"]["status"]
    assert "nvidia-fabricmanager.service" in found["sys.failed_units"]["seen"]
    assert "unrelated" not in found["sys.failed_units"]["seen"]
    assert "/etc/kboot/env:1: export HF_HOME is not set" in found["env.files"]["seen"]
    box.systemctl("reset-failed", "nvidia-fabricmanager.service")
    after = findings(box, "--check", "sys.failed_units")
    assert ("ok", True) == (after["sys.failed_units"]["status"], "unrelated" in after["sys.failed_units"]["seen"])
