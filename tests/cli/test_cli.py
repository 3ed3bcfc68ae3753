"""What does the command line consist of, and what does it cost to start?"""

from __future__ import annotations

import click
import pytest
from cli_run import Kboot

from kboot.cli import command_table
from kboot.cli import kboot as group
from kboot.cli.boot import PHASE_NAMES
from kboot.cli.options import Command
from kboot.plan.types import PHASES

CONTRACT = (
    "boot", "exec", "daemon", "live", "doctor", "facts", "plan", "fit", "fetch", "verify", "warm", "cache", "bake",
    "status", "timeline", "license", "profile", "fleet",
)  # fmt: skip
SUB = {
    "cache": ["explain", "export", "gc", "import", "status"],
    "fleet": ["status", "wait"],
    "license": ["accept", "show"],
    "profile": ["check", "list", "show"],
}
HEAVY = (
    *("rich", "structlog", "asyncio", "pydantic", "huggingface_hub", "psutil", "pynvml", "kboot.cli.completion"),
    *("sqlite3", "subprocess"),
)


def leaves() -> list[tuple[str, click.Command]]:
    """Return every command that does something, by its words."""
    ctx = click.Context(group)
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", each) for sub, each in command.commands.items()]
        else:
            found.append((name, command))
    return found


def test_every_command_of_the_contract_exists() -> None:
    """The commands are those of the contract, in its order, with those below them."""
    ctx = click.Context(group)

    assert CONTRACT == tuple(name for name, _ in command_table())
    for name, subs in SUB.items():
        command = group.get_command(ctx, name)
        assert isinstance(command, click.Group)
        assert subs == sorted(command.commands)


@pytest.mark.parametrize(("words", "command"), leaves(), ids=[w for w, _ in leaves()])
def test_every_command_has_help_examples_statuses_and_the_common_options(words: str, command: click.Command) -> None:
    """One sentence of what it does, two examples that parse, its exit statuses, and what every command takes."""
    assert isinstance(command, Command)
    options = {opt for p in command.params for opt in p.opts}

    assert {"--json", "--root", "--config", "-v", "--verbose"} <= options
    assert command.help
    assert command.help.strip().endswith(".")
    assert 2 <= len(command.examples)
    assert [] != command.statuses
    assert sorted(command.statuses) == list(command.statuses)
    assert [] == [p.name for p in command.params if isinstance(p, click.Option) and not p.help]


def test_help_says_who_refuses_another_machine() -> None:
    """--root is explained where it can be given, and only there."""
    said = {words: p.help or "" for words, command in leaves() for p in command.params if "--root" in p.opts}

    refusing = {
        "boot",
        "cache gc",
        "cache import",
        "daemon",
        "exec",
        "fetch",
        "fleet status",
        "fleet wait",
        "live",
        "warm",
    }
    assert refusing == {words for words, text in said.items() if text.startswith("Refused")}


@pytest.mark.parametrize(("words", "command"), leaves(), ids=[w for w, _ in leaves()])
def test_every_example_of_a_help_text_can_be_parsed(words: str, command: click.Command) -> None:
    """What a help text shows works: each example of the command itself is a command line it accepts."""
    import shlex

    assert isinstance(command, Command)
    for line, _ in command.examples:
        program, *rest = shlex.split(line)
        if program == "kboot" and rest[: len(words.split())] == words.split():
            with click.Context(command) as ctx:
                args = [a for a in rest[len(words.split()) :] if a != "--help"]
                command.parse_args(ctx, args)


def test_help_and_version_import_nothing_heavy(kboot: Kboot) -> None:
    """`kboot --version` and `--help` answer without loading a library that they do not need."""
    for args in (["--version"], ["--help"]):
        code = (
            f"import sys; sys.argv = ['kboot', *{args}]\n"
            "from kboot.cli import main\n"
            "try:\n    main()\nexcept SystemExit as e:\n    assert e.code == 0\n"
            f"print('HEAVY', sorted(set({HEAVY}) & set(sys.modules)))"
        )

        assert "HEAVY []" in kboot.script(code).out


def test_exec_imports_nothing_that_would_delay_an_engine(kboot: Kboot) -> None:
    """`kboot exec` without a record fails without having loaded what only other commands need."""
    code = (
        "import sys; sys.argv = ['kboot', 'exec']\n"
        "from kboot.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', sorted(set({[*HEAVY[:-1], 'kboot.profile.types']}) & set(sys.modules)))"
    )
    (kboot.folder / "etc/kboot.toml").write_text('profile = "demo"\n')

    assert "HEAVY []" in kboot.script(code).out


def test_help_of_a_command_goes_to_stdout(kboot: Kboot) -> None:
    """`kboot boot --help` prints options, examples and statuses, and exits 0."""
    ran = kboot("boot", "--help")

    assert (0, "") == (ran.status, ran.err)
    assert "Examples:" in ran.out
    assert "  130  interrupted" in ran.out


def test_the_phases_that_boot_offers_are_those_of_the_plan() -> None:
    """--skip and --only take exactly the phases there are."""
    assert PHASES == PHASE_NAMES
