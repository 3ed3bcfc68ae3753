"""Which bytes must move, be proven, be read into memory, before an engine may serve from this disk?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.plan.types import FetchFile, FetchShare, Phase, PublishCheckpoint, VerifyFile, WarmFile
from kboot.quantities import show_bytes

if TYPE_CHECKING:
    from kboot.checkpoint import CheckpointFacts, LocalFile, VerifyMode
    from kboot.facts.types import MemoryFacts
    from kboot.profile.types import WarmAsk

_FEW_PAGES_BYTES = 64 << 10
_SMALL_BYTES = 256 << 10


def without_fetch(checkpoint: CheckpointFacts) -> tuple[str, ...]:
    """Return what a run that fetches nothing says of files that are not here."""
    away = checkpoint.missing_bytes
    said = f"{show_bytes(away)} of the checkpoint are not on this disk, and this run fetches nothing: see `kboot fetch`"
    return (said,) if away else ()


def plan_bytes(
    checkpoint: CheckpointFacts, mode: VerifyMode, warm: WarmAsk, memory: MemoryFacts, model_path: str
) -> tuple[Phase, ...]:
    """Return the phases fetch, verify, publish and warm; all empty for a complete, verified, warm checkpoint."""
    fetch = plan_fetch(checkpoint)
    verify = plan_verify(checkpoint, mode)
    publish = () if checkpoint.published and not fetch else (_publish(checkpoint, model_path),)
    return (
        Phase("fetch", (), fetch, _note_on_fetch(checkpoint, fetch)),
        Phase("verify", (), verify, _note_on_verify(checkpoint, mode, verify)),
        Phase("publish", ("fetch", "verify"), publish, "" if publish else f"{model_path} points there already"),
        Phase("warm", ("fetch", "verify"), *plan_warm(checkpoint, warm, memory)),
    )


def plan_fetch(checkpoint: CheckpointFacts) -> tuple[FetchFile | FetchShare, ...]:
    """Return one fetch per file that is not whole on this disk, largest remainder first; shares of files come last.

    Largest first, so that the last file to finish is a small one.
    """
    wanted = [f for f in checkpoint.files if f.state in ("absent", "partial", "damaged", "shared") and f.share is None]
    wanted.sort(key=lambda f: (f.have_bytes - f.file.size_bytes, f.file.path))
    return (*(_whole(f) for f in wanted), *_shares(checkpoint))


def _whole(local: LocalFile) -> FetchFile:
    have_bytes = local.have_bytes if local.state in ("partial", "shared") else 0
    return FetchFile(local.file, have_bytes, _why_fetch(local), local.alone)


def _shares(checkpoint: CheckpointFacts) -> tuple[FetchShare, ...]:
    """Return a fetch for each file of which not everything is here that this node's ranks load."""
    wanted = [(f.file, f.share) for f in checkpoint.files if f.share is not None]
    wanted.sort(key=lambda pair: (pair[1].have_bytes - pair[1].size_bytes, pair[0].path))
    why = "the other experts are other nodes', which have them; proven by range digests"
    return tuple(FetchShare(file, share, why) for file, share in wanted if share.have_bytes < share.size_bytes)


def plan_verify(checkpoint: CheckpointFacts, mode: VerifyMode) -> tuple[VerifyFile, ...]:
    """Return the files to prove: those nobody hashed in every mode, and what the mode asks for on top.

    What an image vouches for waits for its hash; mode full does not wait.
    """
    actions = [
        _prove(f)
        for f in checkpoint.files
        if f.state == "present" and (mode == "full" or f.of_image not in ("samples", "verity"))
    ]
    if mode != "ledger":
        why = "the profile asks for every byte at every boot" if mode == "full" else "the profile asks for structure"
        actions += [VerifyFile(f.file, mode, why) for f in checkpoint.files if f.state in ("verified", "shared")]
    return tuple(actions)


