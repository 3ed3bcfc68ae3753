"""The examples of fleets are what they say: files that their programs read, with keys that kboot knows."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kboot.cli import kboot
from kboot.host.paths import Paths
from kboot.profile.load import load_profile
from kboot.profile.node_config import NodeConfig
from kboot.profile.types import Profile

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
MANIFESTS = tuple(sorted((EXAMPLES / "kubernetes").glob("*.yaml")))
PLAYS = tuple(sorted((EXAMPLES / "ansible").rglob("*.yml")))
SCRIPTS = tuple(sorted((EXAMPLES / "slurm").iterdir()))
VERSIONS = {
    "Service": "v1",
    "ConfigMap": "v1",
    "DaemonSet": "apps/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}


def relative(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def pods(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the pod templates of a manifest."""
    spec = document.get("spec", {})
    if document["kind"] == "DaemonSet":
        yield spec["template"]
    if document["kind"] == "LeaderWorkerSet":
        yield spec["leaderWorkerTemplate"]["leaderTemplate"]
        yield spec["leaderWorkerTemplate"]["workerTemplate"]


def with_drop_in(folder: Path, text: str) -> Profile:
    """Return Kimi K3's profile with a drop-in of an example."""
    place = folder / "etc/profiles/kimi-k3.d"
    place.mkdir(parents=True)
    (place / "fleet.toml").write_text(text)
    return load_profile("kimi-k3", Paths(folder / "state", folder / "run", folder / "etc"))


def is_accepted(words: list[str]) -> bool:
    """Parse a kboot command line without running it."""
    command: click.Command = kboot
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    with click.Context(command) as ctx:
        command.parse_args(ctx, words)
    return True


@pytest.mark.parametrize("path", MANIFESTS, ids=relative)
def test_each_manifest_has_what_its_kind_needs(path: Path) -> None:
    """Kind, version, a name that is a DNS label; every name used once for its kind."""
    found = documents(path)

    assert [VERSIONS[each["kind"]] for each in found] == [each["apiVersion"] for each in found]
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for _, name in names)


@pytest.mark.parametrize("path", MANIFESTS, ids=relative)
def test_what_a_pod_refers_to_is_there(path: Path) -> None:
    """Volumes that are mounted, maps that are configured with the keys that are mounted, ports that probes name."""
    maps = {each["metadata"]["name"]: each["data"] for each in documents(path) if each["kind"] == "ConfigMap"}
    for pod in (pod for each in documents(path) for pod in pods(each)):
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for container in pod["spec"]["containers"]:
            ports = {port["name"] for port in container["ports"]}
            assert container["readinessProbe"].get("httpGet", {}).get("port", "peers") in ports
            assert is_accepted([*container["command"][1:]])
            mounts = container["volumeMounts"]
            assert len({mount["mountPath"] for mount in mounts}) == len(mounts)
            for mount in mounts:
                volume = volumes.pop(mount["name"], None) or {"configMap": {"name": next(iter(maps))}}
                if "subPath" in mount:
                    assert mount["subPath"] in maps[volume["configMap"]["name"]]
        assert {} == volumes


@pytest.mark.parametrize("path", MANIFESTS, ids=relative)
def test_labels_and_selectors_meet(path: Path) -> None:
    """A service finds pods of its own manifest."""
    found = documents(path)
    labels = [pod["metadata"]["labels"].items() for each in found for pod in pods(each)]
    for each in found:
        selector = each.get("spec", {}).get("selector") or each.get("spec", {}).get("podSelector")
        if selector is not None:
            wanted = selector.get("matchLabels", selector).items()
            assert any(wanted <= have for have in labels), each["metadata"]["name"]


def test_the_key_is_nobodys_business() -> None:
    """Mounted from a secret, readable for its owner only, on every pod."""
    found = [pod for path in MANIFESTS for each in documents(path) for pod in pods(each)]

    assert 3 == len(found)
    for pod in found:
        (secret,) = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
        assert {"secretName": "kboot-fleet", "defaultMode": 0o400} == secret


def test_names_of_a_headless_service_have_addresses_before_pods_are_ready() -> None:
    """Nodes need each other to become ready, so a service that names only ready ones would never name any."""
    service = documents(EXAMPLES / "kubernetes/daemonset.yaml")[0]["spec"]

    assert ("None", True) == (service["clusterIP"], service["publishNotReadyAddresses"])


