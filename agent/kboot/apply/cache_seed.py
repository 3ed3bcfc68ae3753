"""Fills a new key's folder from the profile's seed, so that a replaced node does not tune and compile again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kboot.apply.cache_import import Imported, Readable, import_cache
from kboot.errors import ActionFailed, KbootError, SourceError
from kboot.host.clock import sleep_s
from kboot.host.stream import open_to_read
from kboot.plan.cache import misfits
from kboot.sources.download import download
from kboot.sources.s3_object import open_object
from kboot.sources.secrets import without_query
from kboot.values import dataclass

if TYPE_CHECKING:
    from kboot.events import Emit
    from kboot.plan.types import PrepareCache

S3_SCHEME = "s3://"

_TRIES = 2
_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Seeding:
    """What taking in a seed needs. env: proxies, certificates and credentials are in it. stop: ends it early."""

    env: Mapping[str, str]
    emit: Emit
    stop: threading.Event


def seed_cache(action: PrepareCache, seeding: Seeding) -> Imported | KbootError:
    """Take in the seed; what keeps it from being used is returned: the engine then compiles what it needs."""
    folder = Path(action.path)
    for left in reversed(range(_TRIES)):
        try:
            with open_seed(action.seed, seeding.env) as stream:
                return import_cache(
                    _Stopped(stream, seeding.stop),
                    folder.parent,
                    lambda found: misfits(found.factors, action.key.factors),
                )
        except SourceError as exc:
            if not (exc.retry and left):
                return exc
            sleep_s(_PAUSE_S)
        except KbootError as exc:
            return exc
    raise AssertionError("unreachable: the last try returns")


def seed_name(seed: str) -> str:
    """Return the seed for messages: a signed link's query is a secret."""
    return without_query(seed) if "://" in seed else seed


@dataclass(frozen=True, slots=True)
class _Stopped:
    """A stream that ends with an error when kboot is told to stop."""

    stream: Readable
    stop: threading.Event

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""
        if self.stop.is_set():
            raise ActionFailed("interrupted", "kboot was stopped while it took in the seed")
        return self.stream.read(size)


@contextmanager
def open_seed(seed: str, env: Mapping[str, str]) -> Iterator[Readable]:
    """Yield the archive's bytes. env: proxies, certificates and credentials are read from here.

    Raises:
        KbootError: it is not there, or cannot be reached.
    """
    if seed.startswith(S3_SCHEME):
        with open_object(seed, env) as stream:
            yield stream
    elif "://" in seed:
        with download(seed, env) as stream:
            yield stream
    else:
        with open_to_read(Path(seed)) as file:
            yield file
