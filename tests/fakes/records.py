"""The hand-off record of a small engine with one worker. A test replaces what it is about."""

from __future__ import annotations

from kboot.handoff import HandoffRecord, WorkerPlan

RECORD = HandoffRecord(
    boot_id="boot",
    profile="p",
    profile_digest="d",
    repo="o/m",
    commit="c" * 40,
    manifest_digest="m",
    verify_mode="full",
    verified_unix_s=1.0,
    verify_claim="claim",
    model_path="/models/p",
    files=(),
    engine="vllm",
    argv=("/opt/vllm/bin/vllm", "serve", "/models/p"),
    env=(),
    unset=(),
    cpus=(),
    memory_node=None,
    workers=(WorkerPlan(0, 0, (0,), 1, None),),
    worker_titles=(),
    cache_key="key",
    cache_dir="/cache/key",
    served_name="o/m",
    health_url=None,
    models_url=None,
    completion_url=None,
    ready_timeout_s=60,
    kboot_version="0",
    created_unix_s=1.0,
)
