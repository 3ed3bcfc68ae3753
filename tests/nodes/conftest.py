"""Gives these tests the machines of tests/nodes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nodes.plugin import machine, machine_facts  # noqa: F401
