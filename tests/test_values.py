"""Is kboot's dataclass the standard one in all that a program sees?"""

from __future__ import annotations

import ast
import dataclasses
import pickle
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pytest

import kboot
from kboot.values import dataclass


@dataclass(frozen=True, slots=True)
class Disk:
    path: str
    free_bytes: int = 0
    token: str = field(default="", repr=False)
    seen_s: float = field(default=0.0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardDisk:
    path: str
    free_bytes: int = 0
    token: str = field(default="", repr=False)
    seen_s: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached(Disk):
    hits: int


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


@dataclass(frozen=True, slots=True)
class Own:
    name: str

    def __repr__(self) -> str:
        return "mine"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own)

    def __hash__(self) -> int:
        return 7


@dataclass(slots=True)
class Count:
    number: int


ARGUMENTS: list[dict[str, Any]] = [
    {"path": "/a"},
    {"path": "/a", "seen_s": 9.0},
    {"path": "/a", "free_bytes": 3, "token": "hf_secret"},
    {"path": "/a", "free_bytes": 3, "token": "hf_other"},
    {"path": "/b", "free_bytes": 3},
]


@pytest.mark.parametrize("one", ARGUMENTS)
@pytest.mark.parametrize("other", ARGUMENTS)
def test_values_are_equal_where_the_standard_ones_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    equal = StandardDisk(**one) == StandardDisk(**other)

    assert equal == (Disk(**one) == Disk(**other))
    assert equal == (hash(Disk(**one)) == hash(Disk(**other)))
    assert equal == (len({Disk(**one), Disk(**other)}) == 1)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_value_is_shown_as_the_standard_one_is(arguments: dict[str, Any]) -> None:
    assert repr(StandardDisk(**arguments)).removeprefix("Standard") == repr(Disk(**arguments))


def test_a_secret_is_not_shown() -> None:
    assert "hf_secret" not in repr(Disk("/a", token="hf_secret"))


def test_values_of_different_classes_are_different() -> None:
    assert Disk("/a") != Cached(path="/a", hits=0)
    assert Disk("/a") != StandardDisk("/a")
    assert Disk("/a") != ("/a", 0, "")


def test_a_subclass_compares_and_shows_what_it_has_of_its_own() -> None:
    assert Cached(path="/a", hits=1) != Cached(path="/a", hits=2)
    assert "Cached(path='/a', free_bytes=0, seen_s=0.0, hits=1)" == repr(Cached(path="/a", hits=1))


def test_a_class_without_fields_has_one_value() -> None:
    assert {Nothing()} == {Nothing(), Nothing()}
    assert "Nothing()" == repr(Nothing())


def test_methods_of_a_class_stay() -> None:
    assert ("mine", True, 7) == (repr(Own("a")), Own("a") == Own("b"), hash(Own("c")))


def test_all_else_is_the_standard_library_s() -> None:
    disk = Disk("/a", 3)

    with pytest.raises(dataclasses.FrozenInstanceError):
        disk.path = "/b"  # type: ignore[misc]
    assert Disk("/a", 4) == replace(disk, free_bytes=4)
    assert disk == pickle.loads(pickle.dumps(disk))
    assert {"path": "/a", "free_bytes": 3, "token": "", "seen_s": 0.0} == dataclasses.asdict(disk)
    assert ("path", "free_bytes", "token", "seen_s") == Disk.__match_args__
    assert not hasattr(disk, "__dict__")


def test_what_is_not_frozen_is_the_standard_one() -> None:
    count = Count(1)
    count.number = 2

    assert Count(2) == count
    with pytest.raises(TypeError, match="unhashable"):
        hash(count)


ALONE = ("values.py", "keeper.py")
"""The one that makes them, and one that runs as a file and finds no kboot to import."""


def test_every_frozen_class_of_the_package_is_made_so() -> None:
    """One that is not would cost twice as much at each start."""
    for path in sorted(Path(kboot.__file__).parent.rglob("*.py")):
        if "demo" in path.parts or path.name in ALONE:
            continue
        tree = ast.parse(path.read_text())
        standard = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "dataclasses"]
        if any(alias.name == "dataclass" for node in standard for alias in node.names):
            assert "frozen=True" not in path.read_text(), path
