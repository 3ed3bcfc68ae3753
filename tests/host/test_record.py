"""What is recorded is read back the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.facts.collect import collect
from kboot.facts.render import facts_to_json
from kboot.facts.types import NodeFacts
from kboot.host.paths import Paths, find_paths
from kboot.host.real import RealHost
from kboot.host.record import record
from kboot.host.recorded import RecordedHost
from kboot.host.types import Host, Printed
from nodes.plugin import MachineRoot, facts_of

SETTINGS = ("/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/vm/swappiness")
MOVING = {"collected_unix_s": 0.0, "memory": None, "numa": None, "mounts": None}


def still(facts: NodeFacts) -> dict[str, object]:
    """Return the facts without those that move while a test runs."""
    return facts_to_json(facts) | MOVING


def test_this_machine_recorded_and_read_back(tmp_path: Path) -> None:
    """Every fact that does not move by itself is the same from the record."""
    paths = Paths(Path("/var/lib/kboot"), Path("/run/kboot"), Path("/etc/kboot"))
    seen: list[NodeFacts] = []

    record(RealHost(), tmp_path / "record", lambda host: seen.append(collect(host, paths, tune_paths=SETTINGS)))

    assert still(seen[0]) == still(facts_of(tmp_path / "record", tune_paths=SETTINGS))


@pytest.mark.parametrize("name", ["b300", "gb200", "container-cpuset", "h200x2", "vm"])
def test_a_recorded_machine_recorded_again(machine: MachineRoot, tmp_path: Path, name: str) -> None:
    """Nothing is lost on the way, gaps included."""
    root = machine(name)

    record(RecordedHost(root), tmp_path / "again", lambda host: collect(host, find_paths(root, {}, 0)))

    first, second = (facts_to_json(facts_of(r)) for r in (root, tmp_path / "again"))
    assert first | {"collected_unix_s": 0} == second | {"collected_unix_s": 0}


def test_no_secret_is_written(machine: MachineRoot, tmp_path: Path) -> None:
    """Of an environment only the container's name is kept; a token anywhere is masked."""
    root = machine("no-gpu")
    (root / "proc/1").mkdir()
    (root / "proc/1/environ").write_text("HF_TOKEN=hf_abcdefghijkl\0container=lxc\0AWS_SECRET=xyz\0")
    cache = root / "var/lib/kboot/cache/key"
    cache.mkdir(parents=True)
    (cache / "factors.json").write_text('{"args": "--hf-token hf_ABCDEFGH12345678 --api-key sk-' + "Qr7" * 12 + '"}')

    record(RecordedHost(root), tmp_path / "out", lambda host: collect(host, find_paths(root, {}, 0)))

    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert [] == [secret for secret in (b"abcdefghijkl", b"ABCDEFGH12", b"xyz", b"Qr7Qr7") if secret in written]
    assert "lxc" == facts_of(tmp_path / "out").os.container


def test_a_state_folder_behind_an_absolute_link_stays_in_the_tree(machine: MachineRoot, tmp_path: Path) -> None:
    """The link is recorded, and what lies behind it is written inside the record, not on this machine."""
    root = machine("no-gpu")
    elsewhere = tmp_path / "elsewhere"
    real = root / str(elsewhere).lstrip("/") / "cache" / "key"
    real.mkdir(parents=True)
    (real / "factors.json").write_text('{"torch": "2.11"}')
    (root / "var/lib").mkdir(parents=True)
    (root / "var/lib/kboot").symlink_to(elsewhere)

    record(RecordedHost(root), tmp_path / "out", lambda host: collect(host, find_paths(root, {}, 0)))

    assert (False, {"key": {"torch": "2.11"}}) == (elsewhere.exists(), facts_of(tmp_path / "out").caches.factors_of)


def test_what_programs_printed_and_the_clock_are_recorded(tmp_path: Path) -> None:
    """Without tokens; the record answers as the machine did."""

    def ask(host: Host) -> tuple[object, object]:
        try:
            clock: object = host.clock()
        except OSError:  # this kernel does not let a process ask
            clock = None
        return host.program(("echo", "hf_abcdefghijklmnop"), 30.0), clock

    seen: list[tuple[object, object]] = []
    record(RealHost(), tmp_path / "record", lambda host: seen.append(ask(host)))
    back = ask(RecordedHost(tmp_path / "record"))

    assert Printed(0, "hf_***\n") == back[0]
    assert seen[0][1] == back[1]


def test_secrets_of_configuration_files_are_not_recorded(tmp_path: Path) -> None:
    """Passwords of mounts and proxies, keys in environment files, the machine's id."""
    files = {
        "etc/machine-id": "0123456789abcdef0123456789abcdef",
        "etc/fstab": "//nas/models /models cifs username=ops,password=hunter2,ro 0 0",
        "etc/kboot/env": "HTTPS_PROXY=http://ops:hunter2@proxy:3128\nAWS_SECRET_ACCESS_KEY=hunter2\nHF_HOME=/data",
    }
    for name, text in files.items():
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).write_text(text)
    record(RecordedHost(tmp_path / "m"), tmp_path / "r", lambda host: [host.read_text(f"/{name}") for name in files])
    kept = {name: (tmp_path / "r" / name).read_text() for name in files}

    assert [] == [name for name, text in kept.items() if "hunter2" in text or "abcdef" in text]
    assert ("username=ops" in kept["etc/fstab"], "HF_HOME=/data" in kept["etc/kboot/env"]) == (True, True)
