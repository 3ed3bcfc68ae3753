"""kboot under a real systemd: installed by install.sh, started as at boot, with no network but loopback."""

from __future__ import annotations

import json

import pytest

from fakes.box import Box, NewBox

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

PYTHON = "/opt/kboot/env/bin/python"
HUB = "http://127.0.0.1:9111"
SERVES = "http://127.0.0.1:8133"


def node(new_box: NewBox, profile: str = "demo") -> Box:
    """Return a box whose configuration asks for a profile, from a Hub on its own loopback."""
    box = new_box()
    box.write("/etc/kboot/kboot.toml", f'schema = 1\nprofile = "{profile}"\n')
    box.write("/etc/kboot/env", f"HF_ENDPOINT={HUB}\n")
    for unit in ("kboot.service", "kboot-engine.service"):
        box.write(f"/etc/systemd/system/{unit}.d/quick.conf", "[Service]\nRestartSec=1s\n")
    return box


def install_hub(box: Box, *options: str, at_boot: bool = True) -> None:
    """Give the box a Hub of its own; at_boot: it listens before kboot.service starts."""
    argv = " ".join(
        [
            PYTHON,
            "-m kboot.demo.hub --data /var/hub --port 9111 --mib-per-shard 0.1 --port-file /run/hub.json",
            *options,
        ]
    )
    until_it_listens = "/bin/sh -c 'until [ -s /run/hub.json ]; do sleep 0.1; done'"
    box.write(
        "/etc/systemd/system/hub.service",
        f"[Unit]\nBefore=kboot.service\n[Service]\nExecStart={argv}\nExecStartPost={until_it_listens}\n",
    )
    if at_boot:
        wants = box.root / "etc/systemd/system/multi-user.target.wants"
        (wants / "hub.service").symlink_to("../hub.service")


def wait_for_record(box: Box) -> None:
    box.wait_until("kboot.service", ActiveState="active")


def wait_for_answer(box: Box) -> None:
    """Wait until the engine answers with a token."""
    body = json.dumps({"model": "kboot/demo-moe", "prompt": "hello", "max_tokens": 1})
    ask = f"""
import time, urllib.request as u
end = time.monotonic() + 60
while True:
    try:
        request = u.Request("{SERVES}/v1/completions", {body.encode()!r}, {{"content-type": "application/json"}})
        print(u.urlopen(request, timeout=10).read().decode()); break
    except OSError:
        if time.monotonic() > end: raise
        time.sleep(0.1)
"""
    result = box.run(PYTHON, "-c", ask)
    assert 0 == result.returncode, result.stderr + box.journal("kboot-engine")[-3000:]
    assert json.loads(result.stdout)["choices"]


def engine_pids(box: Box) -> list[str]:
    """Return the processes of the engine's user."""
    return box.run("ps", "-o", "pid=", "-u", "kboot").stdout.split()


def test_power_on_to_an_answer(new_box: NewBox) -> None:
    """Both units start at boot by themselves: kboot is ready with a record, and the engine answers as user kboot."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)

    status = box.show("kboot.service", "StatusText", "NRestarts")
    assert {"StatusText": "ready: demo is prepared", "NRestarts": "0"} == status
    assert "640 root kboot" == box.run("stat", "-c", "%a %U %G", "/run/kboot/handoff.json").stdout.strip()
    assert "640 root kboot" == box.run("stat", "-c", "%a %U %G", "/var/lib/kboot/node.key").stdout.strip()
    main_pid = box.show("kboot-engine.service", "MainPID")["MainPID"]
    assert "kboot" == box.run("ps", "-o", "user=", "-p", main_pid).stdout.strip()
    seen = json.loads(box.run("kboot", "status", "--json").stdout)
    assert ("ready", True) == (seen["state"], seen["engine"]["answers"])


def test_the_boot_goes_on_record_up_to_the_answer(new_box: NewBox) -> None:
    """One report on one clock: kboot's phases, the engine's as its journal tells them, and what each worker got."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    answered = "grep -q '\"ready_unix_s\":[0-9]' /run/kboot/boot.json"
    until = f"for i in $(seq 600); do {answered} && exit; sleep 0.1; done; exit 1"
    assert 0 == box.run("sh", "-c", until).returncode, box.journal("kboot")[-3000:]
    report = json.loads(box.run("cat", "/run/kboot/boot.json").stdout)
    lanes = {lane: [s["name"] for s in report["spans"] if s["lane"] == lane] for lane in ("kboot", "engine")}

    assert {"fetch", "handoff", "serve"} <= set(lanes["kboot"])
    assert {"load model", "start server"} <= set(lanes["engine"])
    assert report["started_unix_s"] < report["ready_unix_s"]
    assert [w["planned_threads"] for w in report["workers"]] == [w["reported_threads"] for w in report["workers"]]


