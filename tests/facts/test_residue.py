"""What of a builder would go out with its image is found, wherever it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kboot.events import Event
from kboot.facts.residue import ImageFolders, Residue, find_residue, known_secrets
from kboot.host.image import ImageTree
from kboot.store.ledger import Ledger, Mark, Row

CASES = Path(__file__).parents[1] / "cases"
TOKEN = "hf_" + "CanaryCanary0123456789"
FOLDERS = ImageFolders()


def found_in(root: Path, folders: ImageFolders = FOLDERS, env: tuple[str, ...] = ()) -> dict[str, Residue]:
    tree = ImageTree(root)
    residue = find_residue(tree, folders, {tree.device()}, known_secrets(tree, folders, env))
    assert [r.path for r in residue] == sorted(r.path for r in residue)
    return {r.path: r for r in residue}


def kinds_in(root: Path, folders: ImageFolders = FOLDERS, env: tuple[str, ...] = ()) -> dict[str, str]:
    return {path: residue.kind for path, residue in found_in(root, folders, env).items()}


def put(root: Path, path: str, text: str = "x") -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_logins_left_in_a_home_are_found() -> None:
    """B147: a docker login, two Hub tokens and a netrc are four things to take away."""
    expected = {
        "root/.cache/huggingface/stored_tokens": "token",
        "root/.cache/huggingface/token": "token",
        "root/.docker/config.json": "docker-auth",
        "root/.netrc": "credential",
    }

    assert expected == kinds_in(CASES / "B147")


def test_who_may_log_in_is_found() -> None:
    """B149: the builder's own key in authorized_keys is one thing to report."""
    assert {"home/ubuntu/.ssh/authorized_keys": Residue("home/ubuntu/.ssh/authorized_keys", "login-key", "1 key")} == (
        found_in(CASES / "B149")
    )


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("etc/machine-id", "machine-id"),
        ("var/lib/dbus/machine-id", "dbus-machine-id"),
        ("var/lib/systemd/random-seed", "seed"),
        ("var/lib/systemd/credential.secret", "seed"),
        ("boot/efi/loader/random-seed", "seed"),
        ("etc/ssh/ssh_host_ed25519_key", "host-key"),
        ("etc/ssh/ssh_host_rsa_key.pub", "host-key"),
        ("var/log/journal/0123456789abcdef0123456789abcdef", "log"),
        ("root/.bash_history", "history"),
        ("home/ubuntu/.local/share/fish/fish_history", "history"),
        ("home/ubuntu/.aws/credentials", "credential"),
        ("root/.config/gcloud", "credential"),
        ("var/lib/kboot/node.key", "node-key"),
        ("var/lib/kboot/history", "record"),
        ("var/lib/kboot/ledger.db.aside-1764000000", "record"),
        ("var/lib/kboot/cache/sm103-x/manifest.json", "record"),
        ("var/lib/kboot/cache/sm103-x/vllm/gpu_p2p_access_cache_for_0,1.json", "record"),
        ("var/lib/kboot/hub/models--a--b/blobs/0123.part", "unfinished"),
        ("var/lib/kboot/hub/models--a--b/blobs/0123.part-journal", "unfinished"),
        ("run/kboot/handoff.json", "runtime"),
        ("run/kboot/engine.log", "runtime"),
        ("home/a/.cache/kboot/boot.json", "runtime"),
        ("home/a/.local/state/kboot/node.key", "node-key"),
    ],
)
def test_each_has_its_kind(tmp_path: Path, path: str, kind: str) -> None:
    """A path of the table is found by its name."""
    put(tmp_path, "etc/machine-id" if path == "etc/machine-id" else path)
    found = kinds_in(tmp_path)
    found.pop("etc/machine-id", None) if path != "etc/machine-id" else None

    assert {path: kind} == found


