"""`kboot fit`: does a model fit, and on what?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    AtLeast,
    Command,
    Common,
    Node,
    common_options,
    completing,
    open_node,
    open_profile,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus, FactMissing, KbootError, SourceError, UsageError
from kboot.quantities import show_seconds
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.checkpoint import Listing
    from kboot.plan.fit import FitRow
    from kboot.plan.memory.model import Model
    from kboot.profile.types import CheckpointAsk, FetchAsk, Profile
    from kboot.sources.types import Source

_LIMIT_INDEX_BYTES = 256 << 20
_KEPT_BOOTS = 50


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be laid out. weights_from: where the size comes from. model: None where no headers were read.

    profile: None for a bare folder or repository.
    """

    name: str
    weights_bytes: int
    weights_from: str
    model: Model | None = None
    profile: Profile | None = None


@click.command(
    "fit",
    cls=Command,
    examples=(
        ("kboot fit kimi-k3.1-pro", "every layout of the profile, and one node of each class"),
        ("kboot fit kimi-k3.1-pro --gpu B200 --gpus 8 --nodes 2", "one arrangement"),
    ),
    statuses=(
        (ExitStatus.DONE, "what was asked fits; without a question, something does"),
        (ExitStatus.USAGE, "there is no such class of GPU, or no such folder"),
        (ExitStatus.PROFILE, "there is no such profile, or it or the configuration is not valid"),
        (ExitStatus.FACT_MISSING, "the size of the weights is not known"),
        (ExitStatus.ACTION_FAILED, "the repository has no weights that would be fetched"),
        (ExitStatus.DOES_NOT_FIT, "it does not fit; the nearest arrangement that does is named"),
        (ExitStatus.SOURCE, "the repository's listing cannot be had"),
    ),
)
@click.argument("target", required=False, default="", metavar="[P|REPO|PATH]", shell_complete=completing("profile"))
@click.option("--gpu", metavar="CLASS", shell_complete=completing("gpu"), help="Class of GPU, e.g. B300.")
@click.option("--gpus", type=AtLeast(1), metavar="N", help="GPUs of each node.")
@click.option("--nodes", type=AtLeast(1), metavar="N", help="Nodes.")
@click.option("--offline", is_flag=True, help="Ask no source.")
@profile_options
@common_options
def command(
    common: Common,
    asked: Asked,
    target: str,
    gpu: str | None,
    gpus: int | None,
    nodes: int | None,
    offline: bool,
) -> None:
    """Show on which hardware a model fits and what is left for the KV cache, from headers alone; changes nothing."""
    from kboot.plan.cost import cost_lines
    from kboot.plan.fit import FitAsk, does_not_fit, fit
    from kboot.profile.load import load_node_classes
    from kboot.report.document import document, plain
    from kboot.report.text_fit import fit_text

    node = open_node(common)
    found = find_target(target, asked, node, offline=offline)
    profile = found.profile
    layouts = profile.layout if profile else ()
    classes = load_node_classes(node.paths)
    report = fit(
        FitAsk(
            weights_bytes=found.weights_bytes,
            layouts=layouts,
            node_classes=classes,
            model=found.model,
            weights_from=found.weights_from,
            gpu=gpu,
            gpus=gpus,
            nodes=nodes,
        )
    )
    fitting = {row.layout for row in report.fitting}
    api = profile.model.api_price if profile else None
    start_s = _last_start_s(profile.name, node) if profile else None
    costs = list(cost_lines([a for a in layouts if a.name in fitting], classes, api, start_s))
    show(
        common,
        lambda: f"{found.name}\n{fit_text(report, costs, paint=painter(node))}",
        lambda: document(
            "fit",
            {
                "model": found.name,
                "fits": report.fits,
                "weights_bytes": report.weights_bytes,
                "weights_from": report.weights_from,
                "headers": found.model is not None,
                "tensors": {} if found.model is None else plain(found.model.stored),
                "rows": [_row_json(row) for row in report.rows],
                "asked": [_row_json(row) for row in report.asked],
                "reserves": plain(report.reserves),
                "notes": list(report.notes),
                "costs": costs,
            },
        ),
    )
    if not report.fits:
        if common.json:
            raise Finished(ExitStatus.DOES_NOT_FIT)
        raise does_not_fit(report)


def find_target(text: str, asked: Asked, node: Node, *, offline: bool) -> Target:
    """Return what `text` means: a folder, else a repository, else a profile.

    Raises:
        UsageError, ProfileError, FactMissing, SourceError: there is no such thing, or its size cannot be had.
    """
    path = Path(text)
    if text and _is_folder(path):
        return _of_folder(path)
    if "/" in text and not text.endswith(".toml"):
        if text.startswith(("/", ".", "~")):
            raise UsageError("no-such-model", f"there is no folder {text}")
        return _of_repo(text, node, offline=offline)
    return _of_profile(open_profile(Asked(text or asked.name, asked.overrides), node), node, offline=offline)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # no file system has so long a name
        return False


def _of_folder(path: Path) -> Target:
    from kboot.apply.weights import folder_model
    from kboot.plan.fit import weight_bytes

    files = [(p.name, p.stat().st_size) for p in sorted(path.iterdir()) if p.is_file()]
    if any(name.endswith(".safetensors") for name, _ in files):
        model = folder_model(path)
        return Target(str(path), model.stored_bytes, "headers of the files in the folder", model)
    size_bytes = weight_bytes(files)
    if size_bytes is None:
        raise FactMissing("no-weights", "the folder holds no weight files", where=(str(path),))
    return Target(str(path), size_bytes, "files in the folder")


