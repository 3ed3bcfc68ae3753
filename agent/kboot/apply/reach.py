"""Whom may a run ask for bytes?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.errors import SourceError
from kboot.events import Emit, Notice
from kboot.quantities import show_seconds
from kboot.sources import open_sources

if TYPE_CHECKING:
    from kboot.host.types import Host
    from kboot.profile.types import Profile
    from kboot.sources.patience import OnWait
    from kboot.sources.types import Source
    from kboot.store.store import Store


def sources_of(profile: Profile, host: Host, token_file: str, emit: Emit, store: Store) -> tuple[Source, ...]:
    """Return the sources; none where the token cannot be had that a node with everything in place does not need.

    Such a node asks once what a branch stands for now, and does not ask again where nobody answers.
    """

    def needed() -> bool:
        return not _is_whole(profile, store)

    env, on_wait = host.environ(), _on_wait(emit)
    try:
        return open_sources(profile.checkpoint, profile.fetch, env, token_file, on_wait, needed)
    except SourceError as exc:
        if exc.code not in ("token-file-not-readable", "token-not-valid") or needed():
            raise
        emit(Notice("source.no_token", f"{exc.message}; the commit is whole on this disk, so no source is asked"))
        return ()


def _is_whole(profile: Profile, store: Store) -> bool:
    listing = store.known_listing(profile.checkpoint.repo, profile.checkpoint.revision)
    return listing is not None and all(f.is_readable for f in store.local(listing))


def _on_wait(emit: Emit) -> OnWait:
    return lambda why, wait_s: emit(Notice("source.waiting", f"{why}; asking again in {show_seconds(wait_s)}"))


def refuse_to_wait(why: str, _wait_s: float) -> None:
    """Take the place of a notice that a source is waited for, where nobody waits.

    Raises:
        SourceError: always.
    """
    raise SourceError("source-not-reachable", why)
