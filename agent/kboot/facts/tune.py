"""What are the kernel settings a profile asks for, now?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kboot.facts.reader import Reader
from kboot.facts.types import TuneFacts

if TYPE_CHECKING:
    from kboot.facts.basic_types import Gap
    from kboot.host.types import Host


def collect_tune(host: Host, paths: tuple[str, ...]) -> tuple[TuneFacts, tuple[Gap, ...]]:
    """Read the settings; one that this kernel does not have is left out, one that may not be read is a Gap."""
    reader = Reader(host)
    values: dict[str, str] = {}
    for path in sorted(set(paths)):
        if host.exists(path):
            text = reader.text(f"tune.{path}", path)
            if text is not None:
                values[path] = setting_value(text)
    return TuneFacts(values), reader.gaps


def setting_value(text: str) -> str:
    """Return the value a setting has: the bracketed word where the kernel lists the choices, words apart by one space.

    "always [madvise] never" is "madvise"; "4096\\t131072\\t6291456" is "4096 131072 6291456".
    """
    words = text.split()
    chosen = [word for word in words if re.fullmatch(r"\[.+\]", word)]
    return chosen[0][1:-1] if len(chosen) == 1 and len(words) > 1 else " ".join(words)
