"""Only nodes with the fleet's secret are heard, each request once, and answers prove themselves too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.errors import ActionFailed
from kboot.sources.fleet_auth import WINDOW_S, Answer, FleetKey, Gate, Request, nonce_of, read_key

KEY, OTHER = FleetKey(b"k" * 32), FleetKey(b"o" * 32)
NOW = 1_800_000_000.0
STATE = Request("GET", "node1:7417", "/kboot/1/state")


def key_file(folder: Path, text: str = "s" * 64, mode: int = 0o600) -> Path:
    path = folder / "fleet.key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_signed_request_is_let_in_once() -> None:
    """The same request again is refused: whoever heard it cannot use it."""
    gate, (header, _) = Gate(KEY), KEY.ask(STATE, NOW)

    assert None is gate.refusal(header, STATE, NOW + 1)
    assert "used-before" == gate.refusal(header, STATE, NOW + 2)


@pytest.mark.parametrize(
    ("header", "asked", "now", "why"),
    [
        ("", STATE, NOW, "unsigned"),
        ("kboot-fleet-1 x y z", STATE, NOW, "unsigned"),
        (OTHER.ask(STATE, NOW)[0], STATE, NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], replace(STATE, target="/kboot/1/other"), NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], replace(STATE, method="POST"), NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], replace(STATE, address="node2:7417"), NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], replace(STATE, byte_range="bytes=0-9"), NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], replace(STATE, body=b"x"), NOW, "other-key"),
        (KEY.ask(STATE, NOW)[0], STATE, NOW + WINDOW_S + 2, "clock-differs"),
        (KEY.ask(STATE, NOW)[0], STATE, NOW - WINDOW_S - 2, "clock-differs"),
    ],
)
def test_any_other_request_is_refused(header: str, asked: Request, now: float, why: str) -> None:
    """Without a signature, with another key, for something else than was signed, or from another time."""
    assert why == Gate(KEY).refusal(header, asked, now)


def test_a_nonce_is_remembered_as_long_as_its_request_could_be_used() -> None:
    """A request from a clock that is ahead stays used until its time is over, and is forgotten then."""
    gate, (header, _) = Gate(KEY), KEY.ask(STATE, NOW + WINDOW_S)
    assert None is gate.refusal(header, STATE, NOW)

    assert "used-before" == gate.refusal(header, STATE, NOW + 2 * WINDOW_S)
    assert "clock-differs" == gate.refusal(header, STATE, NOW + 2 * WINDOW_S + 1)


def test_a_clock_that_was_set_back_keeps_nobody_out() -> None:
    """What was heard while the clock was a day ahead does not stay in the way until that day has come."""
    gate = Gate(KEY)
    for ahead_s in range(40):
        header, _ = KEY.ask(STATE, NOW + 86_400 + ahead_s)
        assert None is gate.refusal(header, STATE, NOW + 86_400 + ahead_s)
    header, _ = KEY.ask(STATE, NOW)

    assert [None, "used-before"] == [gate.refusal(header, STATE, NOW) for _ in range(2)]
    assert 1 == len(gate)


def test_an_answer_belongs_to_one_request() -> None:
    """With another key, another nonce or another meaning it is none of the fleet's."""
    header, nonce = KEY.ask(STATE, NOW)
    given = Answer(206, "bytes 0-3/9", b"abcd")
    proof = KEY.answer(STATE, nonce_of(header), given)

    assert KEY.is_ours(STATE, nonce, given, proof)
    assert not OTHER.is_ours(STATE, nonce, given, proof)
    assert not KEY.is_ours(STATE, "0" * 32, given, proof)
    assert not KEY.is_ours(replace(STATE, target="/other"), nonce, given, proof)
    assert not KEY.is_ours(STATE, nonce, replace(given, content_range="bytes 1-4/9"), proof)
    assert not KEY.is_ours(STATE, nonce, replace(given, body=b"abce"), proof)
    assert not KEY.is_ours(STATE, nonce, given, "")


_TEXTS = st.lists(st.text(max_size=4), min_size=4, max_size=4)


@given(_TEXTS, _TEXTS)
def test_no_two_requests_have_the_same_signature(one: list[str], other: list[str]) -> None:
    """However method, address, target and range are cut, what was signed for one is not good for another."""
    header, _ = KEY.ask(Request(*one), NOW)

    assert (one == other) == (Gate(KEY).refusal(header, Request(*other), NOW) is None)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_key_file_is_read_whatever_surrounds_the_secret(tmp_path: Path, mode: int) -> None:
    """A line's end is no part of the secret; the group of a container's volume may read it."""
    first = read_key(key_file(tmp_path, "s" * 64 + "\n", mode))
    (tmp_path / "fleet.key").unlink()

    assert first == read_key(key_file(tmp_path))
    assert "s" * 8 not in repr(first)


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("s" * 64, 0o644, "others may read or change it"),
        ("s" * 64, 0o660, "others may read or change it"),
        ("s3cr3t", 0o600, "it has 6 bytes, wanted 32 to 4096"),
        ("s" * 5000, 0o600, "wanted 32 to 4096"),
    ],
)
def test_a_key_that_is_no_secret_is_refused(tmp_path: Path, text: str, mode: int, why: str) -> None:
    """One that others can read, or guess."""
    with pytest.raises(ActionFailed) as caught:
        read_key(key_file(tmp_path, text, mode))

    assert "fleet-key-not-usable" == caught.value.code
    assert why in caught.value.message
    assert text not in caught.value.message


def test_a_key_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    """A missing file, and a folder in its place."""
    for path in (tmp_path / "no.key", tmp_path):
        with pytest.raises(ActionFailed) as caught:
            read_key(path)
        assert "openssl rand -hex 32" in (caught.value.hint or "")
