"""What dcgmi and nccl-tests print, as facts."""

from __future__ import annotations

import json

import pytest

from kboot.facts.asked_types import AllReduce, DiagTest
from kboot.facts.diagnostics import DCGM, nccl_command, parse_dcgm, parse_nccl

DCGM_3 = {
    "DCGM GPU Diagnostic": {
        "version": "3.3.9",
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {"name": "Denylist", "results": [{"status": "Pass"}]},
                    {
                        "name": "Persistence Mode",
                        "results": [{"status": "Warn", "warnings": "Persistence mode is off"}],
                    },
                ],
            },
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "GPU Memory",
                        "results": [
                            {"gpu_ids": "0", "status": "Pass"},
                            {"gpu_ids": "3", "status": "Fail", "info": "ECC"},
                        ],
                    }
                ],
            },
        ],
    }
}
DCGM_4 = {
    "DCGM Diagnostic": {
        "runtime_errors": [],
        "test_categories": [
            {
                "category": "Deployment",
                "tests": [
                    {
                        "name": "software",
                        "results": [
                            {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
                            {
                                "entity_group": "GPU",
                                "entity_id": 1,
                                "status": "Fail",
                                "warnings": [{"warning": "Page retirement pending", "error_id": 20}],
                            },
                        ],
                        "test_summary": {"status": "Fail"},
                    },
                    {"name": "pcie", "results": [{"entity_id": 0, "status": "Skip"}]},
                ],
            }
        ],
    }
}
NCCL = """\
# nThread 1 nGpus 8 minBytes 2147483648 maxBytes 2147483648 step: 1048576(bytes) warmup iters: 3 iters: 10
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  2147483648     536870912     float     sum      -1   7878.3  272.58  477.02      0   7851.9  273.50  478.62      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 477.82
#
"""


def test_version_3_of_dcgm_is_read() -> None:
    """Each test has the worst of its results, with the GPU it is about; what stands before the document is left."""
    assert (
        DiagTest("Denylist", "Pass"),
        DiagTest("Persistence Mode", "Warn", "Persistence mode is off"),
        DiagTest("GPU Memory", "Fail", "GPU 3: ECC"),
    ) == parse_dcgm("Successfully ran diagnostic for group.\n" + json.dumps(DCGM_3))


def test_version_4_of_dcgm_is_read() -> None:
    """Its warnings are objects, and its GPUs are entities."""
    assert (
        DiagTest("software", "Fail", "GPU 1: Page retirement pending"),
        DiagTest("pcie", "Skip"),
    ) == parse_dcgm(json.dumps(DCGM_4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Error: unable to establish a connection to the specified host: localhost\n", "unable to establish"),
        ("", "nothing was printed"),
        ("{}", "no test_categories"),
        ('{"a": {"test_categories": [{"tests": 3}, 4]}}', "no test_categories"),
        ("[" * 100_000 + "{", "\\["),
    ],
)
def test_an_answer_that_is_no_diagnostic_is_an_error_in_its_own_words(text: str, message: str) -> None:
    """What the program said instead is the reason."""
    with pytest.raises(ValueError, match=message):
        parse_dcgm(text)


def test_the_bus_rate_of_nccl_tests_is_read() -> None:
    """The better of both halves of the row, in 10^9 bytes a second."""
    assert AllReduce(8, 2147483648, 478.62, 0) == parse_nccl(NCCL, 8)


def test_wrong_values_are_counted() -> None:
    """Both halves count."""
    assert 3 == parse_nccl(NCCL.replace("477.02      0", "477.02      3"), 8).wrong


def test_a_run_that_ended_early_is_an_error_with_its_last_line() -> None:
    """nccl-tests prints what failed and no row."""
    with pytest.raises(ValueError, match="unhandled system error"):
        parse_nccl("# nThread 1\nnode7: Test NCCL failure all_reduce.cu:44 'unhandled system error'\n", 8)


def test_the_commands_are_short_ones() -> None:
    """Level 1 of the diagnostic, and one size of the all-reduce over all GPUs."""
    assert ("dcgmi", "diag", "-r", "1", "-j") == DCGM
    assert ("all_reduce_perf", "-b", "2147483648", "-e", "2147483648", "-g", "8") == nccl_command(8)[:7]
