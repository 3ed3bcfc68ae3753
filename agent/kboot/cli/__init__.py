"""The command line: parse, call, render, exit. Each command's module is imported when that command runs."""

from __future__ import annotations

from collections.abc import Callable

import click

from kboot import __version__

_Load = Callable[[], click.Command]


def command_table() -> tuple[tuple[str, str], ...]:
    """Return every command with its short help, in the order of `kboot --help`."""
    return tuple((name, help_) for name, help_, _ in _COMMANDS)


def main() -> None:
    """Run the command line of this process and exit with its status."""
    from kboot.cli.garbage import while_starting

    while_starting()
    from kboot.cli.edge import run

    run(kboot)


_EXAMPLES = (
    ("kboot doctor", "what is wrong with this node"),
    ("kboot plan --profile demo", "what boot would do here, and why"),
    ("kboot boot --profile demo --serve", "prepare the node and serve"),
)


class _LazyGroup(click.Group):
    """Knows its commands by name and short help; imports one only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return [name for name, _, _ in _COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        return next((load() for name, _, load in _COMMANDS if name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing:
            from difflib import get_close_matches

            # click 8.2 and 8.3 look for none, later ones only among commands that are loaded
            if near := get_close_matches(args[0], names, 1):
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(command_table()))
        with formatter.section("Examples"):
            formatter.write_dl(list(_EXAMPLES), col_max=44)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kboot")
def kboot() -> None:
    """Take a GPU node from power-on to a serving endpoint.

    Every command takes --json, --root DIR (refused by what changes a machine), --config FILE and -v;
    `kboot COMMAND --help` shows examples and exit statuses.
    """


def _boot() -> click.Command:
    from kboot.cli.boot import command

    return command


def _exec() -> click.Command:
    from kboot.cli.exec import command

    return command


def _daemon() -> click.Command:
    from kboot.cli.daemon import command

    return command


def _doctor() -> click.Command:
    from kboot.cli.doctor import command

    return command


def _facts() -> click.Command:
    from kboot.cli.facts import command

    return command


def _plan() -> click.Command:
    from kboot.cli.plan import command

    return command


def _fit() -> click.Command:
    from kboot.cli.fit import command

    return command


def _fetch() -> click.Command:
    from kboot.cli.fetch import command

    return command


def _verify() -> click.Command:
    from kboot.cli.verify import command

    return command


def _warm() -> click.Command:
    from kboot.cli.warm import command

    return command


def _cache() -> click.Command:
    from kboot.cli.cache import command

    return command


def _bake() -> click.Command:
    from kboot.cli.bake import command

    return command


def _status() -> click.Command:
    from kboot.cli.status import command

    return command


def _timeline() -> click.Command:
    from kboot.cli.timeline import command

    return command


def _license() -> click.Command:
    from kboot.cli.license import command

    return command


def _profile() -> click.Command:
    from kboot.cli.profile import command

    return command


def _live() -> click.Command:
    from kboot.cli.live import command

    return command


def _fleet() -> click.Command:
    from kboot.cli.fleet import command

    return command


_COMMANDS: tuple[tuple[str, str, _Load], ...] = (
    ("boot", "Prepare this node, and with --serve start the engine.", _boot),
    ("exec", "Become the engine that was prepared, or wrap a command line.", _exec),
    ("daemon", "Prepare and watch this node; what kboot.service runs.", _daemon),
    ("live", "Let a node that stands by serve.", _live),
    ("doctor", "Say what is wrong with this node, with evidence and fix.", _doctor),
    ("facts", "Show what was found on this node, or record it.", _facts),
    ("plan", "Show what boot would do, with reasons.", _plan),
    ("fit", "Show whether a model fits, from its headers alone.", _fit),
    ("fetch", "Fetch and verify the checkpoint.", _fetch),
    ("verify", "Prove the bytes of the checkpoint on this disk.", _verify),
    ("warm", "Read the checkpoint into the page cache.", _warm),
    ("cache", "Look after the kernel-tuning and JIT caches.", _cache),
    ("bake", "Prepare an image, and take its builder out of it.", _bake),
    ("status", "Show the running or last boot.", _status),
    ("timeline", "Show where the time of a boot went.", _timeline),
    ("license", "Show or accept the terms of a model.", _license),
    ("profile", "List, show and check profiles.", _profile),
    ("fleet", "Look at the nodes that serve the same model.", _fleet),
)
