"""The examples of image builds are what they say: files that their builders read, with commands that kboot has."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import hcl2
import pytest
import yaml

from kboot.cli import kboot
from kboot.host.paths import Paths
from kboot.profile.load import load_profile

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
CASES = REPOSITORY / "tests/cases"
SCRIPTS = (
    EXAMPLES / "mkosi/mkosi.postinst.chroot",
    EXAMPLES / "mkosi/mkosi.finalize.chroot",
    EXAMPLES / "instance-store/format-instance-store",
)
COMPONENT = EXAMPLES / "image-builder/kboot-bake.yml"


def kboot_lines(texts: Iterable[str]) -> list[str]:
    """Return the kboot command lines in shell texts, with builders' own variables filled in."""
    lines = (line for text in texts for line in text.splitlines())
    filled = (re.sub(r"\{\{[^}]+\}\}|\$\{[^}]+\}|\"?\$\w+\"?", "8", line) for line in lines)
    return [m[1] for line in filled if (m := re.match(r"(?:/usr/local/bin/)?(kboot [^|&;]+)", line.strip()))]


def is_accepted(line: str) -> bool:
    """Parse a command line without running it; a folder that it names need not be here."""
    _, *words = shlex.split(line)
    command: click.Command = kboot
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    words = ["/" if before == "--root" else word for before, word in zip(["", *words], words, strict=False)]
    with click.Context(command) as ctx:
        command.parse_args(ctx, words)
    return True


def packer() -> dict[str, Any]:
    with (EXAMPLES / "packer/gpu-node.pkr.hcl").open() as file:
        return hcl2.load(file)


def unquoted(text: str) -> str:
    return text.strip('"')


def shells() -> list[dict[str, Any]]:
    (build,) = packer()["build"]
    return [p[kind] for p in build["provisioner"] for kind in p if unquoted(kind) == "shell"]


def test_packers_template_can_be_read_and_names_what_there_is() -> None:
    """Sources that are built are defined, and so is every variable that is used."""
    found = packer()
    sources = {f"source.{unquoted(kind)}.{unquoted(name)}" for s in found["source"] for kind in s for name in s[kind]}
    variables = {unquoted(name) for v in found["variable"] for name in v}
    used = set(re.findall(r"\bvar\.(\w+)", json.dumps(found)))

    assert sources == {unquoted(s) for s in found["build"][0]["sources"]}
    assert used <= variables


def test_packer_seals_in_its_last_step_and_says_which_machine() -> None:
    """Whatever comes after sealing would be in the image."""
    lines = [kboot_lines(unquoted(line) for line in shell["inline"]) for shell in shells()]

    assert ["kboot bake --finish --this-machine --remove-login-keys"] == lines[-1]
    assert all(is_accepted(line) for group in lines for line in group)
    assert any(line.startswith("kboot bake --profile") for group in lines for line in group)


def test_packers_token_is_in_one_steps_environment_only() -> None:
    """Neither in a command line nor in a file that is uploaded."""
    with_token = [shell for shell in shells() if "hf_token" in json.dumps(shell)]

    assert 1 == len(with_token)
    assert with_token[0]["use_env_var_file"] is True
    assert "hf_token" in json.dumps(with_token[0]["environment_vars"])
    assert "hf_token" not in json.dumps(with_token[0]["inline"])
    assert ".Vars" not in with_token[0]["execute_command"]


def component() -> dict[str, Any]:
    found = yaml.safe_load(COMPONENT.read_text())
    assert isinstance(found, dict)
    return found


def commands_of(phase: dict[str, Any]) -> list[str]:
    return [c for step in phase["steps"] if step["action"] == "ExecuteBash" for c in step["inputs"]["commands"]]


def test_the_component_has_the_form_of_image_builder() -> None:
    """Phases, actions and parameters; what a command refers to is a parameter."""
    found = component()
    parameters = {name for each in found["parameters"] for name in each}
    used = set(re.findall(r"\{\{ (\w+) \}\}", COMPONENT.read_text()))

    assert (1.0, ["build", "validate", "test"]) == (found["schemaVersion"], [p["name"] for p in found["phases"]])
    assert {"ExecuteBash", "S3Download"} == {s["action"] for p in found["phases"] for s in p["steps"]}
    assert parameters == used


def test_the_component_seals_last_and_its_commands_exist() -> None:
    """The image is made after `validate`."""
    phases = {phase["name"]: commands_of(phase) for phase in component()["phases"]}

    assert "kboot bake --finish --this-machine" == phases["validate"][-1]
    assert all(is_accepted(line) for commands in phases.values() for line in kboot_lines(commands))
    assert 5 == sum(len(kboot_lines(commands)) for commands in phases.values())