def test_the_engine_cannot_change_what_was_verified(new_box: NewBox) -> None:
    """User kboot reads the checkpoint, writes its cache, and cannot write checkpoint, ledger or record."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)

    def as_engine(command: str) -> int:
        return box.run("setpriv", "--reuid=kboot", "--regid=kboot", "--clear-groups", "sh", "-c", command).returncode

    assert 0 == as_engine("cat /var/lib/kboot/models/demo/*.safetensors > /dev/null")
    assert 0 == as_engine("touch $(echo /var/lib/kboot/cache/*)/probe")
    assert 0 != as_engine("echo x >> $(readlink -f /var/lib/kboot/models/demo/config.json)")
    assert 0 != as_engine("echo x >> /var/lib/kboot/ledger.db")
    assert 0 != as_engine("echo x >> /run/kboot/handoff.json")


def test_the_daemon_pins_workers_of_another_user_and_proves_each(new_box: NewBox) -> None:
    """Workers that somebody let run anywhere are put back when the daemon looks, and status shows each as planned."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    allowed = box.run("sh", "-c", "grep Cpus_allowed_list /proc/1/status").stdout.split()[1]
    if allowed == "0":
        pytest.skip("needs two CPUs")
    free = 'for pid in $(pgrep -u kboot -f "^VLLM::Worker"); do taskset -a -p -c "$1" "$pid"; done'
    assert 0 == box.run("sh", "-c", free, "sh", allowed).returncode
    box.systemctl("restart", "kboot")
    for _ in range(60):
        if "workers are as planned" in box.journal("kboot"):
            break
        box.run("sleep", "1")
    workers = json.loads(box.run("kboot", "status", "--json").stdout)["workers"]

    assert "threads are kept to CPUs" in box.journal("kboot")
    assert [(0, 0), (1, 0)] == [(w["worker"], w["stray_tasks"]) for w in workers]


def test_the_engine_restarts_without_verifying_again(new_box: NewBox) -> None:
    """With the Hub gone, `systemctl restart kboot-engine` serves again, and kboot.service prepared nothing for it."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    box.systemctl("stop", "hub")
    before = box.show("kboot.service", "InvocationID"), box.journal("kboot").count("phase.started")
    assert 0 == box.systemctl("restart", "kboot-engine").returncode
    wait_for_answer(box)

    assert before == (box.show("kboot.service", "InvocationID"), box.journal("kboot").count("phase.started"))
    assert before[1] > 0


def test_kboot_restarts_while_the_engine_serves(new_box: NewBox) -> None:
    """Restarting, reloading or killing kboot.service leaves the engine's process as it is."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    engine = box.show("kboot-engine.service", "MainPID", "InvocationID")

    assert 0 == box.systemctl("restart", "kboot").returncode
    assert engine == box.show("kboot-engine.service", "MainPID", "InvocationID")
    assert 0 == box.systemctl("reload", "kboot").returncode
    wait_for_record(box)
    box.systemctl("kill", "-s", "KILL", "kboot")
    box.wait_until("kboot.service", NRestarts="1")
    wait_for_record(box)
    assert engine == box.show("kboot-engine.service", "MainPID", "InvocationID")
    wait_for_answer(box)


def test_nothing_of_the_engine_survives_a_stop(new_box: NewBox) -> None:
    """B139: after a stop, and after its first process was killed, no process of the engine's user is left over."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_answer(box)
    before = engine_pids(box)
    assert len(before) > 1
    box.systemctl("kill", "-s", "KILL", "--kill-whom=main", "kboot-engine")
    box.wait_until("kboot-engine.service", NRestarts="1", ActiveState="active")
    assert set() == set(before) & set(engine_pids(box))
    assert 0 == box.systemctl("stop", "kboot-engine").returncode
    assert [] == engine_pids(box)


def test_a_prepared_node_boots_without_its_source(new_box: NewBox) -> None:
    """After a reboot with no Hub and no network, both units come up: nothing waits for network-online."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    box.stop()
    (box.root / "etc/systemd/system/multi-user.target.wants/hub.service").unlink()
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)

    assert "inactive" == box.show("hub.service", "ActiveState")["ActiveState"]


