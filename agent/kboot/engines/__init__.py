"""Adapters of serving engines: how each is started, known to serve, and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.engines.command import Command
from kboot.engines.demo import Demo
from kboot.engines.sglang import Sglang
from kboot.engines.tokenspeed import Tokenspeed
from kboot.engines.vllm import Vllm

if TYPE_CHECKING:
    from kboot.engines.types import Engine
    from kboot.profile.types import EngineName

ENGINES: tuple[Engine, ...] = (Vllm(), Sglang(), Tokenspeed(), Command(), Demo())


def engine(name: EngineName) -> Engine:
    """Return the adapter of that name."""
    return next(e for e in ENGINES if e.name == name)