def test_mkosi_bakes_and_seals_inside() -> None:
    """The configuration can be read; both run in the image's root, by the path that PATH there lacks."""
    config = configparser.ConfigParser(allow_no_value=True, delimiters=("=",))
    config.optionxform = str  # type: ignore[assignment, method-assign]
    config.read(EXAMPLES / "mkosi/mkosi.conf")
    first, last = (
        kboot_lines([(EXAMPLES / "mkosi" / n).read_text()]) for n in ("mkosi.postinst.chroot", "mkosi.finalize.chroot")
    )

    assert {"python3", "python3-venv", "systemd-boot", "systemd-sysv"} <= set(config["Content"]["Packages"].split())
    assert (["kboot bake --profile 8"], ["kboot bake --finish --this-machine"]) == (first, last)
    assert all(is_accepted(line) for line in (*first, *last))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_run_and_are_clean(path: Path) -> None:
    """They may be run, the shell reads them, and shellcheck finds nothing where it is installed."""
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", path], check=True, timeout=60)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", path], check=True, timeout=60)


def test_what_cloud_init_writes_is_valid(tmp_path: Path) -> None:
    """Its files are kboot's configuration and a drop-in of the profile; the token's file is root's alone."""
    text = (EXAMPLES / "cloud-init/user-data.yml").read_text()
    files = {f["path"]: f for f in yaml.safe_load(text)["write_files"]}
    config = tomllib.loads(files["/etc/kboot/kboot.toml"]["content"])
    drop_in = tmp_path / "etc/profiles/kimi-k3.1-pro.d/image.toml"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text(files["/etc/kboot/profiles/kimi-k3.1-pro.d/image.toml"]["content"])
    profile = load_profile(config["profile"], Paths(tmp_path / "state", tmp_path / "run", tmp_path / "etc"))

    assert text.startswith("#cloud-config\n")
    assert "0600" == files[config["token_file"]]["permissions"]
    assert ("bake", "after") == (profile.verify.image, profile.verify.image_hash)


@pytest.mark.parametrize(
    "store",
    [
        "nvme-Amazon_EC2_NVMe_Instance_Storage_AWS000",
        "nvme-Microsoft_NVMe_Direct_Disk_v2_0123456789ABCDEF",  # Azure/azure-vm-utils#86
        "google-local-nvme-ssd-0",
        "google-local-ssd-block0",
    ],
)
def test_only_a_blank_instance_store_is_formatted(tmp_path: Path, store: str) -> None:
    """B153, and as other clouds name it: the blank store gets a file system, the volume with one never."""
    devices = json.loads((CASES / "B153/blkid.json").read_text())
    expect = json.loads((CASES / "B153/case.json").read_text())["expect"]
    by_id, said = tmp_path / "by-id", tmp_path / "said"
    by_id.mkdir()
    links = (CASES / "B153/by-id.txt").read_text().replace("nvme-Amazon_EC2_NVMe_Instance_Storage_AWS000", store)
    for line in links.splitlines():
        name, _, target = line.partition(" -> ")
        (tmp_path / Path(target).name).touch()
        (by_id / name).symlink_to(tmp_path / Path(target).name)
    blank = " ".join(f"*/{Path(name).name})" + " exit 2;;" for name, kind in devices.items() if kind is None)
    programs = {
        "blkid": f"for last; do :; done; case $last in {blank} esac; echo TYPE=ext4",
        "mkfs.ext4": f'for last; do :; done; echo "mkfs $last" >>{said}',
        "mountpoint": "exit 1",
        "mount": f'echo "mount $3" >>{said}',
        "install": f'for last; do :; done; echo "install $5 $last" >>{said}; mkdir -p "$last"',
    }
    for name, body in programs.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    env = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "BY_ID": str(by_id)}
    script = EXAMPLES / "instance-store/format-instance-store"
    done = subprocess.run(
        [script, tmp_path / "store"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    lines = said.read_text().splitlines()

    assert 0 == done.returncode, done.stderr
    assert [f"mkfs {tmp_path}/{Path(name).name}" for name in expect["format"]] == [
        x for x in lines if x.startswith("mkfs")
    ]
    assert not [x for x in lines for name in expect["never"] if Path(name).name in x]
    assert [f"install kboot {tmp_path}/store/kboot", f"install kboot {tmp_path}/store/kboot/cache"] == lines[-2:]


def test_a_machine_without_an_instance_store_is_told(tmp_path: Path) -> None:
    """Nothing is formatted, and the unit fails with a clear sentence."""
    script = EXAMPLES / "instance-store/format-instance-store"
    env = {"PATH": "/usr/bin:/bin", "BY_ID": str(tmp_path)}
    done = subprocess.run(
        [script, tmp_path / "store"], env=env, capture_output=True, text=True, timeout=60, check=False
    )

    assert (1, True) == (done.returncode, "no instance store here" in done.stderr)
