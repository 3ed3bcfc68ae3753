"""What of a builder would go out with its image is found, wherever it lies."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.events import Event
from kboot.facts.image_ground import ImageGround
from kboot.facts.residue import ImageFolders, Residue, find_residue, known_secrets
from kboot.host.image import ImageTree
from kboot.store.ledger import Ledger, Row
from kboot.store.marks import Mark

CASES = Path(__file__).parents[1] / "cases"
TOKEN = "hf_" + "CanaryCanary0123456789"
FOLDERS = ImageFolders()


def found_in(root: Path, folders: ImageFolders = FOLDERS, env: tuple[str, ...] = ()) -> dict[str, Residue]:
    tree = ImageTree(root)
    residue = find_residue(
        tree, folders, ImageGround(frozenset({tree.device()})), known_secrets(tree, folders, env)
    ).residue
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
        ("var/lib/kboot/shares/models--a--b/records", "record"),
        ("var/lib/kboot/shares/models--a--b/digests", "told"),
        ("home/a/.tcsh_history", "history"),
        ("home/a/.zsh_history-backup", "history"),
        ("root/.local/state/zsh/history", "history"),
        ("root/.ssh/known_hosts", "trace"),
        ("home/a/.kube/config", "credential"),
        ("root/.vault-token", "credential"),
        ("home/a/.gnupg/private-keys-v1.d", "credential"),
        ("etc/apt/auth.conf", "credential"),
        ("etc/credstore/db.password", "credential"),
        ("var/lib/dhcp/dhclient.eth0.leases", "lease"),
        ("var/lib/NetworkManager/internal-0123-eth0.lease", "lease"),
        ("var/lib/NetworkManager/secret_key", "seed"),
        ("etc/nvme/hostid", "seed"),
        ("var/lib/cloud/instances/i-0123/user-data.txt", "cloud-state"),
        ("var/lib/cloud/data/instance-id", "cloud-state"),
        ("var/log/wtmp", "login-log"),
        ("etc/hostname", "told"),
        ("etc/machine-info", "told"),
        ("etc/cloud/cloud.cfg.d/99-installer.cfg", "told"),  # kubernetes-sigs/image-builder#1080
        ("etc/lvm/devices/system.devices", "told"),  # canonical/cloud-init PR#1514
        ("etc/munge/munge.key", "credential"),  # stackhpc/ansible-slurm-appliance#60
        ("root/.dockercfg", "credential"),
        ("home/a/.modal.toml", "credential"),
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

    above = [
        folder
        for folder in ("etc/credstore", "var/lib/cloud/instances", "var/lib/cloud/data")
        if path.startswith(folder)
    ]
    assert {above[0] if above else path: kind} == found


def test_a_clean_tree_has_nothing(tmp_path: Path) -> None:
    """An empty machine id, a configuration without logins, an empty list of keys, a link to the machine id."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n")
    put(tmp_path, "root/.docker/config.json", '{"credsStore": "pass"}')
    put(tmp_path, "var/log/wtmp", "")
    (tmp_path / "etc/apt/auth.conf.d").mkdir(parents=True)
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
        ("etc/environment", f"MY_OWN={TOKEN}\n", "a Hub token"),
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


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("etc/pip.conf", "[global]\nindex-url = https://builder:s3cret@wheels.example/simple\n", "url-login"),
        ("root/.npmrc", "//npm.example/:_authToken=plain-word\n", "url-login"),
        ("home/a/.config/uv/uv.toml", 'index-url = "https://0123456789abcdef0123@wheels.example/"\n', "url-login"),
        ("etc/apt/sources.list.d/own.list", "deb https://u:word@apt.example/debian bookworm main\n", "url-login"),
        ("etc/NetworkManager/system-connections/lab.nmconnection", "[wifi-security]\npsk=longword\n", "network-secret"),
        ("etc/netplan/60-lab.yaml", '      password: "longword"\n', "network-secret"),
        ("etc/wireguard/wg0.conf", f"[Interface]\nPrivateKey = {'k' * 43}=\n", "network-secret"),
        ("opt/tool/.git/config", "[remote]\nurl = https://x:word-of-git@git.example/a\n", "text"),
        ("srv/app/settings.py", "KEY = 'AKIA" + "Q" * 16 + "'\n", "text"),
        ("usr/local/etc/app.env", "X=glpat-" + "a1B2" * 6 + "\n", "text"),
        ("root/.cache/tool/log", f"GET /?token={TOKEN}\n", "text"),
        ("var/spool/cron/crontabs/root", f"* * * * * curl -H {TOKEN}\n", "scratch-text"),
        ("var/log/build.log.1", f"said {TOKEN}\n", "old-log"),
    ],
)
def test_a_secret_is_found_by_what_it_is(tmp_path: Path, path: str, text: str, kind: str) -> None:
    """In settings of package managers and networks, and in texts of /opt, /srv, /usr/local, caches and spools."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, path, text)

    assert {path: kind} == kinds_in(tmp_path)


def test_settings_without_a_login_are_left_alone(tmp_path: Path) -> None:
    """A mirror, a key's name, a variable, a user name alone."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "etc/pip.conf", "[global]\nindex-url = https://wheels.example/simple\n")
    put(tmp_path, "root/.npmrc", "//npm.example/:_authToken=${NPM_TOKEN}\n")
    put(tmp_path, "root/.gitconfig", "[url]\ninsteadOf = ssh://git@git.example/\n")

    assert {} == kinds_in(tmp_path)


