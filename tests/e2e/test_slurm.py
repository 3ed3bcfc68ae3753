"""The examples for Slurm, in a real one of two nodes: the prolog fetches, and a job starts the nodes together."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fakes.fetching import listing_of
from fakes.hub import COMMIT, REPO, FakeHub
from fakes.slurm import Slurm, slurm, why_not

_WHY_NOT = why_not()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT),
]

EXAMPLES = Path(__file__).parents[2] / "examples/slurm"
FILES = {"model.safetensors": b"\2\0\0\0\0\0\0\0{}", "config.json": b"{}"}
PROFILE = f"""\
schema = 1
checkpoint.repo = "{REPO}"
checkpoint.revision = "{COMMIT}"
cpu.governor = ""
[[layout]]
name = "group"
gpu = "none"
gpus_per_node = 0
nodes = 2
engine = "command"
command = ["/bin/sh", "-c", "echo rank {{node_rank}} of {{head}}; exec sleep 600"]
"""


def prepare(made: Slurm, hub: str) -> None:
    """Give every node what an operator would: kboot, a profile, the key, and which partition needs which profile."""
    for host in range(1, made.nodes + 1):
        program = made.place(host, "/opt/kboot/env/bin/kboot")
        program.write_text(f'#!/bin/sh\nexport HF_ENDPOINT={hub}\nexec {sys.executable} -m kboot "$@"\n')
        program.chmod(0o755)
        made.place(host, "/etc/kboot/profiles/kimi-k3.toml").write_text(PROFILE)
        made.place(host, "/etc/kboot/profile-of-partition/serve").write_text("kimi-k3\n")
        key = made.place(host, "/etc/kboot/fleet.key")
        key.write_text("the key of this fleet, 32 or more")
        key.chmod(0o600)


def ranks(said: str) -> set[tuple[str, str]]:
    """Return what engines said, each with the number of its task."""
    return set(re.findall(r'^(\d): \{.*"line": "(rank \d of \w+)"', said, re.MULTILINE))


def test_the_examples_work_in_a_job(tmp_path: Path) -> None:
    """The prolog has the checkpoint on both nodes before the job; its kboots are ranks 0 and 1 of one start."""
    with (
        slurm(tmp_path, 2, "serve") as made,
        made.cluster.on(0, lambda: FakeHub(FILES, address=made.cluster.address(0))) as hub,
    ):
        prepare(made, hub.url)
        made.start(EXAMPLES / "prolog.sh")
        job = made.ask("sbatch", "--parsable", "--nodes=2", "--output=job.out", str(EXAMPLES / "serve.sbatch"))
        out = tmp_path / "job.out"
        made.until(lambda: out.exists() and len(ranks(out.read_text())) == 2, "no engine on each node")
        made.ask("scancel", job)
        made.until(lambda: made.ask("squeue", "-h") == "", "the job does not end")

        assert {("0", "rank 0 of kbs1"), ("1", "rank 1 of kbs1")} == ranks(out.read_text())
        for host in (1, 2):
            blobs = made.place(host, "/var/lib/kboot/hub/models--org--m/blobs/x").parent
            assert {file.blob_id for file in listing_of(FILES).files} <= {path.name for path in blobs.iterdir()}
        assert "2 idle" == made.ask("sinfo", "-h", "-o", "%D %t")
