"""Are the types of facts whole for those who make values of them?"""

from __future__ import annotations

import pkgutil
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import get_type_hints

import pytest

import kboot.facts

MODULES = sorted(m.name for m in pkgutil.iter_modules(kboot.facts.__path__) if m.name.endswith("types"))
BEYOND_A_BOOT = "doctor_types"


@pytest.mark.parametrize("module", sorted({*MODULES} - {BEYOND_A_BOOT}))
def test_every_type_of_a_field_is_there_when_it_is_asked_for(module: str) -> None:
    """Facts are made up by their types in tests: one that is imported for type checkers alone would be left out.

    tests/checks/test_contract.py says itself where those of doctor's own facts are.
    """
    loaded = import_module(f"kboot.facts.{module}")
    made = [value for value in vars(loaded).values() if isinstance(value, type) and is_dataclass(value)]
    made = [kind for kind in made if kind.__module__ == loaded.__name__]

    assert made
    for kind in made:
        assert [f.name for f in fields(kind)] == list(get_type_hints(kind))
