"""What does every command take, and what does it need before it can work? Options, the node, output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import field, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

import click

from kboot.errors import ExitStatus, ProfileError, UsageError
from kboot.values import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kboot.host.paths import Paths
    from kboot.host.types import Host
    from kboot.profile.node_config import NodeConfig
    from kboot.profile.types import Profile
    from kboot.report.render_text import Paint, Style

_F = TypeVar("_F", bound=Callable[..., Any])
_STYLES: Mapping[str, Mapping[str, Any]] = {
    "strong": {"bold": True},
    "faint": {"dim": True},
    "good": {"fg": "green"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red", "bold": True},
}


class Command(click.Command):
    """A command whose help ends with examples that work and the statuses it can give."""

    def __init__(
        self,
        *args: Any,
        examples: tuple[tuple[str, str], ...] = (),
        statuses: tuple[tuple[ExitStatus, str], ...] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.statuses = tuple(sorted(statuses))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples and exit statuses."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(list(self.examples), col_max=44)
        if self.statuses:
            with formatter.section("Exit status"):
                formatter.write_dl([(str(int(status)), meaning) for status, meaning in self.statuses])


class AtLeast(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A number of so much or more; what is no such number is told in the words in which profiles tell it."""

    name = "number"

    def __init__(self, least: int, kind: type[int] | type[float] = int) -> None:
        self._least = least
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number.

        Raises:
            UsageError: it is none, or too small.
        """
        try:
            number = self._kind(value)
        except ValueError:
            wanted = "a whole number" if self._kind is int else "a number"
        else:
            if self._least <= number < inf:
                return number
            wanted = f"at least {self._least}" if number < self._least else "a finite number"
        option = max(param.opts, key=len) if param else "a value"
        raise UsageError(
            "usage", f"{option} is {value}; wanted: {wanted}", hint=f"`{ctx.command_path} --help`" if ctx else None
        )


Completed = Literal["profile", "check", "boot", "cache", "gpu"]
"""What a shell can ask for the names of."""


def completing(what: Completed) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return the shell_complete of a parameter that takes such a name."""

    def found(ctx: click.Context, _param: click.Parameter, begun: str) -> list[CompletionItem]:
        from kboot.cli.completion import complete

        return complete(what, ctx, begun)

    return found


