"""What does a source of bytes answer when it is asked how it is? Types only: who asks and who judges share them."""

from __future__ import annotations

from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """One source of the checkpoint, asked for the beginning of a real file.

    code, message, hint: of what went wrong; "" where bytes came. size_bytes, seconds: of what came, and how long it
    took from the first look-up of its name. families: "IPv4", "IPv6" → whether it can be connected to so; () where the
    source has no host. wait_s: how long it wants to be left alone (429); None where it does not say.
    """

    name: str
    code: str = ""
    message: str = ""
    hint: str = ""
    size_bytes: int = 0
    seconds: float = 0.0
    families: tuple[tuple[str, bool], ...] = ()
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimit:
    """What a Hub says of its limits: so many requests are left of so many, until so many seconds from now."""

    source: str
    left: int
    most: int | None
    reset_s: int | None
