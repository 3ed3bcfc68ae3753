"""What decided which kernel caches a boot could use, and which of them did it use?"""

from __future__ import annotations

import json

import pytest
from cache_samples import PLAIN, later, recorded_pair

from kboot.report.cache_manifest import Added, manifest_document, manifest_from_json, without_secrets


def test_a_manifest_survives_being_kept() -> None:
    """What is written is read back, with everything in it."""
    for manifest in (later(added={"triton": Added(3, 4096)}), *recorded_pair()):
        assert manifest == manifest_from_json(json.loads(json.dumps(manifest_document(manifest))))


def test_other_documents_are_no_manifests() -> None:
    """A boot's report beside it is not taken for one."""
    for doc in ({"kind": "boot"}, {**manifest_document(PLAIN), "kind": "boot"}, {}):
        with pytest.raises((KeyError, ValueError)):
            manifest_from_json(doc)


def test_secrets_are_kept_as_digests_by_which_a_change_still_shows() -> None:
    """vLLM hashed its API key until 0.28: that it changed is a factor, what it is is nobody's business."""
    veiled = without_secrets({"VLLM_API_KEY": "sk-1", "S3_SECRET_ACCESS_KEY": "x", "HF_TOKEN": "", "OTHER": "sk-1"})

    assert "sk-1" == veiled["OTHER"]
    assert "" == veiled["HF_TOKEN"]
    assert veiled["VLLM_API_KEY"].startswith("sha256:") and "sk-1" not in veiled["VLLM_API_KEY"]
    assert veiled["VLLM_API_KEY"] != without_secrets({"VLLM_API_KEY": "sk-2"})["VLLM_API_KEY"]
    assert {"TOKENIZERS_PARALLELISM": "false", "VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD": 4} == without_secrets(
        {"TOKENIZERS_PARALLELISM": "false", "VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD": 4}
    )