def _of_repo(repo: str, node: Node, *, offline: bool) -> Target:
    from kboot.profile.rules import REVISION
    from kboot.profile.types import CheckpointAsk, FetchAsk

    name, _, revision = repo.partition("@")
    if revision and not REVISION.test(revision):
        raise UsageError(
            "revision-not-valid", f"{revision[:80]!r} behind the @ is no revision: wanted {REVISION.wanted}"
        )
    ask = CheckpointAsk(repo=name, revision=revision or "main")
    size_bytes, origin, model = _listed(ask, FetchAsk(), node, offline=offline, waits=True)
    return Target(name, size_bytes, origin, model)


def _of_profile(profile: Profile, node: Node, *, offline: bool) -> Target:
    """Return the profile's model; the published size stands in where neither this disk nor a source has the headers."""
    published = profile.model.size_bytes
    try:
        size_bytes, origin, model = _listed(
            profile.checkpoint, profile.fetch, node, offline=offline, waits=published is None
        )
    except (SourceError, FactMissing) as exc:
        if published is None:
            raise
        return Target(profile.name, published, f"as published, from the profile; {exc.message}", None, profile)
    return Target(profile.name, size_bytes, origin, model, profile)


def _listed(
    ask: CheckpointAsk, fetch: FetchAsk, node: Node, *, offline: bool, waits: bool
) -> tuple[int, str, Model | None]:
    """Return the size of the wanted weights, where it comes from, and the model; of this disk where it knows.

    waits: a source that may answer later is asked again.
    """
    from kboot.apply.reach import refuse_to_wait
    from kboot.apply.weights import listed_model
    from kboot.plan.fit import weight_bytes
    from kboot.sources import open_sources
    from kboot.store.store import Store

    store = Store(node.paths, lambda _event: None)
    sources: tuple[Source, ...] = ()
    if not offline:
        on_wait = _say_wait if waits else refuse_to_wait
        sources = open_sources(ask, fetch, node.host.environ(), node.config.token_file, on_wait)
    listing = store.known_listing(ask.repo, ask.revision)
    origin = "on this disk" if listing else ""
    if listing is None:
        listing = _ask_listing(ask, sources)
        origin = f"by {listing.origin}"
    size_bytes = weight_bytes((f.path, f.size_bytes) for f in listing.files)
    if size_bytes is None:
        raise FactMissing("no-weights", f"{ask.repo} lists no weight files")
    if not any(f.path.endswith(".safetensors") for f in listing.files):
        return size_bytes, f"listing of {listing.commit[:12]} {origin}", None
    model = listed_model(listing, store, sources, keep=False)
    return model.stored_bytes, f"headers of {listing.commit[:12]}, listing {origin}", model


def _say_wait(why: str, wait_s: float) -> None:
    click.echo(f"kboot: {why}; asking again in {show_seconds(wait_s)}", err=True)


def _ask_listing(ask: CheckpointAsk, sources: tuple[Source, ...]) -> Listing:
    from kboot.checkpoint import Listing
    from kboot.sources import list_checkpoint
    from kboot.store.selection import find_index, select

    if not sources:
        raise FactMissing("no-listing", f"this disk has no listing of {ask.repo}, and --offline asks no source")
    found, source = list_checkpoint(sources, ask.repo, ask.revision)
    index = find_index(found.files)
    data = None if index is None else source.read(found.repo, found.commit, index, _LIMIT_INDEX_BYTES)
    files, skipped = select(found.files, data, ask.include, ask.exclude)
    return Listing(found.repo, ask.revision, found.commit, files, skipped, source.name)


def _last_start_s(profile: str, node: Node) -> float | None:
    """Return how long the profile's last recorded boot took until the engine answered; None without one."""
    from kboot.report.saved import load_reports

    try:
        reports = load_reports(node.paths, _KEPT_BOOTS)
    except KbootError:  # not ours to read: then nothing is known of earlier boots
        return None
    for report in reports:
        if report.profile == profile and report.ready_unix_s is not None:
            return report.ready_unix_s - report.started_unix_s
    return None


def _row_json(row: FitRow) -> dict[str, object]:
    from kboot.plan.fit import why
    from kboot.report.document import plain

    own = ("layout", "gpu", "gpus_per_node", "nodes", "memory_bytes", "weights_bytes")
    more = ("gpus", "total_bytes", "over_bytes", "weights_per_gpu_bytes", "kv_per_gpu_bytes", "kv_bytes", "fits")
    found: dict[str, object] = {name: getattr(row, name) for name in (*own, *more)}
    found |= {"verdict": row.verdict, "divided": row.way, "why": why(row)}
    placed = row.placed
    if placed is not None:
        found["rank"] = {
            "ranks": len(placed.ranks),
            "largest": plain(placed.largest.parts),
            "largest_bytes": placed.largest.total_bytes,
            "smallest_bytes": placed.smallest_bytes,
            "reserves": plain(placed.reserves),
            "kv": plain(placed.kv),
        }
    return found
