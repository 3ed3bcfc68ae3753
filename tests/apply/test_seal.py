"""A sealed tree holds nothing of its builder, and everything else is as it was."""

from __future__ import annotations

import json
from pathlib import Path

from kboot.apply.seal import blank, seal, without_logins
from kboot.errors import KbootError
from kboot.events import Event
from kboot.facts.image_ground import ImageGround
from kboot.facts.residue import ImageFolders, find_residue, known_secrets
from kboot.host.image import ImageTree
from kboot.plan.seal import plan_seal
from kboot.report.types import Outcome
from kboot.store.ledger import Ledger, Row, stored_rows
from kboot.store.marks import Mark
from kboot.store.verifier import RANGE_BYTES, Prefixes

CANARY = "hf_" + "CanaryCanaryCanary42"
FOLDERS = ImageFolders(token_files=("etc/kboot/token",))
KEPT = {
    "etc/hostname": "node",
    "root/.bashrc": "alias ll='ls -l'\n",
    "root/.ssh/authorized_keys": "ssh-ed25519 AAAA builder\n",
    "var/lib/kboot/hub/models--a--b/blobs/" + "0" * 64: "weights",
    "var/lib/kboot/bake.json": "{}",
    "var/lib/kboot/licenses/a--b.json": "{}",
    "usr/lib/python3/dist-packages/example.py": "TOKEN = 'hf_" + "ExampleExampleExample'\n",
}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def put_ledger(path: Path) -> None:
    ledger = Ledger(path, _nowhere)
    ledger.record([Row("a/b", "0" * 64, "c", "p", "0" * 64, Mark("uuid", "1", "2", 3, 4, 5), "fetch", 1.0, "hub")])
    ledger.close()


def sealed(root: Path) -> tuple[Outcome, ...]:
    tree = ImageTree(root)
    secrets = known_secrets(tree, FOLDERS)
    plan = plan_seal(
        find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), secrets).residue,
        "etc/kboot",
        login_keys=False,
    )
    assert () == plan.blocked
    return seal(plan.actions, tree, secrets)


