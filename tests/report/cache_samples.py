"""Manifests of boots as literals, and as two real boots on 2x H200 left them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kboot.engines import engine
from kboot.engines.logs import LogReader
from kboot.report.cache_manifest import CacheManifest

HERE = Path(__file__).parent
LOGS = HERE.parent / "engines/logs"
T0 = 1_796_020_000.0
JIT = "vllm/torch_compile_cache"
AOT = f"{JIT}/torch_aot_compile/f97922d9fbf3e3a6f1765ff836f6d6d1a0e9777960805cc8d1a4ceb3c2be789c"
TUNED = f"flashinfer-autotune/{'5e' * 32}"
MODEL = "/var/lib/kboot/models/kimi"

PLAIN = CacheManifest(
    boot_id="7f3a90cc",
    profile="kimi",
    started_unix_s=T0,
    state="ready",
    key="sm103-drv580.82-vllm0.33.0",
    factors={"driver": "580.82", "engine_version": "0.33.0", "package.torch": "2.14.0+cu130"},
    engine="vllm",
    engine_version="0.33.0",
    argv=("/opt/venv/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve", MODEL, "--max-num-seqs", "256"),
    env={"TRITON_CACHE_DIR": "/c/sm103-drv580.82-vllm0.33.0/triton"},
    inherited={},
    model_path=MODEL,
    model_files={"config.json": "aaaa"},
    machine="m",
    before=(AOT, TUNED),
    folders=(AOT, TUNED),
    said={"flashinfer autotune": (8, 0), "torch.compile": (8, 0)},
    seconds={"FlashInfer autotune": 2.0, "compile": 8.0},
)


def later(**changes: object) -> CacheManifest:
    """The next boot, with these changes."""
    return replace(PLAIN, started_unix_s=T0 + 3600, boot_id="8a11", **changes)  # type: ignore[arg-type]


def recorded(boot: str, at: float, before: tuple[str, ...], folders: tuple[str, ...]) -> CacheManifest:
    """A boot on 2x H200 with vLLM 0.26.0: its log, and the cache_key_factors.json of its folders."""
    reader = LogReader(engine("vllm"), at)
    for line in (LOGS / f"vllm-0.26-{boot}.log").read_text().splitlines():
        reader.feed(at + float(line[:8]), line[9:])
    return CacheManifest(
        boot_id=boot,
        profile="synthetic-moe",
        started_unix_s=at,
        state="ready",
        key="sm90-drv580.95.05-vllm0.26.0",
        factors={"driver": "580.95.05", "engine_version": "0.26.0", "package.torch": "2.11.0+cu130"},
        engine="vllm",
        engine_version="0.26.0",
        argv=("/opt/venv/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve", "/models/synthetic-moe"),
        env={},
        inherited={},
        model_path="/models/synthetic-moe",
        model_files={"config.json": "aaaa"},
        machine="m",
        before=before,
        folders=folders,
        engine_factors={
            f: json.loads((HERE / f"recorded/cache_key_factors-{f[-10:]}.json").read_text())
            for f in folders
            if f != AOT
        },
        said={s.cache: (s.hits, s.misses) for s in reader.caches()},
        seconds={s.name: round(s.seconds, 2) for s in reader.spans() if s.seconds is not None},
    )


def recorded_pair() -> tuple[CacheManifest, CacheManifest]:
    """The first two boots of one command: the folder's name changed, the compiled artefact was loaded."""
    first, second = f"{JIT}/2a31558058", f"{JIT}/a39475f64e"
    cold = recorded("boot1-cold-flashinfer-jit", T0, (), (first, AOT))
    return cold, recorded("boot2-flashinfer-jit-again", T0 + 326, (first, AOT), (first, second, AOT))
