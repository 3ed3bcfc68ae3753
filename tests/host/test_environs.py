"""Which processes were started with a text in their environment?"""

import subprocess
import sys

from kboot.host.environs import pids_with


def test_a_process_is_found_by_what_it_was_started_with() -> None:
    """This process is left out, and one that has ended is not found."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"X": "kboot-test-environs-7f3a"},
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdin is not None
        child.stdout.readline()
        found = pids_with("kboot-test-environs-7f3a")
        child.stdin.close()

    assert (child.pid,) == found
    assert () == pids_with("kboot-test-environs-7f3a")
