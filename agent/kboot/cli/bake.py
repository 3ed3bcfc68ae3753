"""`kboot bake`: how does a machine, a chroot or a mounted tree become an image?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    for_reader,
    open_node,
    open_profile,
    painter,
    profile_options,
    show,
)
from kboot.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from kboot.bake import BakeAsk, BakeReport
    from kboot.report.sealed import SealReport
    from kboot.sealing import SealAsk

_LAST = "not sealed yet: the last step is `kboot bake --finish --this-machine`, or from outside `--finish --root DIR`"


@click.command(
    "bake",
    cls=Command,
    examples=(
        ("kboot bake --profile demo", "prepare the image this runs in: bytes, caches, units, manifest"),
        ("kboot bake --finish --dry-run", "what sealing would take out of it"),
        ("kboot bake --finish --this-machine", "seal the machine that becomes the image"),
    ),
    statuses=(
        (ExitStatus.DONE, "prepared, sealed, or shown; doctor's warnings are no failure of a bake"),
        (ExitStatus.USAGE, "no such target; or this machine would be sealed, and nobody said so"),
        (ExitStatus.DOCTOR_FAILED, "prepared, but doctor found that a boot would not work: not sealed"),
        (ExitStatus.PROFILE, "the profile or configuration is not valid"),
        (ExitStatus.VERIFICATION, "bytes are not those of the pinned commit"),
        (ExitStatus.ACTION_FAILED, "a step failed, or something is left that must not go out with the image"),
        (ExitStatus.DOES_NOT_FIT, "the model does not fit the target, or the disk is too small"),
        (ExitStatus.SOURCE, "no source can be reached, or all refuse"),
        (ExitStatus.INTERRUPTED, "interrupted; the next run goes on from here"),
    ),
)
@click.option(
    "--gpu",
    metavar="CLASS",
    shell_complete=completing("gpu"),
    help="Make it for this class of GPU, e.g. B300; none is needed here.",
)
@click.option("--gpus", type=AtLeast(0), metavar="N", help="GPUs of each node it is for.")
@click.option("--nodes", type=AtLeast(1), metavar="N", help="Nodes of the layout it is for.")
@click.option("--driver", default="", metavar="V", help="Driver on the nodes; without it the one in this image.")
@click.option("--cuda", default="", metavar="V", help="CUDA version of that driver, e.g. 13.0.")
@click.option("--no-weights", is_flag=True, help="Everything but the weights; a node fetches them at its first boot.")
@click.option("--cache", "archives", metavar="FILE|URL", multiple=True, help="Take in an archive of kernel caches.")
@click.option("--fs-verity", is_flag=True, help="Let the file system prove large files from now on, where it can.")
@click.option("--offline", is_flag=True, help="Ask no source; what is on this disk must do.")
@click.option("--finish", is_flag=True, help="Seal: take out what is the builder's. Alone, or after --profile P.")
@click.option(
    "--this-machine",
    is_flag=True,
    help="With --finish: what this runs in (machine, container, chroot) becomes the image.",
)
@click.option("--remove-login-keys", is_flag=True, help="With --finish: authorized_keys as well.")
@click.option(
    "--keep",
    metavar="PATH",
    multiple=True,
    help="With --finish: a file, or a folder with all below it, that is meant to be in the image.",
)
@click.option("--dry-run", is_flag=True, help="With --finish: show what would be taken out, and stop there.")
@profile_options
@common_options
def command(
    common: Common,
    asked: Asked,
    gpu: str | None,
    gpus: int | None,
    nodes: int | None,
    driver: str,
    cuda: str,
    no_weights: bool,
    archives: tuple[str, ...],
    fs_verity: bool,
    offline: bool,
    finish: bool,
    this_machine: bool,
    remove_login_keys: bool,
    keep: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Prepare an image, no GPU needed, and with --finish take out of it what is its builder's."""
    from kboot.bake import BakeAsk
    from kboot.plan.bake import TargetAsk
    from kboot.sealing import SealAsk

    if (this_machine or remove_login_keys or keep or dry_run) and not finish:
        raise UsageError("usage", "--this-machine, --remove-login-keys, --keep and --dry-run are about --finish")
    node = open_node(common)
    target = TargetAsk(gpu, gpus, nodes, driver, cuda)
    ask = BakeAsk(target, not no_weights, archives, fs_verity, offline, node.config.token_file, node.config.profile)
    root = common.root or Path("/")
    if finish:
        _require_ground(node, root, this_machine=this_machine or dry_run)
    report = sealed = None
    if asked.name or not finish:
        report = _bake(common, asked, node, ask)
    if finish and (report is None or report.exit_status == ExitStatus.DONE):
        sealed = _seal(common, node, root, SealAsk(remove_login_keys, keep, dry_run))
    _show(common, node, report, sealed)
    _end(report, sealed)