@pytest.mark.parametrize("path", MANIFESTS, ids=relative)
def test_profiles_of_the_manifests_are_valid(path: Path, tmp_path: Path) -> None:
    """kboot reads them with the profile that the pods boot."""
    (data,) = [each["data"] for each in documents(path) if each["kind"] == "ConfigMap"]
    fleet = with_drop_in(tmp_path, data["fleet.toml"]).fleet

    assert fleet.discovery in ("kubernetes", "lws")
    assert {"profile": "kimi-k3"} == tomllib.loads(data.get("kboot.toml", 'profile = "kimi-k3"'))
    assert "profile" in NodeConfig.__dataclass_fields__


def test_a_group_has_as_many_pods_as_a_layout_has_nodes(tmp_path: Path) -> None:
    """Four pods of eight GPUs: a layout of Kimi K3."""
    (group,) = [d for d in documents(EXAMPLES / "kubernetes/leaderworkerset.yaml") if d["kind"] == "LeaderWorkerSet"]
    layouts = with_drop_in(tmp_path, "").layout

    size = group["spec"]["leaderWorkerTemplate"]["size"]
    assert (size, 8) in {(layout.nodes, layout.gpus_per_node) for layout in layouts}
    for pod in pods(group):
        assert "8" == pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]


def test_the_drop_in_of_machines_is_valid(tmp_path: Path) -> None:
    """Four nodes by name, as many as a layout has."""
    fleet = with_drop_in(tmp_path, (EXAMPLES / "systemd/fleet.toml").read_text()).fleet

    assert ("static", 4) == (fleet.discovery, len(fleet.peers))


def test_the_drop_in_of_the_unit_changes_its_order_only() -> None:
    """A fleet waits for the network that it answers on."""
    parsed = configparser.ConfigParser(strict=True)
    parsed.read_string((EXAMPLES / "systemd/kboot.service.d/fleet.conf").read_text())

    assert {"wants": "network-online.target", "after": "network-online.target"} == dict(parsed["Unit"])
    assert ["Unit"] == parsed.sections()


@pytest.mark.parametrize("script", SCRIPTS, ids=relative)
def test_scripts_are_clean_and_call_what_there_is(script: Path) -> None:
    """They can be run, stop at the first error, and every kboot in them is a command line that kboot takes."""
    text = script.read_text()
    if shutil.which("shellcheck"):
        found = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
        assert ("", 0) == (found.stdout, found.returncode)
    assert script.stat().st_mode & 0o111
    assert "set -euo pipefail" in text
    lines = re.findall(r"(?:^|/)kboot ((?:fetch|doctor|boot) [^|>\n]*)", text.replace("\\\n", " "), re.M)
    assert lines
    for line in lines:
        assert is_accepted(shlex.split(line))


@pytest.mark.parametrize("path", PLAYS, ids=relative)
def test_plays_are_yaml_with_named_tasks(path: Path) -> None:
    """Every task has a name and one module by its full name; what a handler is called is called somewhere."""
    content = yaml.safe_load(path.read_text())
    if path.parent.name in ("tasks", "handlers"):
        for task in content:
            modules = [key for key in task if key.startswith("ansible.builtin.")]
            assert (task["name"][0].isupper(), 1) == (True, len(modules)), task
            if "ansible.builtin.command" in task:
                words = shlex.split(re.sub(r"{{.*?}}", "kimi-k3", task["ansible.builtin.command"]["cmd"]))
                assert is_accepted(words[1:])
    else:
        assert content


def test_every_notified_handler_is_there() -> None:
    """A misspelt one would end a play."""
    role = EXAMPLES / "ansible/roles/kboot_fleet"
    handlers = {task["name"] for task in yaml.safe_load((role / "handlers/main.yml").read_text())}
    tasks = yaml.safe_load((role / "tasks/main.yml").read_text())
    notified = [name for task in tasks for name in _listed(task.get("notify", []))]

    assert handlers == set(notified)


def test_the_template_of_the_role_makes_a_valid_drop_in(tmp_path: Path) -> None:
    """With the role's own defaults, and the hosts of the inventory in their order."""
    role = EXAMPLES / "ansible/roles/kboot_fleet"
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    hosts = [line for line in (EXAMPLES / "ansible/inventory.ini").read_text().splitlines() if line[:1].isalnum()]
    text = (role / "templates/fleet.toml.j2").read_text()
    text = re.sub(r"{% for .*?%}.*{% endfor %}", ", ".join(f'"{host}"' for host in hosts), text)
    text = re.sub(r"{{ (\w+) }}", lambda found: str(defaults[found[1]]), text)

    assert tuple(hosts) == with_drop_in(tmp_path, text).fleet.peers


def test_the_list_of_examples_names_every_one() -> None:
    """The folder's own page leaves none out."""
    page = (EXAMPLES / "README.md").read_text()

    assert all(f"`{relative(path)}`" in page for path in MANIFESTS)
    assert all(f"`{folder}/`" in page for folder in ("systemd", "ansible", "slurm"))


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
