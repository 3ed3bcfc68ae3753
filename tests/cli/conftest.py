"""Makes this folder's `cli_run` and the samples of tests/report importable; gives tests a command line of their own."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "report")]

from cli_run import Kboot  # noqa: E402


@pytest.fixture
def kboot(tmp_path: Path) -> Kboot:
    """The command line, in folders of this test."""
    return Kboot(tmp_path)


@pytest.fixture
def quick_script() -> Callable[[str], str]:
    """Return a program that runs one click command with this body through kboot's edge."""

    def make(body: str) -> str:
        return (
            "import click, sys, time\n"
            "from kboot.cli.edge import run\n"
            "from kboot.errors import *\n"
            "@click.command(context_settings={'ignore_unknown_options': True, 'allow_extra_args': True})\n"
            f"def command():\n    {body}\n"
            "run(command)\n"
        )

    return make
