"""Names that must not leave with a ticket."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report_samples import node_facts

from kboot.facts.doctor_types import KeptFacts, UpkeepFacts
from kboot.facts.kept_types import LockFacts
from kboot.facts.types import Mount
from kboot.facts.upkeep_types import EnvSetting
from kboot.report.private_names import private_names

FACTS = node_facts()


def test_names_of_machines_are_found_wherever_they_stand() -> None:
    """Its own, of those that hold locks, serve mounts, mirror a Hub or stand between."""
    facts = replace(
        FACTS,
        os=replace(FACTS.os, hostname="gpu-17.corp.example"),
        kept=KeptFacts(locks=(LockFacts("/s/a.lock", "file", "elsewhere", "pid 7 on gpu-18.corp.example", 1.0),)),
        mounts=(Mount("state", "/m", "/m", "nfs4", "filer.corp.example:/vol/models", False, 1, 1, 1),),
        upkeep=UpkeepFacts(
            environ=(
                EnvSetting("HF_ENDPOINT", "http://mirror.corp.example:8080/hf", "/etc/kboot/env"),
                EnvSetting("HTTPS_PROXY", "http://***@proxy.corp.example:3128", "/etc/kboot/env"),
                EnvSetting("no_proxy", "localhost,127.0.0.1,.intra.example", "/etc/kboot/env"),
            )
        ),
    )

    assert (
        "filer.corp.example",
        "gpu-17.corp.example",
        "gpu-18.corp.example",
        "intra.example",
        "mirror.corp.example",
        "proxy.corp.example",
    ) == private_names(facts)


@pytest.mark.parametrize("value", ["https://huggingface.co", "http://127.0.0.1:9", "http://localhost:8000", "1", ""])
def test_what_everybody_knows_stays(value: str) -> None:
    """It is evidence and names nobody."""
    setting = EnvSetting("HF_ENDPOINT", value, "this environment")
    facts = replace(FACTS, os=replace(FACTS.os, hostname=""), mounts=(), upkeep=UpkeepFacts(environ=(setting,)))

    assert () == private_names(facts)
