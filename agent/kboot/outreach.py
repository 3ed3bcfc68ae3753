"""What do the checkpoint's sources and the vendor's programs answer, in the modes of doctor that ask them?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from kboot.answers import RateLimit, SourceAnswer
from kboot.apply.reach import refuse_to_wait
from kboot.checkpoint import CheckpointFacts, Listing
from kboot.checks.types import Mode
from kboot.errors import KbootError, SourceError
from kboot.facts.asked_types import AllReduce, DiagTest
from kboot.facts.basic_types import Gap
from kboot.facts.diagnostics import DCGM, nccl_command, parse_dcgm, parse_nccl
from kboot.facts.doctor_types import AskedFacts
from kboot.facts.types import NodeFacts
from kboot.host.probes import at_most
from kboot.inquiry import Inquiry, free_gpus
from kboot.profile.types import FetchAsk, Profile
from kboot.values import dataclass

_T = TypeVar("_T")
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """How long each may take; 0 = it is not asked. reach_s: all sources together. dcgm_s, nccl_s: each program."""

    reach_s: float = 0.0
    dcgm_s: float = 0.0
    nccl_s: float = 0.0


REACHES: Mapping[Mode, Reach] = {
    "quick": Reach(),
    "full": Reach(reach_s=7.0),
    "bake": Reach(),
    "deep": Reach(reach_s=20.0, dcgm_s=300.0, nccl_s=120.0),
}


def reach_out(
    inquiry: Inquiry,
    facts: NodeFacts,
    profile: Profile | None,
    checkpoint: CheckpointFacts | None,
    token_file: str,
    reach: Reach,
) -> NodeFacts:
    """Return the facts with the answers. Uses the network where `reach` says so, and the GPUs that nobody works on."""
    asked = facts.asked
    if profile is not None and reach.reach_s and inquiry.host.live:
        asked = _sources(inquiry, asked, profile, checkpoint.listing if checkpoint else None, token_file, reach.reach_s)
    asked = replace(asked, diagnostics=_dcgm(inquiry, facts, reach.dcgm_s))
    asked = replace(asked, allreduce=_allreduce(inquiry, facts, reach.nccl_s))
    known = {gap.fact for gap in facts.gaps}
    return replace(facts, asked=asked, gaps=(*facts.gaps, *(gap for gap in inquiry.gaps if gap.fact not in known)))


def _sources(
    inquiry: Inquiry, asked: AskedFacts, profile: Profile, listing: Listing | None, token_file: str, timeout_s: float
) -> AskedFacts:
    env = inquiry.host.environ()
    if inquiry.wants("net.source_reach", "net.ratelimit"):
        answers = inquiry.ask(
            "sources",
            "the checkpoint's sources",
            lambda: ask_sources(profile, listing, env, token_file, timeout_s),
            timeout_s + _GRACE_S,
        )
        asked = replace(asked, sources=answers)
    silent = any(answer.code for answer in asked.sources or () if answer.name.startswith("hub "))
    if inquiry.wants("net.ratelimit") and not silent:
        limit = inquiry.ask(
            "rate_limit", "the Hub's API", lambda: ask_rate_limit(profile, env, token_file), timeout_s / 2
        )
        asked = replace(asked, rate_limit=limit)
    return asked


def ask_sources(
    profile: Profile, listing: Listing | None, env: Mapping[str, str], token_file: str, timeout_s: float
) -> tuple[SourceAnswer, ...]:
    """Return what each source of a profile answers. listing: None asks a source that may be trusted with one.

    Raises:
        KbootError: the sources are not valid.
    """
    from kboot.sources import list_checkpoint, open_sources
    from kboot.sources.reach import Sample, reach_all

    sources = open_sources(profile.checkpoint, _hurried(profile.fetch, timeout_s), env, token_file, refuse_to_wait)

    @cache
    def find() -> Sample:
        if listing is not None:
            repo, commit, files = listing.repo, listing.commit, listing.files
        else:
            found, _ = list_checkpoint(sources, profile.checkpoint.repo, profile.checkpoint.revision)
            repo, commit, files = found.repo, found.commit, found.files
        largest = max(files, key=lambda file: (file.size_bytes, file.path), default=None)
        if largest is None:
            raise SourceError("no-files", f"{repo} lists no files")
        return Sample(repo, commit, largest)

    return reach_all(sources, find, env, timeout_s)


def ask_rate_limit(profile: Profile, env: Mapping[str, str], token_file: str) -> RateLimit | None:
    """Return what the operator's Hub says of its limit; None without a Hub, or where it says nothing.

    Raises:
        KbootError: it does not answer.
    """
    from kboot.sources import open_sources
    from kboot.sources.hub import Hub
    from kboot.sources.reach import ask_limit

    for source in open_sources(profile.checkpoint, profile.fetch, env, token_file, refuse_to_wait):
        if isinstance(source, Hub) and source.trusted:
            return ask_limit(source, profile.checkpoint.repo)
    return None


def _hurried(fetch: FetchAsk, timeout_s: float) -> FetchAsk:
    """Return the profile's patience, cut to what doctor has."""
    return replace(
        fetch,
        connect_timeout_s=min(fetch.connect_timeout_s, max(1.0, timeout_s / 2)),
        stall_timeout_s=min(fetch.stall_timeout_s, max(1.0, timeout_s / 2)),
    )


def _dcgm(inquiry: Inquiry, facts: NodeFacts, timeout_s: float) -> tuple[DiagTest, ...] | None:
    if not timeout_s or not facts.gpu.gpus or not inquiry.wants("gpu.dcgm"):
        return None
    return _printed(inquiry, "diagnostics", DCGM, parse_dcgm, timeout_s)


def _allreduce(inquiry: Inquiry, facts: NodeFacts, timeout_s: float) -> AllReduce | None:
    """Run it only on GPUs that nobody works on: it takes their memory and all of their links."""
    gpus = len(facts.gpu.gpus)
    whole = gpus == len(free_gpus(facts)) and not any(g.mig for g in facts.gpu.gpus)
    if not timeout_s or gpus < 2 or not whole or not inquiry.wants("nvlink.allreduce"):
        return None
    return _printed(inquiry, "allreduce", nccl_command(gpus), lambda text: parse_nccl(text, gpus), timeout_s)


def _printed(
    inquiry: Inquiry, fact: str, argv: tuple[str, ...], parse: Callable[[str], _T], timeout_s: float
) -> _T | None:
    """Return what a program's output says; None without the program, and with a Gap where it says nothing."""
    try:
        return parse(inquiry.host.program(argv, at_most(timeout_s)).text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KbootError) as exc:
        inquiry.gaps.append(Gap(f"asked.{fact}", argv[0], str(exc)))
        return None
