"""`kboot fetch` over https, from a Hub and the store it redirects to, through the real command line."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from cli_run import Kboot

from fakes.checkpoints import framed, make
from fakes.hub import TLS, FakeHub

SHARD = "model-00001-of-00003.safetensors"
DATA = 3_000_000
HEADER = f'{{"layer.0.weight":{{"dtype":"U8","shape":[{DATA}],"data_offsets":[0,{DATA}]}}}}'.encode()
FILES = {**make(), SHARD: framed(HEADER, Random(5).randbytes(DATA))}
TOKEN = "hf_endtoendendtoend"
PROFILE = """
schema = 1
[checkpoint]
repo = "org/m"
[[layout]]
name = "none"
gpu = "none"
gpus_per_node = 0
engine = "demo"
"""


@pytest.fixture
def node(kboot: Kboot) -> Kboot:
    """A node with a profile of its own."""
    profiles = kboot.folder / "etc" / "profiles"
    profiles.mkdir()
    (profiles / "tls.toml").write_text(PROFILE)
    return kboot


def blobs(node: Kboot) -> dict[str, bytes]:
    """What the serving path leads to."""
    model = node.folder / "state/models/tls"
    return {str(p.relative_to(model)): p.read_bytes() for p in Path(model).rglob("*") if p.is_file()}


def test_everything_comes_over_tls_and_the_token_stays_with_the_hub(node: Kboot) -> None:
    """The listing from the Hub, bytes from the redirect's target, both by the root in SSL_CERT_FILE."""
    with FakeHub(FILES, tls=True, cdn=True, token=TOKEN) as hub:
        env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "SSL_CERT_FILE": str(TLS / "ca.pem")}
        ran = node("fetch", "--profile", "tls", "--json", env=env)
        again = node("fetch", "--profile", "tls", "--offline", env=env)
        linked = [r for r in hub.requests if r.origin == "cdn"]

    assert (0, "done") == (ran.status, ran.doc["status"]), ran.err
    assert FILES == blobs(node)
    assert 3 == len(linked)
    assert all("authorization" not in r.headers for r in linked)
    assert TOKEN not in ran.out + ran.err
    assert 0 == again.status


def test_a_certificate_of_nobody_known_is_refused_before_any_byte(node: Kboot) -> None:
    """Without its root: status 17, the host and what to do; verification is never turned off."""
    with FakeHub(FILES, tls=True) as hub:
        ran = node("fetch", "--profile", "tls", env={"HF_ENDPOINT": hub.url})

    assert 17 == ran.status
    assert "error: certificate-refused" in ran.err
    assert "SSL_CERT_FILE" in ran.err
    assert [] == hub.requests