class NewPath(click.Path):
    """The path of what a command is to write; `-`, which elsewhere is standard output, is not taken for a name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "-":
            self.fail("- is no place to write this to; a file of that name is ./-", param, ctx)
        return super().convert(value, param, ctx)


@dataclass(frozen=True, slots=True)
class Common:
    """The options every command takes."""

    json: bool
    root: Path | None
    config: Path | None
    verbose: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """Which profile: its name ("" = the configuration's) and what --set lays over it."""

    name: str = ""
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """The machine a command works on, and where kboot keeps things there."""

    host: Host
    paths: Paths
    config: NodeConfig
    env: Mapping[str, str] = field(default_factory=dict)


_ROOT = "Read the machine below DIR, a recorded tree or an image; kboot's files are those there."
_NO_ROOT = "Refused: this command works on the machine that it runs on."


def common_options(function: _F) -> _F:
    """Add --json, --root, --config and -v; the command takes them as `common`."""
    return _add_common(function, _ROOT)


def own_machine_options(function: _F) -> _F:
    """Add the same to a command that changes the machine: it takes --root to refuse it (see need_this_machine)."""
    return _add_common(function, _NO_ROOT)


def _add_common(function: _F, root_help: str) -> _F:
    def wrapped(*args: Any, as_json: bool, root: Path | None, config: Path | None, verbose: bool, **kw: Any) -> Any:
        return function(*args, common=Common(as_json, root, config, verbose), **kw)

    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    for option in (
        click.option("-v", "--verbose", is_flag=True, help="Say more; with it a bug prints its traceback."),
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Configuration of this node; without it kboot.toml of the configuration folder.",
        ),
        click.option(
            "--root",
            metavar="DIR",
            type=folder,
            help=root_help,
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
    ):
        wrapped = option(wrapped)
    return _like(wrapped, function)


def profile_options(function: _F) -> _F:
    """Add --profile and --set; the command takes them as `asked`."""

    def wrapped(*args: Any, profile: str, overrides: tuple[str, ...], **kw: Any) -> Any:
        return function(*args, asked=Asked(profile, overrides), **kw)

    for option in (
        click.option(
            "--set",
            "overrides",
            metavar="KEY=VALUE",
            multiple=True,
            help="Lay one value over the profile, e.g. serve.port=8001.",
        ),
        click.option(
            "--profile",
            metavar="P",
            default="",
            shell_complete=completing("profile"),
            help="Name or .toml file; without it the configuration's profile.",
        ),
    ):
        wrapped = option(wrapped)
    return _like(wrapped, function)


def open_node(common: Common) -> Node:
    """Return the machine that --root, --config and the environment mean.

    Raises:
        ProfileError: the configuration file is missing or not valid.
    """
    from kboot.host.paths import find_paths
    from kboot.host.terminal import own_environ
    from kboot.profile.config import load_config

    host = _open_host(common.root)
    env, uid = host.environ(), host.uid()
    config = load_config(common.config, find_paths(common.root, env, uid))
    paths = find_paths(common.root, env, uid, config.state_dir, config.runtime_dir)
    return Node(host, paths, config, own_environ())


def open_exec(common: Common) -> tuple[Host, Paths, bool]:
    """Return the machine, its folders and whether it stands by, without loading what reads whole configurations.

    Raises:
        ProfileError: the configuration file is missing or not valid.
    """
    from kboot.host.paths import find_paths

    host = _open_host(common.root)
    env, uid = host.environ(), host.uid()
    default = find_paths(common.root, env, uid).config / "kboot.toml"
    seen = ("", "", False) if common.config is None and not default.exists() else _glance(common.config or default)
    if seen is None:  # not readable at a glance: the whole reader says what is wrong, or that nothing is
        node = open_node(common)
        return node.host, node.paths, node.config.standby
    state, runtime, standby = seen
    return host, find_paths(common.root, env, uid, state, runtime), standby


def _glance(file: Path) -> tuple[str, str, bool] | None:
    """Return state_dir, runtime_dir and standby of a configuration; None where it cannot be read at a glance."""
    import tomllib

    try:
        values = tomllib.loads(file.read_text())
    except (OSError, ValueError):
        return None
    state, runtime, standby = values.get("state_dir", ""), values.get("runtime_dir", ""), values.get("standby", False)
    if isinstance(state, str) and isinstance(runtime, str) and isinstance(standby, bool):
        return state, runtime, standby
    return None


def open_profile(asked: Asked, node: Node) -> Profile:
    """Return the profile that was asked for.

    Raises:
        ProfileError: none is named anywhere, or it is missing or not valid.
    """
    from kboot.profile.load import load_profile

    profile = load_profile(profile_name(asked, node), node.paths, asked.overrides)
    return replace(profile, declared=node.config.operator)


def profile_name(asked: Asked, node: Node) -> str:
    """Return the name of the profile that was asked for: by option, else by the configuration.

    Raises:
        ProfileError: neither names one.
    """
    name = asked.name or node.config.profile
    if not name:
        raise ProfileError(
            "no-profile",
            "which profile is meant? None was named",
            where=(f"--profile is not given, and {node.paths.config / 'kboot.toml'} has no `profile`",),
            hint="`kboot profile list` shows those there are",
        )
    return name


def need_this_machine(host: Host, doing: str) -> None:
    """Refuse what changes a machine when --root means a recorded one.

    Raises:
        UsageError: the machine is a recorded tree.
    """
    if not host.live:
        raise UsageError(
            "recorded-machine",
            f"{doing} works on this machine only, --root means a recorded one",
            hint="`kboot plan` and `kboot doctor` read a recorded machine",
        )


def show(
    common: Common, text: Callable[[], str], doc: Callable[[], Mapping[str, Any]], *, beside: bool = False
) -> None:
    """Print a command's result: the document with --json, else the text. beside: on stderr, since stdout has bytes."""
    from kboot.report.document import dumps

    if common.json:
        click.echo(dumps(doc()), err=beside)
        return
    with for_reader(sys.stderr if beside else sys.stdout):
        click.echo(text(), err=beside)


def for_reader(stream: TextIO) -> AbstractContextManager[None]:
    """Lay out what is rendered inside the block for the terminal behind the stream, if it is one."""
    from kboot.host.terminal import columns_of
    from kboot.report.render_text import WIDTH, laid_out_for

    return laid_out_for(columns_of(stream) or WIDTH)


def say_beside(text: str) -> None:
    """Say something beside the result: on stderr."""
    click.echo(f"kboot: {text}", err=True)


def paint(text: str, style: Style) -> str:
    """Colour a piece of text; click takes the colour off again where stdout is no terminal."""
    return click.style(text, **_STYLES[style])


def painter(node: Node) -> Paint:
    """Return the Paint for stdout: colours on a terminal without NO_COLOR."""
    from kboot.host.terminal import wants_colour
    from kboot.report.render_text import no_paint

    return paint if wants_colour(sys.stdout, node.env) else no_paint


def _open_host(root: Path | None) -> Host:
    if root is None:
        from kboot.host.real import RealHost

        return RealHost()
    from kboot.host.recorded import RecordedHost

    return RecordedHost(root)


def _like(wrapped: Callable[..., Any], function: _F) -> _F:
    """Give the wrapper the function's name, help and the options that were added before."""
    before = getattr(function, "__click_params__", [])
    added = getattr(wrapped, "__click_params__", [])
    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = before + added  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]
