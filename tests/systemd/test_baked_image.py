"""An image is baked in a root without systemd running, and every copy of it boots with no network, or says why not."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fakes.box import Box
from systemd.test_services import engine_pids, install_hub, wait_for_answer, wait_for_record

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(300)]

CANARY = "hf_" + "CanaryCanaryCanaryCanary"
SHARDS = ("--shards", "2", "--mib-per-shard", "18")
BAKE = """
set -eu
export HF_TOKEN=%(canary)s
/opt/kboot/env/bin/python -m kboot.demo.hub --data /mnt/hub --port-file /mnt/hub.json %(shards)s >/mnt/hub.log 2>&1 &
hub=$!
until [ -s /mnt/hub.json ]; do kill -0 $hub; sleep 0.1; done
export HF_ENDPOINT=$(/opt/kboot/env/bin/python -c 'import json; print(json.load(open("/mnt/hub.json"))["endpoint"])')
kboot bake --profile demo --json >/mnt/prepared.json
kill $hub
mkdir -p /root/.cache/huggingface /var/log/journal/0123
printf %(canary)s >/root/.cache/huggingface/token
printf 'export HF_TOKEN=%(canary)s\n' >/root/.bash_history
printf 'HF_ENDPOINT=http://127.0.0.1:9111\nHF_TOKEN=%(canary)s\n' >/etc/kboot/env
printf 'said %(canary)s' >/var/log/journal/0123/system.journal
printf 'said %(canary)s' >/var/log/kboot.log
kboot bake --finish --this-machine --json
"""


@pytest.fixture(scope="module")
def image(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The changes that baking and sealing make to an installed machine, as a layer."""
    folder = tmp_path_factory.mktemp("baked")
    subprocess.run(["mount", "-t", "tmpfs", "kboot-image", folder], check=True, capture_output=True)
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "--lazy", folder], check=False)
        mnt = tmp_path_factory.mktemp("mnt")
        box = stack.enter_context(Box(folder, f"kboot{os.getpid()}-bake", below=(layer,)))
        box.write("/etc/kboot/kboot.toml", 'schema = 1\nprofile = "demo"\n')
        box.write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        script = BAKE % {"canary": CANARY, "shards": " ".join(SHARDS)}
        result = box.inside("sh", "-c", script, mnt=mnt, alone=True)
        said = result.stdout[-3000:] + result.stderr[-3000:] + (mnt / "hub.log").read_text()[-1000:]
        assert 0 == result.returncode, said
        assert json.loads(result.stdout)["seal"]["sealed"]
        box.__exit__()
        yield box.upper


@pytest.fixture
def copy(image: Path, layer: Path, tmp_path: Path) -> Iterator[Callable[[], Box]]:
    """Return a function that gives a machine started from the image."""
    with ExitStack() as stack:

        def new() -> Box:
            box = stack.enter_context(Box(tmp_path / "copy", f"kboot{os.getpid()}-copy", below=(image, layer)))
            box.write("/etc/systemd/system/kboot-engine.service.d/quick.conf", "[Service]\nRestartSec=1s\n")
            return box

        yield new


def test_the_builder_is_nowhere_in_the_image(image: Path) -> None:
    """A canary that stood in every place kboot touches is in no file; the machine id is an empty file."""
    found = subprocess.run(["grep", "-rlF", CANARY, image], capture_output=True, text=True, check=False)

    assert (1, "") == (found.returncode, found.stdout)
    assert b"" == (image / "etc/machine-id").read_bytes()
    assert not (image / "var/lib/kboot/node.key").exists()
    assert "HF_TOKEN=\n" in (image / "etc/kboot/env").read_text()


def test_the_engines_user_will_own_its_caches(image: Path) -> None:
    """B122: folders are as systemd-tmpfiles makes them at boot, so that what a bake put there can be changed."""
    modes = [(image / "var/lib/kboot" / name).stat().st_mode & 0o7777 for name in ("", "cache")]

    assert [0o2750, 0o2770] == modes


def test_a_copy_boots_to_an_answer_with_no_network(copy: Callable[[], Box]) -> None:
    """No source is reached or asked: every byte is proven on this disk, once, and the engine answers."""
    box = copy()
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    claim = json.loads(box.run("kboot", "timeline", "--json").stdout)["verify_claim"]
    machine_id = box.run("cat", "/etc/machine-id").stdout.strip()

    assert "hashed in this run" in claim
    assert (32, False) == (len(machine_id), machine_id.startswith("0123456789abcdef"))
    assert "0" == box.show("kboot.service", "NRestarts")["NRestarts"]


def flip_a_bit(path: Path, offset: int) -> None:
    """Change one bit as a failing disk does: the file's size and times stay."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_changed_byte_is_refused_and_named_and_its_range_mended(copy: Callable[[], Box]) -> None:
    """One bit of one shard: the node is not ready and says which file; with a source only that range is fetched."""
    box = copy()
    state = box.root / "var/lib/kboot"
    manifest = json.loads((state / "bake.json").read_text())
    shard = next(f for f in manifest["files"] if f["path"] == "model-00002-of-00002.safetensors")
    flip_a_bit(state / "hub/models--kboot--demo-moe/blobs" / shard["blob_id"], 17 << 20)
    install_hub(box, *SHARDS, at_boot=False)
    box.boot()
    box.wait_for_journal("kboot", f"{shard['path']} is not right on this disk")

    assert "active" != box.show("kboot.service", "ActiveState")["ActiveState"]
    assert [] == engine_pids(box)

    box.systemctl("start", "hub")
    box.systemctl("restart", "kboot")
    wait_for_record(box)
    wait_for_answer(box)
    done = [json.loads(line) for line in box.journal("kboot").splitlines() if '"file.done"' in line]
    fetched = [line for line in done if line["phase"] == "fetch"]

    assert [shard["path"]] == [line["path"] for line in fetched]
    assert shard["size_bytes"] - fetched[0]["reused_bytes"] <= shard["size_bytes"] - (16 << 20)


def test_samples_first_and_every_byte_once_the_engine_answers(copy: Callable[[], Box]) -> None:
    """verify.image = "bake": the node serves after samples, says so, and the daemon hashes the rest beside it."""
    box = copy()
    box.write("/etc/kboot/profiles/demo.d/image.toml", '[verify]\nimage = "bake"\n')
    box.boot()
    wait_for_record(box)
    wait_for_answer(box)
    claim = json.loads(box.run("kboot", "timeline", "--json").stdout)["verify_claim"]
    box.wait_for_journal("kboot", "image.proven", deadline_s=120)

    assert "only compared with the image in samples" in claim
    assert 0 == box.run("kboot", "verify", "--offline").returncode
