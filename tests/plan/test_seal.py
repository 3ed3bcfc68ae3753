"""What is taken out of an image, and where that may be done at all."""

from __future__ import annotations

import pytest

from kboot.errors import UsageError
from kboot.facts.residue import Residue
from kboot.plan.seal import (
    BlankSecrets,
    DropLogins,
    ForgetFiles,
    MakeEmpty,
    Remains,
    SealGround,
    TakeAway,
    describe_seal,
    plan_seal,
    require_ground,
)


def test_every_kind_has_what_becomes_of_it() -> None:
    """Secrets are wiped, texts keep their other lines, the machine id is empty and not gone."""
    found = [
        Residue("etc/kboot/env", "assignment", "HF_TOKEN"),
        Residue("etc/machine-id", "machine-id"),
        Residue("root/.bash_history", "history"),
        Residue("root/.cache/huggingface/token", "token"),
        Residue("root/.docker/config.json", "docker-auth"),
        Residue("var/lib/kboot/ledger.db", "ledger", "9 files"),
        Residue("var/log/x.log", "log-text", "a token"),
    ]
    plan = plan_seal(found, "etc/kboot", login_keys=False)

    assert () == plan.remains
    assert [BlankSecrets, MakeEmpty, TakeAway, TakeAway, DropLogins, ForgetFiles, MakeEmpty] == [
        type(action) for action in plan.actions
    ]
    assert [False, True] == [a.wipe for a in plan.actions if isinstance(a, TakeAway)]
    assert "blank the secrets in /etc/kboot/env" == describe_seal(plan.actions[0])


def test_who_may_log_in_stays_unless_asked() -> None:
    """B149: a builder that works over SSH needs its key to the end; taking it away is a choice."""
    found = [Residue("root/.ssh/authorized_keys", "login-key", "1 key")]
    kept, taken = (plan_seal(found, "etc/kboot", login_keys=asked) for asked in (False, True))

    assert ((), 1, ()) == (kept.actions, len(kept.remains), kept.blocked)
    assert (("root/.ssh/authorized_keys",), ()) == (tuple(a.path for a in taken.actions), taken.remains)


def test_a_token_in_a_persons_text_blocks() -> None:
    """A profile or a note is not kboot's to rewrite: the image is not sealed as long as it is there."""
    found = [Residue("etc/kboot/profiles/own.toml", "text", "a token"), Residue("root/notes.txt", "text", "a token")]
    plan = plan_seal(found, "etc/kboot", login_keys=False)

    assert (2, 2) == (len(plan.remains), len(plan.blocked))
    assert "token_file" in plan.remains[0].why
    assert (
        Remains("root/notes.txt", "it holds a token: remove it, or `--keep /root/notes.txt`", blocks=True)
        == plan.remains[1]
    )


def test_what_is_meant_to_be_in_the_image_is_kept_and_told() -> None:
    """A file, or a folder with all below it; what names one machine of kboot's goes all the same."""
    found = [
        Residue("etc/app/tls.key", "text", "a private key"),
        Residue("etc/appendix", "text", "a Hub token"),
        Residue("root/.kube/config", "credential"),
        Residue("var/lib/kboot/node.key", "node-key"),
    ]
    plan = plan_seal(found, "etc/kboot", login_keys=False, keep=("/etc/app/", "/root/.kube/config", "/var"))

    assert ("etc/appendix",) == tuple(r.path for r in plan.blocked)
    assert ("var/lib/kboot/node.key",) == tuple(a.path for a in plan.actions)
    assert Remains("etc/app/tls.key", "kept, as asked: a private key", blocks=False) in plan.remains


@pytest.mark.parametrize(
    ("ground", "this_machine"),
    [
        (SealGround(named=True), False),
        (SealGround(named=False, is_this_root=True), True),
        (SealGround(named=True, is_this_root=True), True),
    ],
)
def test_an_image_may_be_sealed(ground: SealGround, this_machine: bool) -> None:
    """A tree that was named, and what the command runs in if it was said to become the image."""
    require_ground(ground, this_machine=this_machine)


@pytest.mark.parametrize("named", [False, True])
def test_what_somebody_works_in_is_not_an_image(named: bool) -> None:
    """Neither by mistake nor by `--root /`; a chroot may be somebody's home as well."""
    with pytest.raises(UsageError) as caught:
        require_ground(SealGround(named, is_this_root=True), this_machine=False)

    assert "seal-not-an-image" == caught.value.code


def test_a_machine_that_serves_is_not_sealed_whatever_is_said() -> None:
    """Its record and key are in use."""
    with pytest.raises(UsageError) as caught:
        require_ground(SealGround(named=False, serving="kboot.service answers"), this_machine=True)

    assert "seal-while-serving" == caught.value.code
