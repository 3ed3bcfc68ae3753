"""engine = "command" with a server of somebody else: `transformers serve` on a tiny random model, CPU only.

Needs a Python with `transformers[serving]` and torch, 1 GB that nothing else here wants: its path is taken from
KBOOT_TEST_TRANSFORMERS (python -m venv V && V/bin/pip install torch "transformers[serving]").
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from cli_run import Kboot

from fakes.hub import REPO, FakeHub

PYTHON = os.environ.get("KBOOT_TEST_TRANSFORMERS", "")
MAKE = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
words = ["<unk>", "<s>", "</s>", "Hello", *"abcdefghijkl"]
tokens = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
special = dict(unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>")
PreTrainedTokenizerFast(tokenizer_object=tokens, **special).save_pretrained(sys.argv[1])
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
config = LlamaConfig(vocab_size=len(words), bos_token_id=1, eos_token_id=2, pad_token_id=2, **sizes)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
"""
PROFILE = """
schema = 1
[checkpoint]
repo = "{repo}"
[serve]
host = "127.0.0.1"
port = {port}
served_name = "{model}"
ready_timeout_s = 100
probe = "completion"
[[layout]]
name = "cpu"
gpu = "none"
gpus_per_node = 0
engine = "command"
command = ["{program}", "serve", "{{model}}", "--host", "{{host}}", "--port", "{{port}}", "--device", "cpu"]
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="KBOOT_TEST_TRANSFORMERS names no Python with transformers[serving]"),
]


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_foreign_server_is_fetched_for_started_asked_and_stopped(kboot: Kboot) -> None:
    """From nothing to one token of a server that has never heard of kboot, and nothing of it left afterwards."""
    made = kboot.folder / "made"
    subprocess.run([PYTHON, "-c", MAKE, made], check=True, timeout=100, capture_output=True)
    files = {path.name: path.read_bytes() for path in made.iterdir()}
    profiles = kboot.folder / "etc" / "profiles"
    profiles.mkdir()
    model = kboot.folder / "state" / "models" / "tiny"
    program = Path(PYTHON).parent / "transformers"
    (profiles / "tiny.toml").write_text(PROFILE.format(repo=REPO, port=free_port(), model=model, program=program))
    with FakeHub(files) as hub:
        argv = ("boot", "--profile", "tiny", "--serve", "--exit-when-ready")
        ran = kboot(*argv, env={"HF_ENDPOINT": hub.url})

    assert 0 == ran.status, ran.err
    assert "boot of tiny: ready to serve in" in ran.out
    assert "completion '" in ran.out + ran.err
    left = subprocess.run(["pgrep", "-f", str(model)], capture_output=True, text=True, check=False, timeout=10)
    assert "" == left.stdout
