"""`kboot doctor --fix`: what is changed, who agreed to it, and how is it undone?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import click

from kboot.apply.fixes import UNDO, Fixed, apply_fixes, beside_earlier
from kboot.checks.fixes import Fix, PutAside, WriteValue, does, undoes
from kboot.checks.words import count
from kboot.cli.options import Node, need_this_machine, say_beside
from kboot.doctor import DoctorReport
from kboot.errors import UsageError
from kboot.facts.locks import collect_locks
from kboot.host.clock import unix_s
from kboot.values import dataclass

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Fixing:
    """How it went. done: whether anything was changed. text, document: for a person and for --json."""

    done: bool
    text: str
    document: list[dict[str, Any]]


def fix_findings(report: DoctorReport, node: Node, *, yes: bool) -> Fixing:
    """Do what the findings offer, after showing it; asks on a terminal unless `yes`.

    Raises:
        UsageError: a recorded machine, or nobody is there to be asked.
        KbootError: the script that undoes it cannot be written; nothing was changed then.
    """
    need_this_machine(node.host, "kboot doctor --fix")
    offered = [(a.check.id, fix) for a in report.findings for fix in a.finding.fixes]
    root = node.host.uid() == 0
    wanted = [(check, beside_earlier(fix)) for check, fix in offered if root or not isinstance(fix, WriteValue)]
    needs_root = len(offered) - len(wanted)
    note = (
        f"{count(needs_root, 'setting')} can be changed by root only: `sudo kboot doctor --fix`" if needs_root else ""
    )
    if not wanted:
        return Fixing(False, note or "nothing that doctor may change by itself", [])
    for line in _shown(wanted):
        click.echo(line, err=True)
    if not yes and not _agreed(len(wanted)):
        return Fixing(False, "nothing was changed", [])
    try:
        fixed, script = apply_fixes(wanted, node.paths, lambda fix: _still_dead(fix, node))
    except KeyboardInterrupt:
        say_beside(f"`sh {node.paths.runtime / UNDO}` undoes what was changed until now")
        raise
    return Fixing(script is not None, _text(fixed, str(script) if script else "", note), [_json(f) for f in fixed])


def _agreed(number: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "nobody-to-ask", "--fix asks before it changes anything, and stdin is no terminal", hint="add --yes"
        )
    return click.confirm(f"do {'this' if number == 1 else f'these {number}'}?", err=True)


def _still_dead(fix: PutAside, node: Node) -> bool:
    """Return whether the lock's holder is gone to this moment: another may have taken it since."""
    return any(
        lock.path == fix.path and lock.state == "dead" for lock in collect_locks(node.host, node.paths, unix_s())
    )


def _shown(wanted: Sequence[tuple[str, Fix]]) -> Iterable[str]:
    for check, group in groupby(wanted, key=lambda pair: pair[0]):
        fixes = [fix for _, fix in group]
        yield f"{check}:"
        for fix in fixes[:_SHOWN]:
            yield f"  {does(fix)}"
            yield f"    undo: {undoes(fix)}"
        if len(fixes) > _SHOWN:
            yield f"  and {len(fixes) - _SHOWN} more like the last"


def _text(fixed: Sequence[Fixed], script: str, note: str) -> str:
    done = sum(f.status == "done" for f in fixed)
    same = sum(f.status == "unchanged" for f in fixed)
    lines = [f"{done} of {count(len(fixed), 'change')} made" + (f", {same} not needed any more" if same else "")]
    lines += [f"failed: {does(f.fix)}: {f.error.message}" for f in fixed if f.error is not None]
    if script:
        lines.append(f"settings hold until the next boot; `sh {script}` undoes all of it")
    return "\n".join([*lines, *([note] if note else [])])


def _json(fixed: Fixed) -> dict[str, Any]:
    return {
        "check": fixed.check,
        "does": does(fixed.fix),
        "undo": undoes(fixed.fix),
        "status": fixed.status,
        "error": None if fixed.error is None else fixed.error.to_json(),
    }