def test_a_source_that_comes_late_is_waited_for(new_box: NewBox) -> None:
    """With no source kboot stays activating and says why; when one comes, both units come up, with no restart."""
    box = node(new_box)
    install_hub(box, at_boot=False)
    box.boot()
    seen = box.wait_until("kboot.service", ActiveState="activating")
    while not seen["StatusText"].startswith("waiting to try again"):
        seen = box.wait_until("kboot.service", ActiveState="activating")
    box.systemctl("start", "hub")
    wait_for_record(box)
    wait_for_answer(box)

    assert "0" == box.show("kboot.service", "NRestarts")["NRestarts"]


def test_a_fetch_may_take_longer_than_the_start_timeout(new_box: NewBox) -> None:
    """B126: bytes that move extend TimeoutStartSec, so a slow fetch is not killed."""
    box = node(new_box)
    install_hub(box, "--rate-mib-s", "0.8")
    box.write("/etc/systemd/system/kboot.service.d/short.conf", "[Service]\nTimeoutStartSec=8s\n")
    box.boot()
    wait_for_record(box)
    times = box.show("kboot.service", "InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic", "NRestarts")

    took_us = int(times["ActiveEnterTimestampMonotonic"]) - int(times["InactiveExitTimestampMonotonic"])
    assert 8_000_000 < took_us
    assert "0" == times["NRestarts"]


def test_a_bad_profile_does_not_restart_for_ever(new_box: NewBox) -> None:
    """B137: a profile that does not exist fails once, with its status and its reason in the journal."""
    box = node(new_box, profile="no-such-profile")
    box.boot()
    box.wait_until("kboot.service", ActiveState="failed")

    assert {"NRestarts": "0", "ExecMainStatus": "10"} == box.show("kboot.service", "NRestarts", "ExecMainStatus")
    assert "no-such-profile" in box.journal("kboot")
    assert "Traceback" not in box.journal("kboot")


def test_the_engine_refuses_without_a_record_and_says_so(new_box: NewBox) -> None:
    """Without a record the engine's unit does not start anything, and the journal says what is missing."""
    box = node(new_box, profile="no-such-profile")
    box.boot()
    box.wait_until("kboot.service", ActiveState="failed")
    box.wait_until("kboot-engine.service", NRestarts="2")

    assert "error:" in box.journal("kboot-engine")
    assert [] == engine_pids(box)


def test_a_mended_profile_needs_one_restart(new_box: NewBox) -> None:
    """After a failed first start, mending the profile and starting kboot again brings up the engine as well."""
    box = node(new_box, profile="no-such-profile")
    install_hub(box)
    box.boot()
    box.wait_until("kboot.service", ActiveState="failed")
    box.write("/etc/kboot/kboot.toml", 'schema = 1\nprofile = "demo"\n')
    box.systemctl("restart", "kboot")
    wait_for_record(box)
    wait_for_answer(box)


@pytest.mark.parametrize("rate", ["1", "0"])
def test_it_stops_in_order_while_it_works_and_when_it_is_ready(new_box: NewBox, rate: str) -> None:
    """`systemctl stop kboot` ends it with success in the middle of a fetch and when idle."""
    box = node(new_box)
    install_hub(box, "--rate-mib-s", rate)
    box.boot()
    if rate == "0":
        wait_for_record(box)
    else:
        while not box.show("kboot.service", "StatusText")["StatusText"].startswith("fetch"):
            box.wait_until("kboot.service", ActiveState="activating")
    box.systemctl("stop", "kboot")

    assert {"ActiveState": "inactive", "Result": "success"} == box.show("kboot.service", "ActiveState", "Result")


def test_the_scrub_reads_everything_again(new_box: NewBox) -> None:
    """`kboot-scrub.service` succeeds in its sandbox with no network, and its timer is waiting."""
    box = node(new_box)
    install_hub(box)
    box.boot()
    wait_for_record(box)
    result = box.systemctl("start", "kboot-scrub")

    assert 0 == result.returncode, box.journal("kboot-scrub")
    assert "waiting" == box.show("kboot-scrub.timer", "SubState")["SubState"]