def test_a_clean_tree_has_nothing(tmp_path: Path) -> None:
    """An empty machine id, a configuration without logins, an empty list of keys, a link to the machine id."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n")
    put(tmp_path, "root/.docker/config.json", '{"credsStore": "pass"}')
    put(tmp_path, "root/.ssh/authorized_keys", "# none\n\n")
    put(tmp_path, "root/.bashrc", 'export HF_TOKEN="$(cat /run/secret)"\nexport HF_TOKEN=$OTHER\n')
    (tmp_path / "var/lib/dbus").mkdir(parents=True)
    (tmp_path / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")

    assert {} == kinds_in(tmp_path)


@pytest.mark.parametrize("content", [None, "uninitialized\n"])
def test_a_machine_id_that_is_not_empty_would_apply_presets(tmp_path: Path, content: str | None) -> None:
    """Without the file, as with `uninitialized`, systemd takes the first boot for one that enables every preset."""
    (tmp_path / "etc").mkdir()
    if content is not None:
        put(tmp_path, "etc/machine-id", content)

    assert {"etc/machine-id": "machine-id"} == kinds_in(tmp_path)


@pytest.mark.parametrize(
    ("path", "text", "detail"),
    [
        ("etc/kboot/env", f"HF_ENDPOINT=https://mirror\nHF_TOKEN={TOKEN}\n", "HF_TOKEN"),
        ("root/.bashrc", f"export HF_TOKEN='{TOKEN}'\n", "HF_TOKEN"),
        ("home/a/.profile", "AWS_SECRET_ACCESS_KEY=abc/def+ghi\n", "AWS_SECRET_ACCESS_KEY"),
        ("etc/environment", f"MY_OWN={TOKEN}\n", "a token"),
        ("etc/systemd/system/kboot.service.d/token.conf", f'Environment="HF_TOKEN={TOKEN}"\n', "HF_TOKEN"),
        ("etc/profile.d/hub.sh", f"HUGGING_FACE_HUB_TOKEN={TOKEN}\n", "HUGGING_FACE_HUB_TOKEN"),
    ],
)
def test_variables_set_to_secrets_are_found(tmp_path: Path, path: str, text: str, detail: str) -> None:
    """In files that set them for everybody, for a person or for a service."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, path, text)

    assert {path: Residue(path, "assignment", detail)} == found_in(tmp_path)


def test_a_token_is_found_wherever_text_lies(tmp_path: Path) -> None:
    """In logs, scratch folders, profiles, notes and kboot's own state; code of others with examples is passed by."""
    put(tmp_path, "etc/machine-id", "")
    for path in (
        "etc/kboot/profiles/own.toml",
        "root/notes.txt",
        "tmp/pip.log",
        "var/log/cloud-init.log",
        "var/lib/kboot/licenses/a.json",
        "var/lib/kboot/cache/sm103-x/vllm/log.json",
        "opt/venv/lib/python3.12/site-packages/transformers/testing_utils.py",
        "root/venv/lib/python3.12/site-packages/transformers/testing_utils.py",
        "var/lib/kboot/hub/models--a--b/blobs/0123",
    ):
        put(tmp_path, path, f"see https://user:{TOKEN}@mirror/\n")
    expected = {
        "etc/kboot/profiles/own.toml": "text",
        "root/notes.txt": "text",
        "tmp/pip.log": "scratch-text",
        "var/lib/kboot/cache/sm103-x/vllm/log.json": "log-text",
        "var/lib/kboot/licenses/a.json": "text",
        "var/log/cloud-init.log": "log-text",
    }

    assert expected == kinds_in(tmp_path)


def test_a_secret_of_this_builder_is_known_by_its_value(tmp_path: Path) -> None:
    """A token that looks like none is found in a log, since a token file or the environment holds it."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/hub-token", "plain-company-token\n")
    put(tmp_path, "root/.netrc", "machine huggingface.co login u password netrc-password\n")
    put(tmp_path, "root/.cache/huggingface/stored_tokens", "[a]\nhf_token = stored-token\n")
    for name in ("plain-company-token", "netrc-password", "stored-token", "env-token"):
        put(tmp_path, f"var/log/{name}.log", f"GET /?t={name} 200")
    folders = ImageFolders(token_files=("etc/hub-token",))
    found = kinds_in(tmp_path, folders, ("env-token",))

    assert 4 == sum(kind == "log-text" for kind in found.values())
    assert "token" == found["etc/hub-token"]


def test_the_secret_of_a_fleet_is_found_where_a_profile_names_it(tmp_path: Path) -> None:
    """Whoever has the image would be a node of the fleet."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/kboot/profiles/kimi-k3.d/fleet.toml", '[fleet]\nkey_file = "/etc/kboot/fleet.key"\n')
    put(tmp_path, "etc/kboot/fleet.key", "0" * 64)

    assert {"etc/kboot/fleet.key": "fleet-key"} == kinds_in(tmp_path)


