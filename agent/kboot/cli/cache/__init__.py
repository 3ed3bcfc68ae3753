"""`kboot cache`: which kernel caches are kept on this node, why did one miss, and how do they travel?"""

from __future__ import annotations

import click

from kboot.cli.cache.archive import export_command, import_command
from kboot.cli.cache.explain import explain_command
from kboot.cli.cache.gc import gc_command
from kboot.cli.cache.status import status_command


@click.group("cache")
def command() -> None:
    """Look after the kernel-tuning and JIT caches of this node."""


for _command in (status_command, explain_command, export_command, import_command, gc_command):
    command.add_command(_command)
