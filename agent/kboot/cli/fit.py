"""`kboot fit`: does a model fit, and on what?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kboot.cli.edge import Finished
from kboot.cli.options import (
    Asked,
    Command,
    Common,
    Node,
    common_options,
    open_node,
    open_profile,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus, FactMissing, UsageError

if TYPE_CHECKING:
    from kboot.checkpoint import Listing
    from kboot.plan.fit import FitRow
    from kboot.profile.types import CheckpointAsk, FetchAsk, LayoutAsk, Profile

_LIMIT_INDEX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Model:
    """What is to be laid out. weights_from: where the size comes from. layouts: those of the profile, if it is one."""

    name: str
    weights_bytes: int
    weights_from: str
    layouts: tuple[LayoutAsk, ...] = ()


@click.command(
    "fit",
    cls=Command,
    examples=(
        ("kboot fit kimi-k3.1-pro", "every layout of the profile, and one node of each class"),
        ("kboot fit kimi-k3.1-pro --gpu B200 --gpus 8 --nodes 2", "one arrangement"),
    ),
    statuses=(
        (ExitStatus.DONE, "what was asked fits; without a question, something does"),
        (ExitStatus.USAGE, "there is no such class of GPU, or no such model"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.FACT_MISSING, "the size of the weights is not known"),
        (ExitStatus.DOES_NOT_FIT, "it does not fit; the nearest arrangement that does is named"),
        (ExitStatus.SOURCE, "the repository's listing cannot be had"),
    ),
)
@click.argument("target", required=False, default="", metavar="[P|REPO|PATH]")
@click.option("--gpu", metavar="CLASS", help="Class of GPU, e.g. B300.")
@click.option("--gpus", type=click.IntRange(1), metavar="N", help="GPUs of each node.")
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="Nodes.")
@click.option("--offline", is_flag=True, help="Ask no source.")
@profile_options
@common_options
def command(
    common: Common, asked: Asked, target: str, gpu: str | None, gpus: int | None, nodes: int | None, offline: bool
) -> None:
    """Show on which hardware a model's weights fit, and what is left for the KV cache; changes nothing."""
    from kboot.plan.cost import describe_cost, layout_costs
    from kboot.plan.fit import does_not_fit, fit
    from kboot.profile.load import load_node_classes
    from kboot.report.document import document, plain
    from kboot.report.text_fit import fit_text

    node = open_node(common)
    model = find_model(target, asked, node, offline=offline)
    classes = load_node_classes(node.paths)
    report = fit(model.weights_bytes, model.layouts, classes, gpu, gpus, nodes, model.weights_from)
    costs = [describe_cost(cost) for layout in model.layouts for cost in layout_costs(layout, classes)]
    show(
        common,
        lambda: f"{model.name}\n{fit_text(report, costs, paint=painter(node))}",
        lambda: document(
            "fit",
            {
                "model": model.name,
                "fits": report.fits,
                **plain(report),
                "rows": [_row_json(row) for row in report.rows],
                "asked": [_row_json(row) for row in report.asked],
                "costs": costs,
            },
        ),
    )
    if not report.fits:
        if common.json:
            raise Finished(ExitStatus.DOES_NOT_FIT)
        raise does_not_fit(report)


def find_model(target: str, asked: Asked, node: Node, *, offline: bool) -> Model:
    """Return what `target` means: a folder, else a repository, else a profile.

    Raises:
        UsageError, ProfileError, FactMissing, SourceError: there is no such thing, or its size cannot be had.
    """
    path = Path(target)
    if target and path.is_dir():
        return _of_folder(path)
    if "/" in target and not target.endswith(".toml"):
        if target.startswith(("/", ".", "~")):
            raise UsageError("no-such-model", f"there is no folder {target}")
        return _of_repo(target, node, offline=offline)
    return _of_profile(open_profile(Asked(target or asked.name, asked.overrides), node), node, offline=offline)


def _of_folder(path: Path) -> Model:
    from kboot.plan.fit import weight_bytes

    files = ((str(p.relative_to(path)), p.stat().st_size) for p in sorted(path.iterdir()) if p.is_file())
    size_bytes = weight_bytes(files)
    if size_bytes is None:
        raise FactMissing("no-weights", "the folder holds no weight files", where=(str(path),))
    return Model(str(path), size_bytes, "files in the folder")


def _of_repo(repo: str, node: Node, *, offline: bool) -> Model:
    from kboot.profile.types import CheckpointAsk, FetchAsk

    name, _, revision = repo.partition("@")
    size_bytes, origin = _listed(CheckpointAsk(repo=name, revision=revision or "main"), FetchAsk(), node, offline)
    return Model(name, size_bytes, origin)


def _of_profile(profile: Profile, node: Node, *, offline: bool) -> Model:
    """Return the profile's model; the published size stands in while this disk has no listing."""
    published = profile.model.size_bytes
    known = _known_listing(profile.checkpoint, node)
    if known is None and published is not None:
        return Model(profile.name, published, "as published, from the profile", profile.layout)
    size_bytes, origin = _listed(profile.checkpoint, profile.fetch, node, offline)
    return Model(profile.name, size_bytes, origin, profile.layout)


def _known_listing(ask: CheckpointAsk, node: Node) -> Listing | None:
    from kboot.store.store import Store

    return Store(node.paths, lambda _event: None).known_listing(ask.repo, ask.revision)


def _listed(ask: CheckpointAsk, fetch: FetchAsk, node: Node, offline: bool) -> tuple[int, str]:
    """Return the size of the wanted weights and where the listing came from: this disk first."""
    from kboot.plan.fit import weight_bytes

    known = _known_listing(ask, node)
    if known is not None:
        files, origin = known.files, f"listing of {known.commit[:12]} on this disk"
    elif offline:
        raise FactMissing("no-listing", f"this disk has no listing of {ask.repo}, and --offline asks no source")
    else:
        from kboot.sources import list_checkpoint, open_sources
        from kboot.store.selection import find_index, select

        sources = open_sources(ask, fetch, node.host.environ(), node.config.token_file)
        found, source = list_checkpoint(sources, ask.repo, ask.revision)
        index = find_index(found.files)
        data = None if index is None else source.read(found.repo, found.commit, index, _LIMIT_INDEX_BYTES)
        files, _ = select(found.files, data, ask.include, ask.exclude)
        origin = f"listing of {found.commit[:12]} by {source.name}"
    size_bytes = weight_bytes((f.path, f.size_bytes) for f in files)
    if size_bytes is None:
        raise FactMissing("no-weights", f"{ask.repo} lists no weight files")
    return size_bytes, origin


def _row_json(row: FitRow) -> dict[str, object]:
    from kboot.report.document import plain

    more = ("gpus", "total_bytes", "over_bytes", "weights_per_gpu_bytes", "kv_per_gpu_bytes", "kv_bytes", "fits")
    return {**plain(row), **{name: getattr(row, name) for name in more}, "verdict": row.verdict}