def _prove(local: LocalFile) -> VerifyFile:
    if local.of_image == "known":
        return VerifyFile(local.file, "bake", "part of this node's image: compared with its manifest, hashed later")
    return VerifyFile(local.file, "full", local.why or "present, but never hashed on this node")


def plan_warm(checkpoint: CheckpointFacts, ask: WarmAsk, memory: MemoryFacts) -> tuple[tuple[WarmFile, ...], str]:
    """Return the files to read into the page cache, in load order, and a note when there are none.

    Files that will be fetched are warm when they land. Files are taken while they fit into the memory that is free
    for it: reading more would evict what was read first. A file that lacks a few pages is left: the kernel takes some
    back all the time, and an engine gets them sooner than anybody else.
    """
    if not ask.enabled:
        return (), "the profile turns warming off (warm.enabled = false)"
    budget = warm_budget_bytes(ask, memory) - sum(f.resident_bytes or 0 for f in checkpoint.files)
    actions: list[WarmFile] = []
    for local in checkpoint.files:
        cold = local.loaded_bytes - (local.resident_bytes or 0)
        if not local.is_readable or local.resident_bytes is None:
            continue
        if cold <= _may_lack(local.loaded_bytes):
            continue
        if cold > budget:
            return tuple(actions), f"memory for warming ends at {local.file.path}"
        budget -= cold
        why = "part of it is not in the page cache" if local.resident_bytes else "not in the page cache"
        why += ", and this node's ranks load that" if local.loaded else ""
        actions.append(WarmFile(local.file, local.resident_bytes, why, local.loaded))
    return tuple(actions), "" if actions else "every file on disk is in the page cache"


def _may_lack(size_bytes: int) -> int:
    """Return how much of a file may be cold without its being read for that."""
    return 0 if size_bytes < _SMALL_BYTES else max(_FEW_PAGES_BYTES, size_bytes // 100)


def warm_budget_bytes(ask: WarmAsk, memory: MemoryFacts) -> int:
    """Return how much page cache the checkpoint may take: a fraction of what is free, within the cgroup's limit."""
    return int(memory.usable_bytes * ask.max_memory_fraction)


def _publish(checkpoint: CheckpointFacts, model_path: str) -> PublishCheckpoint:
    why, in_part = "engines serve from this one path at every boot", any(f.share is not None for f in checkpoint.files)
    return PublishCheckpoint(checkpoint.listing, model_path, why, in_part)


def _why_fetch(local: LocalFile) -> str:
    if local.state in ("partial", "shared"):
        return f"{show_bytes(local.have_bytes)} of {show_bytes(local.file.size_bytes)} are here from an earlier try"
    return local.why or ("damaged on disk" if local.state == "damaged" else "not on this disk")


def _note_on_fetch(checkpoint: CheckpointFacts, fetch: tuple[FetchFile | FetchShare, ...]) -> str:
    if fetch:
        return ""
    if shared := sum(f.state == "shared" for f in checkpoint.files):
        return f"all {len(checkpoint.files)} files are on this disk, {shared} as far as this node's ranks load them"
    one = len(checkpoint.files) == 1
    return f"{'the 1 file is' if one else f'all {len(checkpoint.files)} files are'} on this disk: nothing is fetched"


def _note_on_verify(checkpoint: CheckpointFacts, mode: VerifyMode, verify: tuple[VerifyFile, ...]) -> str:
    known = sum(f.state == "verified" for f in checkpoint.files)
    if verify:
        return ""
    if vouched := sum(f.of_image in ("samples", "verity") for f in checkpoint.files):
        return f"{vouched} of {len(checkpoint.files)} files are vouched for by the image, and not hashed here yet"
    if not known:
        return "every file is hashed while it is fetched"
    if known == 1:
        return f"1 file verified by {mode}: same identity as when it was hashed"
    return f"{known} files verified by {mode}: same identity as when they were hashed"
