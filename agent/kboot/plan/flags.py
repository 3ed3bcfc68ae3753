"""Would the installed engine refuse the command line it is about to get?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.engines.flags import known_versions, nearest_version, unknown_words
from kboot.errors import ProfileError

if TYPE_CHECKING:
    from kboot.engines.types import Launch
    from kboot.facts.types import EngineFacts
    from kboot.profile.types import LayoutAsk


def flag_warnings(engine: EngineFacts, layout: LayoutAsk, launch: Launch) -> tuple[str, ...]:
    """Return what should be known about flags and parsers before the engine is started.

    An engine reads its command line minutes before it loads, but after everything was fetched; an unknown parser name
    ends it later still.

    Raises:
        ProfileError: this very version is known not to know a flag or parser, so it would end at once.
    """
    if not known_versions(layout.engine):
        return ()
    known, exact = nearest_version(layout.engine, engine.version)
    if known is None:
        versions = ", ".join(known_versions(layout.engine))
        return (f"flags of {layout.engine} {engine.version} are not checked: kboot knows those of {versions}",)
    args = (*(flag.name for flag in launch.flags), *layout.args)
    unknown = unknown_words(layout.engine, known, args)
    if not unknown:
        return ()
    texts = tuple(word.text for word in unknown)
    if not exact:
        return tuple(f"{layout.engine} {known} does not know {text}; {engine.version} is installed" for text in texts)
    raise ProfileError(
        "engine-argument-unknown",
        f"{layout.engine} {known} would refuse layout {layout.name}: it does not know {texts[0]}",
        where=texts[1:],
        hint="correct the layout's args, or install a version that knows them",
    )
