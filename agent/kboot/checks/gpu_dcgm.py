"""What does the vendor's own diagnostic say of the GPUs?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Report the tests that failed or warned; without the program there is nothing to report."""
    tests = facts.asked.diagnostics
    if tests is None:
        if unread(facts, "asked.diagnostics"):
            return Finding("unknown", f"dcgmi did not answer ({gap_reason(facts, 'asked.diagnostics')})")
        return Finding("skip", "dcgmi is not installed, or there is no GPU")
    bad = [test for test in tests if test.status.lower() in ("fail", "error", "warn")]
    passed = sum(test.status.lower() == "pass" for test in tests)
    if not bad:
        return Finding("ok", f"{passed} of {count(len(tests), 'test')} passed, the others were not run")
    failed = any(test.status.lower() != "warn" for test in bad)
    return Finding(
        "fail" if failed else "warn",
        some((f"{test.name}: {test.about or test.status}" for test in bad), 3),
        wanted="every test passed or not run",
        why="the vendor does not call this GPU sound: it may give wrong numbers, or stop under load",
        hint="`dcgmi diag -r 3` with no engine on the GPUs; drain the node if it fails again",
    )


CHECK = Check(
    id="gpu.dcgm",
    asks="What does the vendor's own diagnostic say of the GPUs?",
    source="dcgmi diag -r 1 -j",
    modes=frozenset({"deep"}),
    run=run,
)
