"""What the documents say is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kboot.cli import command_table, kboot
from kboot.errors import ExitStatus

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text()
DOCUMENTS = tuple(
    path
    for path in sorted(
        (*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("benchmarks/*.md"))
    )
)


def relative(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def table(heading: str) -> list[tuple[str, str]]:
    """Return the rows of the two-column table under a heading of the README."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.M)
    return [(first.strip("`"), second) for first, second in rows][1:]


def test_the_command_table_is_that_of_help() -> None:
    """README lists every command, in the order and with the words of `kboot --help`."""
    assert [(f"kboot {name}", help_) for name, help_ in command_table()] == table("Commands")


def test_help_shows_the_command_table() -> None:
    """`kboot --help` itself prints that table."""
    result = subprocess.run([sys.executable, "-m", "kboot", "--help"], capture_output=True, text=True, check=True)

    assert [name for name, _ in command_table()] == re.findall(r"^  ([a-z]+) {2,}\S", result.stdout, re.M)


def test_the_exit_statuses_are_those_of_the_code() -> None:
    """README lists every exit status and no other."""
    assert [int(status) for status in ExitStatus] == [int(status) for status, _ in table("Exit statuses")]


def quoted_commands(text: str) -> set[str]:
    """Return the kboot command lines in code, without what is piped into or behind them."""
    code = re.findall(r"```sh\n(.*?)```", text, re.S) + re.findall(r"`((?:sudo )?kboot [^`]+)`", text)
    lines = (line.split("#")[0] for block in code for line in block.splitlines())
    return {
        match[1].strip() for line in lines if (match := re.match(r"(?:sudo )?kboot ([a-z][^|>;&…]*)", line.strip()))
    }


COMMANDS = sorted({command for path in DOCUMENTS for command in quoted_commands(path.read_text())})


@pytest.mark.parametrize("line", COMMANDS)
def test_every_quoted_command_exists_with_its_options(line: str) -> None:
    """A kboot command line in a document names a command, a subcommand and options that exist."""
    context = click.Context(kboot)
    command: click.Command = kboot
    words = line.split()
    while words and isinstance(command, click.Group):
        name = words.pop(0)
        for alternative in name.split("\\|"):
            found = command.get_command(context, alternative)
            assert found is not None, f"there is no `kboot {line}`"
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    unknown = [word for word in words if word.startswith("--") and word != "--" and word.split("=")[0] not in known]

    assert [] == unknown


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    """A relative link in a document names a file or folder that exists."""
    targets = re.findall(r"\]\(\s*([^)#:]+?)(?:#[^)]*)?\)", path.read_text())

    assert [] == [target for target in targets if not (path.parent / target).exists()]


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_named_in_code_exist(name: str) -> None:
    """A path of this repository in a document exists."""
    text = (REPOSITORY / name).read_text()
    named = re.findall(r"`((?:agent|tests|docs|profiles|systemd|benchmarks)/[\w./-]*)`", text)

    assert named or name == "CONTRIBUTING.md"
    assert [] == [path for path in named if not (REPOSITORY / path).exists()]


def test_every_folder_and_module_of_the_package_stands_in_the_architecture() -> None:
    """A newcomer finds the room for a change by one table."""
    section = (REPOSITORY / "ARCHITECTURE.md").read_text().split("\n## Folders")[1].split("\n## ")[0]
    named = {name.strip("/").rpartition("/")[2] for name in re.findall(r"`([\w./]+)`", section)}
    package = {path.name for path in (REPOSITORY / "agent/kboot").iterdir() if not path.name.startswith("__")}

    assert {"py.typed"} == package - named


def test_decisions_are_numbered_without_repetition() -> None:
    """Each ADR has its own number, the same in its name and title, and a status."""
    records = sorted((REPOSITORY / "docs/adr").glob("*.md"))
    numbers = [int(path.name[:4]) for path in records]

    assert len(numbers) == len(set(numbers))
    for number, path in zip(numbers, records, strict=True):
        assert path.read_text().startswith(f"# {number}. ")
        assert "Status: accepted" in path.read_text() or "Status: superseded" in path.read_text()


def test_the_changelog_has_an_open_section() -> None:
    """What is not released yet stands under Unreleased, on top."""
    headings = re.findall(r"^## \[(.+?)\]", (REPOSITORY / "CHANGELOG.md").read_text(), re.M)

    assert "Unreleased" == headings[0]


def test_both_commands_of_the_readme_are_those_of_install_sh() -> None:
    """`./install.sh --demo` and `./install.sh --test` exist."""
    script = (REPOSITORY / "install.sh").read_text()

    assert ["--demo", "--test"] == re.findall(r"^\./install\.sh (--\w+) +#", README, re.M)
    assert "--demo | --test | --uninstall)" in script
