"""What has a service written since its last start? Asked of the journal, which keeps an engine's log under systemd."""

from __future__ import annotations

import re

from kboot.host.clock import run_unix_s
from kboot.host.processes import run

Line = tuple[float, str]
"""When it was written, by the clock of run_unix_s, and what."""

_TIMEOUT_S = 20.0
_MOST_LINES = 20_000
# "[  548.992820] kboot[71]: message"; a line of another form is journalctl's own ("-- Boot … --").
_LINE = re.compile(r"\[ *(?P<monotonic_s>\d+\.\d+)\] [^\[\]]*\[\d+\]: (?P<text>.*)")


def service_log(unit: str) -> tuple[Line, ...]:
    """Return the lines of a unit's present start, oldest first, cut at 1 MiB; none where there is no journal."""
    try:
        shown = run(("systemctl", "show", "--property=InvocationID", "--value", unit), _TIMEOUT_S)
        start = shown.stdout.decode(errors="replace").strip()
        if not start:
            return ()
        words = ("journalctl", "--quiet", "--no-pager", "--no-hostname", "--output=short-monotonic", "--all")
        said = run((*words, f"--lines={_MOST_LINES}", f"_SYSTEMD_INVOCATION_ID={start}"), _TIMEOUT_S)
    except OSError:
        return ()
    return parse(said.stdout.decode(errors="replace"))


def parse(text: str) -> tuple[Line, ...]:
    """Return the lines of `journalctl --output=short-monotonic --no-hostname`, of this start of the kernel."""
    found = (_LINE.match(line) for line in text.splitlines())
    return tuple((run_unix_s(float(line["monotonic_s"])), line["text"]) for line in found if line)