def test_what_was_not_searched_is_told(tmp_path: Path) -> None:
    """A canary in a place that is passed by is not found, and each such place is counted with its reason."""
    put(tmp_path, "etc/machine-id", "")
    for path in ("usr/share/doc/a.txt", "srv/venv/lib/python3.12/ssl.py", "srv/a.zip", "proc/1/environ"):
        put(tmp_path, path, TOKEN)
    put(tmp_path, "root/.cache/huggingface/hub/models--a--b/blobs/0123", TOKEN)
    tree = ImageTree(tmp_path)
    found = find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), ())

    assert () == found.residue
    assert [1, 1, 1, 1] == list(found.searched.passed.values())
    assert ["checkpoints", "files of the distribution", "files that are no text", "other people's code"] == sorted(
        next(
            w
            for w in ("checkpoints", "files of the distribution", "files that are no text", "other people's code")
            if w in why
        )
        for why in found.searched.passed
    )


def test_the_builders_own_secret_is_found_in_other_peoples_code_too(tmp_path: Path) -> None:
    """Its value is known, so that no example can be taken for it."""
    put(tmp_path, "etc/machine-id", "")
    for path in ("usr/share/a.conf", "srv/venv/lib/python3.12/site-packages/a.py", "usr/lib/b"):
        put(tmp_path, path, f"key = company-secret-3, not {TOKEN}")
    found = kinds_in(tmp_path, env=("company-secret-3",))

    assert {"srv/venv/lib/python3.12/site-packages/a.py", "usr/share/a.conf", "usr/lib/b"} == set(found)


def test_a_second_look_reads_what_changed_and_what_had_a_secret(tmp_path: Path) -> None:
    """A text that was clean and is as it was is not read again; one that was written since is."""
    put(tmp_path, "etc/machine-id", "")
    put(tmp_path, "srv/clean", "nothing")
    put(tmp_path, "srv/kept", TOKEN)
    tree = ImageTree(tmp_path)
    first = find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), ())
    later = replace(first, since_unix_s=first.since_unix_s + 3600)
    second = find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), (), before=later)
    put(tmp_path, "srv/new", TOKEN)
    third = find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), (), before=first)

    assert (2, 1) == (first.searched.files, second.searched.files)
    assert ["srv/kept", "srv/new"] == [r.path for r in third.residue]


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

    assert () == find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device() + 1})), frozenset()).residue


def test_what_is_mounted_into_the_tree_is_not_the_images(tmp_path: Path) -> None:
    """A builder's checkout that is bound into a chroot lies on the same file system, and is left alone."""
    for path in ("root/.netrc", "work/src/.env", "work/src/home/a/notes"):
        put(tmp_path, path, TOKEN)
    tree = ImageTree(tmp_path)
    found = find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()}), ("work/src", "root/.netrc")), ())

    assert () == found.residue


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
