"""How does this process become the engine that was prepared? Check the record, take its share, exec."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import click

from kboot.apply.handoff import read_handoff, require_valid
from kboot.apply.leftovers import require_none_left
from kboot.handoff import HandoffRecord
from kboot.host.myself import become, raise_nofile, set_memory_policy
from kboot.host.notify import VARIABLES as OF_THE_SERVICE_MANAGER

if TYPE_CHECKING:
    from kboot.host.paths import Paths
    from kboot.host.types import Host


def become_engine(host: Host, paths: Paths) -> NoReturn:
    """Replace this process by the engine of this node's hand-off record.

    Raises:
        ActionFailed: there is no record, it is not this node's, something has changed since, an engine of an earlier
            start is not gone, or the start failed.
    """
    record = read_handoff(paths)
    require_valid(record, host)
    require_none_left(record, host)
    raise_nofile()
    if record.memory_node is not None and (refused := set_memory_policy(record.memory_node)):
        click.echo(f"kboot: memory is not bound to its node: {refused}", err=True)
    click.echo(_words(record), err=True)
    # An engine gives no signs of life: with these it would be ended for that, or speak in kboot's name.
    become(record.argv, dict(record.env), record.cpus, (*record.unset, *OF_THE_SERVICE_MANAGER))


def _words(record: HandoffRecord) -> str:
    return f"kboot: {record.repo}@{record.commit[:12]}, {record.verify_claim}; becoming {record.engine}"
