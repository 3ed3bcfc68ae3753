"""`kboot profile`: which profiles are there, what do they say, and are they valid?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    Command,
    Common,
    common_options,
    completing,
    open_node,
    open_profile,
    profile_name,
    show,
)
from kboot.errors import ExitStatus

if TYPE_CHECKING:
    from kboot.profile.load import ProfileSummary

_VALID = (
    (ExitStatus.DONE, "valid"),
    (ExitStatus.PROFILE, "a profile or the configuration is missing or not valid"),
)
_SET = click.option(
    "--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Lay one value over it, e.g. serve.port=8001."
)
_NAME = click.argument("name", required=False, default="", metavar="[P]", shell_complete=completing("profile"))


@click.group("profile")
def command() -> None:
    """List, show and check profiles; changes nothing."""


@command.command(
    "list",
    cls=Command,
    short_help="List every profile there is.",
    examples=(("kboot profile list", "names, titles and layouts"), ("kboot profile list --json", "for a program")),
    statuses=(
        (ExitStatus.DONE, "listed, those that are not valid as well"),
        (ExitStatus.PROFILE, "a folder of profiles or the configuration cannot be read"),
    ),
)
@common_options
def list_command(common: Common) -> None:
    """List every profile there is, the operator's and those that come with kboot."""
    from kboot.profile.load import list_profiles
    from kboot.report.document import document, plain
    from kboot.report.render_text import join

    node = open_node(common)
    found = list_profiles(node.paths)
    show(
        common,
        lambda: join(line for summary in found for line in _summary_lines(summary)),
        lambda: document("profiles", {"default": node.config.profile, "profiles": plain(found)}),
    )


def _summary_lines(summary: ProfileSummary) -> list[str]:
    from kboot.report.render_text import table, wrap

    rows = [("layouts", ", ".join(summary.layouts))] if summary.error is None else []
    title = summary.title if summary.error is None else f"not valid: {summary.error.message}"
    shipped = summary.where.startswith("profiles/")
    return [*wrap(f"{summary.name}: {title}"), *table([*rows, ("from", "kboot" if shipped else summary.where)])]


@command.command(
    "show",
    cls=Command,
    short_help="Show a profile as boot reads it.",
    examples=(
        ("kboot profile show demo", "every value and where it comes from"),
        ("kboot profile show demo --set serve.port=8001", "with one value laid over"),
    ),
    statuses=_VALID,
)
@_NAME
@_SET
@common_options
def show_command(common: Common, name: str, overrides: tuple[str, ...]) -> None:
    """Show a profile as boot reads it: merged, each value with its origin."""
    from kboot.profile.render import profile_to_json, profile_to_text
    from kboot.report.document import document

    profile = open_profile(Asked(name, overrides), open_node(common))
    show(common, lambda: profile_to_text(profile), lambda: document("profile", profile_to_json(profile)))


@command.command(
    "check",
    cls=Command,
    short_help="Check a profile.",
    examples=(
        ("kboot profile check demo", "one profile"),
        ("kboot profile check ./mine.toml", "a file before it is installed"),
    ),
    statuses=_VALID,
)
@_NAME
@_SET
@click.option("--all", "every", is_flag=True, help="Check every profile there is.")
@common_options
def check_command(common: Common, name: str, overrides: tuple[str, ...], every: bool) -> None:
    """Check a profile; every problem is named at once, with file, key, value and what is allowed."""
    if every:
        _check_all(common)
        return
    from kboot.report.document import document

    node = open_node(common)
    asked = Asked(name, overrides)
    profile = open_profile(asked, node)
    show(
        common,
        lambda: f"{profile_name(asked, node)}: valid, digest {profile.digest[:12]}",
        lambda: document("profile-check", {"name": profile.name, "valid": True, "digest": profile.digest}),
    )


def _check_all(common: Common) -> None:
    from kboot.profile.load import list_profiles
    from kboot.report.document import document, plain
    from kboot.report.render_text import error_text, join

    found = list_profiles(open_node(common).paths)
    bad = [p for p in found if p.error is not None]
    show(
        common,
        lambda: join(
            f"{p.name}: valid" if p.error is None else f"{p.name}: not valid\n{error_text(p.error)}" for p in found
        ),
        lambda: document("profile-check", {"valid": not bad, "profiles": plain(found)}),
    )
    if bad:
        raise Finished(ExitStatus.PROFILE)