def text_of(root: Path) -> str:
    """Return the content of every file below, one after the other."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.is_symlink())
    return "\n".join(path.read_bytes().decode("latin-1") for path in files)


def test_a_canary_is_nowhere_in_the_tree(tmp_path: Path) -> None:
    """A token in every place that kboot reads, writes or logs to is gone; the rest of those files is as it was."""
    for path, text in KEPT.items():
        put(tmp_path, path, text)
    for path in (
        "etc/kboot/token",
        "home/a/.cache/huggingface/token",
        "root/.cache/huggingface/stored_tokens",
        "root/.netrc",
        "root/.git-credentials",
        "root/.bash_history",
        "root/.zsh_history",
        "run/kboot/boot.json",
        "run/kboot/traceback-1.txt",
        "run/kboot/engine.log",
        "tmp/kboot-debug.txt",
        "var/lib/kboot/history/1.json",
        "var/lib/kboot/cache/key/manifest.json",
        "var/lib/kboot/cache/key/vllm/factors.json",
        "var/lib/kboot/hub/models--a--b/blobs/1.part",
        "var/lib/kboot/ledger.db.aside-1",
        "var/log/journal/0123/system.journal",
        "var/log/syslog",
    ):
        put(tmp_path, path, f"said {CANARY} here\n")
    put(tmp_path, "etc/kboot/env", f"HF_ENDPOINT=https://hub\nHF_TOKEN='{CANARY}'\n")
    put(tmp_path, "root/.docker/config.json", json.dumps({"auths": {"x": {"auth": CANARY}}, "psFormat": "table"}))
    ledger = Ledger(tmp_path / "var/lib/kboot/ledger.db", _nowhere)
    source = f"https://user:{CANARY}@mirror"
    ledger.record([Row("a/b", "0" * 64, "c", "p", "0" * 64, Mark("", "1", "2", 3, 4, 5), "fetch", 1.0, source)])
    ledger.keep_prefixes("0" * 64, Prefixes(RANGE_BYTES, (b"d" * 32,)))
    ledger.close()

    outcomes = sealed(tmp_path)

    assert {"done"} == {outcome.status for outcome in outcomes}
    assert CANARY not in text_of(tmp_path)
    assert "HF_ENDPOINT=https://hub\nHF_TOKEN=''\n" == (tmp_path / "etc/kboot/env").read_text()
    assert {"psFormat": "table"} == json.loads((tmp_path / "root/.docker/config.json").read_text())
    assert b"" == (tmp_path / "etc/machine-id").read_bytes()
    assert KEPT == {path: (tmp_path / path).read_text() for path in KEPT}


def test_a_sealed_ledger_names_no_file_and_still_knows_the_contents(tmp_path: Path) -> None:
    """What beginnings hash to is true on every machine, and is what a repair of a range goes by."""
    path = tmp_path / "var/lib/kboot/ledger.db"
    path.parent.mkdir(parents=True)
    ledger = Ledger(path, _nowhere)
    ledger.record([Row("a/b", "0" * 64, "c", "p", "0" * 64, Mark("uuid", "1", "2", 3, 4, 5), "fetch", 1.0, "hub")])
    prefixes = Prefixes(RANGE_BYTES, (b"d" * 32,))
    ledger.keep_prefixes("0" * 64, prefixes)
    ledger.close()
    sealed(tmp_path)

    assert (0, ["ledger.db"]) == (stored_rows(path), sorted(p.name for p in path.parent.iterdir()))
    assert prefixes == Ledger(path, _nowhere).prefixes("0" * 64)


def test_sealing_twice_finds_nothing_the_second_time(tmp_path: Path) -> None:
    """What is sealed stays sealed."""
    put(tmp_path, "etc/machine-id", "0" * 32)
    put(tmp_path, "root/.netrc", "machine x password y")
    first = sealed(tmp_path)

    assert (2, ()) == (len(first), sealed(tmp_path))


def test_what_cannot_be_done_is_told_and_stops_nothing(tmp_path: Path) -> None:
    """A folder where a file is expected fails by itself; the others are sealed."""
    put(tmp_path, "etc/machine-id", "0" * 32)
    put(tmp_path, "root/.netrc", "machine x password y")
    tree = ImageTree(tmp_path)
    plan = plan_seal(
        find_residue(tree, FOLDERS, ImageGround(frozenset({tree.device()})), ()).residue, "etc/kboot", login_keys=False
    )
    (tmp_path / "etc/machine-id").unlink()
    (tmp_path / "etc/machine-id").mkdir()
    outcomes = seal(plan.actions, tree, ())

    assert ["failed", "done"] == [outcome.status for outcome in outcomes]
    assert isinstance(outcomes[0].error, KbootError)


def test_secrets_are_blanked_in_place() -> None:
    """Quotes, names, other lines and references to variables stay."""
    text = b"A=1\nexport HF_TOKEN=\"abc\" # mine\nX='company-secret'\nHF_TOKEN=$OTHER\n"

    assert b"A=1\nexport HF_TOKEN=\"\" # mine\nX=''\nHF_TOKEN=$OTHER\n" == blank(text, {b"company-secret"})


def test_logins_in_settings_are_blanked_in_place() -> None:
    """Hosts, names and other settings stay."""
    text = b"index-url = https://u:pw@wheels.example/simple\n_authToken=abc\npsk=longword\nssid=lab\n"
    keys = b"PrivateKey = " + b"k" * 43 + b"=\nprivate-key=/etc/ssl/client.pem\n"

    assert b"index-url = https://wheels.example/simple\n_authToken=\npsk=\nssid=lab\n" == blank(text, (), logins=True)
    assert b"PrivateKey = \nprivate-key=/etc/ssl/client.pem\n" == blank(keys, (), logins=True)
    assert text == blank(text, ())


def test_a_docker_configuration_that_is_none_becomes_an_empty_one() -> None:
    """It cannot be told what of it was a login."""
    assert b"{}\n" == without_logins(b"not json")


def _nowhere(_: Event) -> None:
    pass


def test_the_builders_own_ledger_is_not_touched_through_a_link(tmp_path: Path) -> None:
    """A link in the image that says /srv/lib means the image's, also to SQLite."""
    image, outside = tmp_path / "image", tmp_path / "srv"
    (image / "var").mkdir(parents=True)
    for folder in (outside, image / str(outside).lstrip("/")):
        (folder / "kboot").mkdir(parents=True)
        put_ledger(folder / "kboot/ledger.db")
    (image / "var/lib").symlink_to(outside)
    sealed(image)

    assert (1, 0) == (
        stored_rows(outside / "kboot/ledger.db"),
        stored_rows(image / str(outside).lstrip("/") / "kboot/ledger.db"),
    )


def test_a_link_beside_a_ledger_leads_nowhere(tmp_path: Path) -> None:
    """SQLite would write its log through it; the image is not sealed, and the file at its end is as it was."""
    image, victim = tmp_path / "image", tmp_path / "victim"
    victim.write_text("keep")
    (image / "var/lib/kboot").mkdir(parents=True)
    put_ledger(image / "var/lib/kboot/ledger.db")
    (image / "var/lib/kboot/ledger.db-wal").symlink_to(victim)
    outcomes = sealed(image)

    assert ["failed"] == [o.status for o in outcomes]
    assert "keep" == victim.read_text()
