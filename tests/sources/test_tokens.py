from pathlib import Path

import pytest

from kboot.errors import SourceError
from kboot.sources.proxies import origin_of
from kboot.sources.tokens import Token, find_token, may_see_token


def test_what_is_named_wins(tmp_path: Path) -> None:
    """token_file, then HF_TOKEN, then HF_TOKEN_PATH, then the Hub client's own file."""
    for name in ("a", "b", "token"):
        (tmp_path / name).write_text(f"hf_{name}\n")
    env = {"HF_HOME": str(tmp_path)}
    here = str(tmp_path)

    assert Token("hf_token", f"{here}/token") == find_token(env)
    env |= {"HF_TOKEN_PATH": f"{here}/b"}
    assert Token("hf_b", f"{here}/b") == find_token(env)
    env |= {"HF_TOKEN": " hf_env "}
    assert Token("hf_env", "HF_TOKEN") == find_token(env)
    assert Token("hf_a", f"{here}/a") == find_token(env, f"{here}/a")


@pytest.mark.parametrize("value", ["~/hf", "$HOME/hf", "${HOME}/hf"])
def test_the_hub_clients_file_is_where_the_client_looks(tmp_path: Path, value: str) -> None:
    """It expands `~` and variables itself, so that HF_HOME=~/hf works in an environment file."""
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_x\n")
    found = Token("hf_x", str(tmp_path / "hf/token"))

    assert found == find_token({"HOME": str(tmp_path), "HF_HOME": value})
    assert found == find_token({"HOME": str(tmp_path), "HF_TOKEN_PATH": f"{value}/token"})


def test_no_token_is_fine(tmp_path: Path) -> None:
    """Without any of them requests go without one; also where the implicit one is switched off."""
    assert Token() == find_token({"HOME": str(tmp_path)})
    (tmp_path / "token").write_text("hf_x")
    assert Token() == find_token({"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"})


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """Who names a file means it."""
    with pytest.raises(SourceError) as caught:
        find_token({}, str(tmp_path / "none"))

    assert "token-file-not-readable" == caught.value.code


@pytest.mark.parametrize(
    ("value", "has"),
    [
        ("hf_first\nhf_second", "more than one line"),
        ("\u201chf_pasted\u201d", "characters that are not ASCII"),
        ('"hf_of_an_env_file"', "quotes"),
        ("Bearer hf_copied", "blanks"),
    ],
)
def test_what_can_be_no_token_is_told_and_not_sent(tmp_path: Path, value: str, has: str) -> None:
    """huggingface/transformers#21724: said of the variable or file it stands in, not of a server; and not shown."""
    (tmp_path / "token").write_text(value)
    for env, origin in (({"HF_TOKEN": value}, "HF_TOKEN"), ({"HF_HOME": str(tmp_path)}, str(tmp_path / "token"))):
        with pytest.raises(SourceError) as caught:
            find_token(env)

        assert "token-not-valid" == caught.value.code
        assert origin in caught.value.message and has in caught.value.message
        assert "hf_" not in str(caught.value)


def test_the_mark_of_an_editor_is_no_part_of_a_token(tmp_path: Path) -> None:
    """A byte order mark before it, and a line's end behind it, are taken away."""
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbfhf_saved\r\n")

    assert "hf_saved" == find_token({"HF_HOME": str(tmp_path)}).value


def test_a_token_does_not_show_itself() -> None:
    """Printing a Token prints where it comes from only."""
    assert "hf_secret" not in repr(Token("hf_secret", "HF_TOKEN"))


@pytest.mark.parametrize(
    ("url", "may"),
    [("https://huggingface.co", True), ("http://mirror.example", False), ("http://127.0.0.1:80", True)],
)
def test_no_token_in_clear_text(url: str, may: bool) -> None:
    """B031: never over http, except to this machine."""
    assert may == may_see_token(origin_of(url))
