"""Environment files, read as systemd reads them."""

from __future__ import annotations

import pytest

from kboot.facts.env_files import assignments, odd_lines
from kboot.facts.upkeep_types import EnvLine

FILE = """\
K1=30        # cap
K2=/a/b.json # path
K3="quoted value" # note
K7=a b
K9=$HOME/x
K10="a"b
K11=a"b"c
export K15=/e.json
"""


def values(text: str) -> dict[str, str]:
    """Return what counts of a file."""
    return {a.key: a.value for a in assignments(text) if a.counts}


def test_values_are_those_that_systemd_gives_a_service() -> None:
    """B133: comments behind a value are part of it, `export` is no name, quotes inside a word stay, nothing expands."""
    assert {
        "K1": "30        # cap",
        "K2": "/a/b.json # path",
        "K3": "quoted value# note",
        "K7": "a b",
        "K9": "$HOME/x",
        "K10": "ab",
        "K11": 'a"b"c',
    } == values(FILE)


def test_lines_that_a_shell_reads_otherwise_are_named() -> None:
    """B133: each with its number and what happens; K10 is the same in both."""
    says = {e.line: (e.name, e.says) for e in odd_lines("/etc/kboot/env", FILE)}

    assert [1, 2, 3, 4, 5, 7, 8] == sorted(says)
    assert ("K1", "K1 is '30        # cap' with the comment; a shell would have taken '30'") == says[1]
    assert ("K9", "K9: the variable reference is not expanded, its value is '$HOME/x'") == says[5]
    assert ("", "export K15 is not set: systemd ignores lines with `export`") == says[8]


def test_a_line_that_refers_to_itself_is_taken_as_it_stands() -> None:
    """B135: the last of three lines counts, and `$A` in it is two characters."""
    text = 'A=""\nA="$A --debug"\nA="$A --interval=60"\n'

    assert {"A": "$A --interval=60"} == values(text)
    assert [2, 3] == [e.line for e in odd_lines("env", text)]
    assert "the variable reference is not expanded" in odd_lines("env", text)[1].says


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=\n", ""),
        ("A=x y  \n", "x y"),
        ("A='x $y'\n", "x $y"),
        ('A="x\\"y\\$z\\q"\n', 'x"y$z\\q'),
        ("A=x\\\ny\n", "xy"),
        ('A="x\ny"\n', "x\ny"),
        ("  A = x\n", "x"),
        ("A=x\\ y\n", "x y"),
        ("A=x\r\n", "x"),
        ('A="x y"\r\n', "x y"),
        ("A=x\\\r\nB\n", "x"),
        ("no value \\\nA=x\n", "x"),
    ],
)
def test_quotes_escapes_and_long_lines(text: str, value: str) -> None:
    """As the manual of systemd.exec has it: a backslash at a line's end or an open quote goes on in the next line."""
    assert {"A": value} == values(text)


@pytest.mark.parametrize(
    "text",
    [
        "# A=$B\n",
        "; A=$B\n",
        "\n",
        "A=1\n",
        'A="x y"\n',
        "A='$B'\n",
        "HTTP_PROXY=http://proxy:3128\n",
        "A=a#b\n",
        "A=1\r\nB=2\r\n",
    ],
)
def test_what_both_read_alike_is_not_named(text: str) -> None:
    """Comments, plain values, quoted ones, and a `#` inside a word."""
    assert () == odd_lines("env", text)


def test_what_is_no_assignment_ends_nothing() -> None:
    """Torn or binary files give lines that are named, or nothing."""
    assert (EnvLine("env", 1, "", "'1A' is no name of a variable: systemd ignores the line"),) == odd_lines(
        "env", "1A=2\n"
    )
    assert () == assignments("no equals sign\n\x00\xff\n")
    assert {"A": "open"} == values('A="open')


def test_a_comment_that_ends_in_a_backslash_is_named_with_what_it_takes() -> None:
    """systemd#27975: Ubuntu 22.04 and RHEL 9 read the next line as part of the comment; from 254 on it counts."""
    text = "# how many \\\nA=1\n; none \\\\\nB=2\n# \\\n# C=3\n"

    assert {"A": "1", "B": "2"} == values(text)
    assert (EnvLine("env", 2, "A", "A is not set before systemd 254: the comment above ends in \\"),) == odd_lines(
        "env", text
    )