def _bake(common: Common, asked: Asked, node: Node, ask: BakeAsk) -> BakeReport:
    from kboot.bake import bake
    from kboot.cli.watch import stop_on_signals, watch
    from kboot.host.image import ImageTree

    if not node.host.live:
        raise UsageError(
            "bake-inside",
            "an image is prepared from the inside: its own Python compiles, its own files are judged",
            hint=f"`chroot {common.root} kboot bake …`; `kboot bake --finish --root {common.root}` seals from outside",
        )
    profile = open_profile(asked, node)
    stop = stop_on_signals()
    with watch(common, node, profile.name, save=None) as seen:
        return bake(profile, node.host, node.paths, ask, ImageTree(Path("/")), seen.emit, stop)


def _require_ground(node: Node, root: Path, *, this_machine: bool) -> None:
    from kboot.facts.image_ground import is_this_root
    from kboot.plan.seal import SealGround, require_ground

    named = not node.host.live
    ground = SealGround(named, is_this_root(root), "" if named else _serving(node))
    require_ground(ground, this_machine=this_machine)


def _serving(node: Node) -> str:
    """Return what of kboot is at work on this machine; empty for nothing."""
    from kboot.cli.status import find_status

    doc = find_status(node)
    at_work = doc.get("source") == "daemon" or doc["state"] in ("running", "serving", "preparing", "waiting")
    return f"kboot says: {doc.get('text') or doc['state']}" if at_work else ""


def _seal(common: Common, node: Node, root: Path, ask: SealAsk) -> SealReport:
    from kboot.cli.watch import draw_progress
    from kboot.facts.residue import ImageFolders
    from kboot.host.image import ImageTree
    from kboot.host.real import RealHost
    from kboot.sealing import seal_image

    def inside(path: Path | str) -> str:
        text = str(path)
        return text.removeprefix(str(root).rstrip("/")).strip("/") if node.host.live is False else text.strip("/")

    state = node.config.state_dir if not node.host.live else ""
    folders = ImageFolders(
        state=inside(state or node.paths.state),
        runtime=inside(node.paths.runtime),
        config=inside(node.paths.config),
        token_files=(node.config.token_file.strip("/"),) if node.config.token_file else (),
    )
    with draw_progress(common, node) as emit:
        return seal_image(ImageTree(root), folders, RealHost(), node.env, ask, emit)


def _show(common: Common, node: Node, report: BakeReport | None, sealed: SealReport | None) -> None:
    from kboot.doctor import summary, to_json
    from kboot.report.document import document, plain
    from kboot.report.render_text import join, wrap
    from kboot.report.text_bake import bake_document, bake_text, seal_document, seal_text

    def text() -> str:
        parts, paint = [], painter(node)
        if report is not None:
            said = summary(report.doctor) if report.doctor else ""
            done = (report.baked, report.outcomes, report.fits, said, report.seconds)
            parts.append(bake_text(*done, verbose=common.verbose, paint=paint))
        if sealed is not None:
            parts.append(seal_text(sealed, paint=paint))
        if report is not None and report.exit_status == ExitStatus.DONE and sealed is None:
            parts.append(join(wrap(_LAST)))
        return "\n\n".join(parts)

    def doc() -> dict[str, Any]:
        body: dict[str, Any] = {"exit_status": int(_status(report, sealed)), "error": plain(_error(report, sealed))}
        if report is not None:
            body |= bake_document(report.baked, report.outcomes, report.fits, report.seconds)
            body["doctor"] = to_json(report.doctor) if report.doctor else None
        if sealed is not None:
            body["seal"] = seal_document(sealed)
        return document("bake", body)

    show(common, text, doc)


def _error(report: BakeReport | None, sealed: SealReport | None) -> Any:
    found = [r.error for r in (report, sealed) if r is not None and r.error is not None]
    return found[0] if found else None


def _status(report: BakeReport | None, sealed: SealReport | None) -> ExitStatus:
    if report is not None and report.exit_status != ExitStatus.DONE:
        return report.exit_status
    return ExitStatus.DONE if sealed is None or sealed.error is None else sealed.error.status


def _end(report: BakeReport | None, sealed: SealReport | None) -> None:
    """End with the status; what is left in a tree is said on stderr, where a build looks.

    Raises:
        Finished: for every status but 0.
    """
    from kboot.report.render_text import error_text

    if sealed is not None and sealed.error is not None:
        with for_reader(sys.stderr):
            click.echo(error_text(sealed.error), err=True)
    if (status := _status(report, sealed)) != ExitStatus.DONE:
        raise Finished(status)