def test_homes_are_those_of_the_accounts(tmp_path: Path) -> None:
    """An account whose home lies elsewhere is looked at as well, also one whose home is the root (B120)."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/passwd", "svc:x:1001:1001::/srv/people/svc:/bin/sh\napp:x:1002:1002::/:/bin/sh\n")
    put(tmp_path, "srv/people/svc/.netrc")
    put(tmp_path, ".netrc")

    assert {".netrc": "credential", "srv/people/svc/.netrc": "credential"} == kinds_in(tmp_path)


def test_rows_of_the_ledger_are_found(tmp_path: Path) -> None:
    """A ledger that names files by this file system is told with how many."""
    seen: list[Event] = []
    put(tmp_path, "etc/machine-id", "")
    (tmp_path / "var/lib/kboot").mkdir(parents=True)
    ledger = Ledger(tmp_path / "var/lib/kboot/ledger.db", seen.append)
    mark = Mark("", "1", "2", 3, 4, 5)
    ledger.record([Row("a/b", "0" * 64, "0" * 40, "x", "0" * 64, mark, "fetch", 1.0, "hub")])
    ledger.close()

    assert {"var/lib/kboot/ledger.db": "1 files named by this file system"} == {
        path: residue.detail for path, residue in found_in(tmp_path).items()
    }


def test_what_lies_on_another_file_system_is_not_the_images(tmp_path: Path) -> None:
    """A home of the host that is mounted into a build container is left alone."""
    put(tmp_path, "root/.netrc")
    tree = ImageTree(tmp_path)

    assert () == find_residue(tree, FOLDERS, {tree.device() + 1}, frozenset())


@pytest.mark.parametrize("link", [".cache", ".cache/kboot", ".local", ".local/state/kboot"])
def test_a_link_in_a_home_does_not_make_the_machine_kboots(tmp_path: Path, link: str) -> None:
    """Whoever has an account could have everything taken away, as if it were a folder of a user's kboot."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "srv/kboot/history/a", "weights")
    put(tmp_path, "srv/state/kboot/history/a", "weights")
    (tmp_path / "home/eve" / link).parent.mkdir(parents=True)
    (tmp_path / "home/eve" / link).symlink_to("/srv/kboot" if link.endswith("kboot") else "/srv")

    assert {} == kinds_in(tmp_path)


def test_a_run_folder_that_is_a_link_is_not_emptied(tmp_path: Path) -> None:
    """What it leads to is somebody else's."""
    put(tmp_path, "etc/machine-id", "")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/kboot").symlink_to("/")

    assert {} == kinds_in(tmp_path)


def test_a_secret_far_behind_in_a_log_is_found(tmp_path: Path) -> None:
    """Logs of a build are longer than one read, and a token may lie across two."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "var/log/build.log", " " * ((4 << 20) - 5) + TOKEN)
    put(tmp_path, "var/log/long.log", " " * (9 << 20) + TOKEN)

    assert {"var/log/build.log": "log-text", "var/log/long.log": "log-text"} == kinds_in(tmp_path)


def test_a_password_that_git_keeps_is_looked_for_everywhere(tmp_path: Path) -> None:
    """It looks like no token."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "root/.git-credentials", "https://builder:company-secret-2@hub.example\n")
    put(tmp_path, "srv/notes", "login with company-secret-2")

    assert {"root/.git-credentials": "credential", "srv/notes": "text"} == kinds_in(tmp_path)


def test_a_machine_id_that_is_no_file_is_not_an_empty_one(tmp_path: Path) -> None:
    """A pipe has no bytes either, and would keep the first boot waiting."""
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/machine-id")

    assert {"etc/machine-id": "machine-id"} == kinds_in(tmp_path)
