"""`kboot license`: what are the terms of the model, and who accepted them?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kboot.cli.options import (
    Asked,
    Command,
    Common,
    Node,
    common_options,
    open_node,
    open_profile,
    profile_options,
    show,
)
from kboot.errors import ExitStatus, SourceError

if TYPE_CHECKING:
    from kboot.apply.license import Acceptance, LicenseState
    from kboot.profile.types import Profile


@click.group("license")
def command() -> None:
    """Show or accept the terms of a model."""


@command.command(
    "show",
    cls=Command,
    short_help="Show the terms of a model.",
    examples=(
        ("kboot license show --profile kimi-k3.1-pro", "the conditions, and whether they were accepted here"),
        ("kboot license show --profile kimi-k3.1-pro --text", "the whole text at the pinned commit"),
    ),
    statuses=(
        (ExitStatus.DONE, "shown"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.SOURCE, "--text: the text is not on this disk, and no source gives it"),
    ),
)
@click.option("--text", "whole", is_flag=True, help="Print the licence text itself, from this disk or the source.")
@click.option("--offline", is_flag=True, help="Ask no source.")
@profile_options
@common_options
def show_command(common: Common, asked: Asked, whole: bool, offline: bool) -> None:
    """Show the model's terms, which conditions apply to you, and whether they were accepted here; changes nothing."""
    from kboot.apply.license import status
    from kboot.profile.terms import judge
    from kboot.report.document import document, plain

    node = open_node(common)
    profile = open_profile(asked, node)
    text, commit = find_text(profile, node, offline=offline) if whole else on_this_disk(profile, node)
    state = status(profile, node.paths, _sha256(text))
    body = {
        "profile": profile.name,
        "repo": profile.checkpoint.repo,
        "license": plain(profile.license),
        "commit": commit,
        "status": state.status,
        "passes": state.passes,
        "why": state.why,
        "conditions": plain(judge(profile.license, profile.declared)),
        "operator": plain(profile.declared),
        "record": plain(state.record),
        **({"text": (text or b"").decode(errors="replace")} if whole else {}),
    }
    show(
        common,
        lambda: (text or b"").decode(errors="replace").rstrip() if whole else _terms(profile, state),
        lambda: document("license", body),
    )


@command.command(
    "accept",
    cls=Command,
    short_help="Record that you accept them.",
    examples=(
        ("kboot license accept --profile kimi-k3.1-pro", "record that you accept the text at the pinned commit"),
        ("kboot license accept --profile kimi-k3.1-pro --as 'Ops, Example Ltd'", "with the name of who accepts"),
    ),
    statuses=(
        (ExitStatus.DONE, "accepted and recorded"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.ACTION_FAILED, "the record cannot be written"),
        (ExitStatus.SOURCE, "the text is not on this disk, and no source gives it"),
    ),
)
@click.option("--as", "who", metavar="NAME", default="", help="Who accepts; without it the user's name.")
@click.option("--offline", is_flag=True, help="Ask no source; the text must be on this disk.")
@profile_options
@common_options
def accept_command(common: Common, asked: Asked, who: str, offline: bool) -> None:
    """Record on this node that you accept the model's terms, for the very text of the pinned commit."""
    from kboot.apply.license import accept
    from kboot.report.document import document, plain

    node = open_node(common)
    profile = open_profile(asked, node)
    text, commit = find_text(profile, node, offline=offline)
    record = accept(profile, text, commit, who or _user(node), node.paths)
    show(
        common,
        lambda: _accepted(record, commit),
        lambda: document("license-acceptance", plain(record)),
    )


def on_this_disk(profile: Profile, node: Node) -> tuple[bytes | None, str]:
    """Return the licence text and its commit as this disk has them, proven; None and "" where it has not."""
    from kboot.apply.license import read_terms
    from kboot.store.store import Store

    store = Store(node.paths, lambda _event: None)
    listing = store.known_listing(profile.checkpoint.repo, profile.checkpoint.revision)
    return (None, "") if listing is None else (read_terms(profile, listing, store, ()), listing.commit)


def find_text(profile: Profile, node: Node, *, offline: bool) -> tuple[bytes, str]:
    """Return the licence text and its commit, proven, from where boot would have it.

    Raises:
        SourceError: it cannot be had. KbootError: what reading the listing raises.
    """
    from kboot.apply.license import read_terms
    from kboot.facts.checkpoint import read_checkpoint
    from kboot.sources import open_sources
    from kboot.store.store import Store

    store = Store(node.paths, lambda _event: None)
    sources = open_sources(profile.checkpoint, profile.fetch, node.host.environ(), node.config.token_file)
    listing = read_checkpoint(profile, store, sources, offline=offline, emit=lambda _event: None).listing
    text = read_terms(profile, listing, store, () if offline else sources)
    if text is None:
        raise SourceError(
            "license-text-missing",
            f"{profile.license.file} of {listing.repo} at {listing.commit[:12]} cannot be had",
            hint="name the file that holds the terms in license.file of the profile, or try without --offline",
        )
    return text, listing.commit


def _terms(profile: Profile, state: LicenseState) -> str:
    from kboot.profile.terms import judge
    from kboot.report.render_text import join, wrap

    terms = profile.license
    lines = [f"{profile.checkpoint.repo}: {terms.name or 'no licence named in the profile'}"]
    lines += [f"  {terms.url}"] if terms.url else []
    for condition in terms.summary:
        lines += wrap(condition, "  - ")
    states = judge(terms, profile.declared)
    if states:
        as_of = f" (terms as of {terms.as_of})" if terms.as_of else ""
        lines.append(f"for what [operator] in kboot.toml declares{as_of}:")
        lines += [line for found in states for line in wrap(found.text, "  - ")]
    need = f"must be accepted before a hand-off; {state.status}: " if terms.accept_required else ""
    lines += wrap(f"{need}{state.why}", "  ")
    if not state.passes:
        whole = f"kboot license show --profile {profile.name} --text"
        lines += wrap(f"`{whole}` shows the text; `kboot license accept --profile {profile.name}` accepts it", "next: ")
    return join(lines)


def _accepted(record: Acceptance, commit: str) -> str:
    from kboot.report.render_text import join, table

    rows = [
        ("accepted by", record.accepted_by),
        ("text", f"{record.text_bytes:,} bytes, sha256 {record.text_sha256[:12]}…"),
        ("commit", commit[:12]),
    ]
    return join([f"{record.license or 'the licence'} of {record.repo}", *table(rows)])


def _sha256(text: bytes | None) -> str | None:
    import hashlib

    return None if text is None else hashlib.sha256(text).hexdigest()


def _user(node: Node) -> str:
    env: Any = node.env
    return env.get("SUDO_USER") or env.get("USER") or env.get("LOGNAME") or f"uid {node.host.uid()}"
