"""Do the checkpoint's sources give bytes to this node?"""

from __future__ import annotations

from kboot.answers import SourceAnswer
from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_bytes


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """None that answers fails a boot that must still fetch; a family that leads nowhere costs time every time."""
    sources = facts.asked.sources
    if sources is None:
        if unread(facts, "asked.sources"):
            return Finding("unknown", f"the sources could not be asked ({gap_reason(facts, 'asked.sources')})")
        return Finding(
            "skip", "no profile says which sources" if profile is None else "nobody asked (recorded machine)"
        )
    silent = [source for source in sources if source.code]
    if silent:
        return _silent(sources, silent, checkpoint)
    broken = [(s, name) for s in sources for name, works in s.families if not works]
    if broken:
        source, family = broken[0]
        return Finding(
            "warn",
            f"{source.name} has addresses of {family} that do not answer",
            wanted=f"no {family} address, or a route that works",
            why="kboot tries both families at once; other programs wait 20 s and more for each connection",
            hint=f"mend the {family} route (`ip -6 route`, `ping -6`), or take its addresses off this node",
        )
    return Finding("ok", some(_words(source) for source in sources))


def _silent(
    sources: tuple[SourceAnswer, ...], silent: list[SourceAnswer], checkpoint: CheckpointFacts | None
) -> Finding:
    first = silent[0]
    here = checkpoint is not None and bool(checkpoint.files) and not checkpoint.missing_bytes
    nobody = len(silent) == len(sources) and not here
    rest = f" ({len(silent)} of {len(sources)} sources do not give bytes)" if len(sources) > 1 else ""
    return Finding(
        "fail" if nobody else "warn",
        f"{first.message}{rest}",
        wanted="the beginning of a file from every source",
        why="nothing can be fetched, and the checkpoint is not whole on this disk"
        if nobody
        else "a boot that must fetch has fewer places to fetch from"
        + ("; nothing is missing on this disk now" if here else ""),
        hint=first.hint
        or "`curl -v` of that address shows where it stops: name, connection, certificate or permission",
    )


def _words(source: SourceAnswer) -> str:
    families = f" over {' and '.join(name for name, _ in source.families)}" if source.families else ""
    return f"{source.name}: {show_bytes(source.size_bytes)} in {source.seconds:.2f} s{families}"


CHECK = Check(
    id="net.source_reach",
    asks="Do the checkpoint's sources give bytes to this node?",
    source="the first MiB of the largest file from each source; a connection over each address family",
    modes=frozenset({"full", "deep"}),
    run=run,
)
