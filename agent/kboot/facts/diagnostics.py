"""What do the vendor's diagnostic and NCCL's test print? Pure: text in, facts out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kboot.facts.asked_types import AllReduce, DiagTest

DCGM = ("dcgmi", "diag", "-r", "1", "-j")
NCCL = "all_reduce_perf"
NCCL_BYTES = 2 << 30
"""Large enough to fill the links; every GPU takes twice as much."""
_RANK_OF = {"fail": 3, "error": 3, "warn": 2, "pass": 1, "skip": 0, "not run": 0}
_COLUMNS = 13
_NUMBERS_AT = (7, 11)  # "busbw" out of place and in place
_WRONG_AT = (8, 12)


def nccl_command(gpus: int) -> tuple[str, ...]:
    """Return the command line of one all-reduce over so many GPUs of this node."""
    size = str(NCCL_BYTES)
    return (NCCL, "-b", size, "-e", size, "-g", str(gpus), "-n", "10", "-w", "3")


def parse_dcgm(text: str) -> tuple[DiagTest, ...]:
    """Return the tests of `dcgmi diag -j`, as versions 3 and 4 write them, each with the worst of its results.

    Raises:
        ValueError: it is no such document; the message is its first line.
    """
    try:
        document = json.loads(text[text.index("{") :])
    except (ValueError, RecursionError):
        first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing was printed")
        raise ValueError(first[:200]) from None
    tests = tuple(_test(test) for category in _categories(document) for test in _dicts(category.get("tests")))
    if not tests:
        raise ValueError("its answer has no test_categories with tests")
    return tests


def _categories(document: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the categories, which versions keep below one key of another name each."""
    for value in document.values() if isinstance(document, dict) else ():
        if isinstance(value, dict):
            yield from _dicts(value.get("test_categories"))


def _dicts(value: Any) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _test(test: Mapping[str, Any]) -> DiagTest:
    results = list(_dicts(test.get("results")))
    worst = max(results, key=lambda r: _RANK_OF.get(str(r.get("status", "")).lower(), 2), default={})
    return DiagTest(str(test.get("name", "")), str(worst.get("status", "Not Run")), _about(worst))


def _about(result: Mapping[str, Any]) -> str:
    """Return the first warning of a result with the GPU it is about: a text, or an object with one."""
    warnings = result.get("warnings", result.get("info", ""))
    first = warnings[0] if isinstance(warnings, list) and warnings else warnings
    said = str(first.get("warning", "")) if isinstance(first, dict) else str(first) if isinstance(first, str) else ""
    where = result.get("entity_id", result.get("gpu_ids", result.get("gpu_id")))
    return f"GPU {where}: {said}" if said and where not in (None, "") else said


def parse_nccl(text: str, gpus: int) -> AllReduce:
    """Return the last row of nccl-tests, the better of out of place and in place.

    Raises:
        ValueError: there is none; the message is the last line that was printed.
    """
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    for words in reversed(rows):
        if len(words) >= _COLUMNS and words[0].isdecimal():
            numbers = [float(words[at]) for at in _NUMBERS_AT]
            wrong = sum(int(words[at]) for at in _WRONG_AT if words[at].isdecimal())
            return AllReduce(gpus, int(words[0]), max(numbers), wrong)
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "nothing was printed")
    raise ValueError(last[:200])
