"""Why did a kernel cache miss: which factor changed, what did it invalidate and cost, could it be avoided?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cache_samples import AOT, JIT, MODEL, PLAIN, TUNED, later, recorded_pair

from kboot.report.cache_explain import CacheVerdict, explain
from kboot.report.cache_manifest import CacheManifest
from kboot.report.text_cache import explanation_document, explanation_text

Golden = Callable[[str, str], None]


def factors(boot: CacheManifest, against: CacheManifest = PLAIN) -> list[tuple[str, str]]:
    """Return (factor, avoidable) of every cause."""
    return [(c.factor, c.avoidable) for c in explain(boot, against).causes]


def verdict(cache: str, boot: CacheManifest, against: CacheManifest = PLAIN) -> CacheVerdict:
    """Return what became of one cache."""
    return next(c for c in explain(boot, against).caches if c.cache == cache)


def test_two_real_boots_of_one_command(golden: Golden) -> None:
    """2x H200: the folder's name changed by code_hash alone, the artefact was loaded all the same."""
    cold, warm = recorded_pair()
    found = verdict("torch.compile", warm, cold)

    assert ("hit", (f"{JIT}/a39475f64e",), None) == (found.verdict, found.new, found.cost_s)
    assert (7.82, 46.57) == (found.seconds, found.then_s)
    assert [("code_hash", "once")] == factors(warm, cold)
    golden("cache-recorded.txt", explanation_text(explain(warm, cold)))


def test_the_same_boot_again_changed_nothing() -> None:
    """No factor, no miss, no cost."""
    found = explain(later(), PLAIN)

    assert ((), (), 0.0) == (found.causes, found.harmless, found.cost_s)
    assert {"hit"} == {c.verdict for c in found.caches}


def test_a_driver_update_cost_every_cache(golden: Golden) -> None:
    """The key is another one; it could not be avoided, and its cost is what both phases took longer."""
    boot = later(
        key="sm103-drv590.1-vllm0.33.0",
        factors={**PLAIN.factors, "driver": "590.1"},
        env={"TRITON_CACHE_DIR": "/c/sm103-drv590.1-vllm0.33.0/triton"},
        before=(),
        folders=(AOT, TUNED),
        said={"flashinfer autotune": (0, 8), "torch.compile": (0, 8)},
        seconds={"FlashInfer autotune": 900.0, "compile": 50.0},
    )

    assert [("driver", "no")] == factors(boot)
    assert 898.0 + 42.0 == explain(boot, PLAIN).cost_s
    golden("cache-driver.txt", explanation_text(explain(boot, PLAIN)))


def test_an_argument_missed_for_tuned_kernels(golden: Golden) -> None:
    """The folder of tuned kernels holds --max-num-seqs; the port is in no name."""
    other = f"flashinfer-autotune/{'77' * 32}"
    boot = later(
        argv=(*PLAIN.argv[:-1], "128", "--port", "8001"),
        folders=(*PLAIN.folders, other),
        said={"flashinfer autotune": (0, 8), "torch.compile": (8, 0)},
        seconds={"FlashInfer autotune": 870.0, "compile": 8.0},
    )
    found = verdict("flashinfer autotune", boot)

    assert [("--max-num-seqs", "yes")] == factors(boot)
    assert ("miss", (other,), 868.0) == (found.verdict, found.new, found.cost_s)
    assert ("--max-num-seqs",) == tuple(c.factor for c in found.why)
    golden("cache-argument.txt", explanation_text(explain(boot, PLAIN)))


@pytest.mark.parametrize(
    ("boot", "expected"),
    [
        (later(model_path="/mnt/x"), [("model path", "yes")]),
        (later(model_files={"config.json": "bbbb"}), [("model's config.json", "no")]),
        (later(argv=("/opt/new/bin/python3", *PLAIN.argv[1:])), [("interpreter", "yes")]),
        (later(env={**PLAIN.env, "VLLM_USE_DEEP_GEMM": "0"}), [("VLLM_USE_DEEP_GEMM", "yes")]),
        (later(inherited={"VLLM_LOOPBACK_IP": "10.0.0.9"}), [("VLLM_LOOPBACK_IP", "yes")]),
        (later(env={"TRITON_CACHE_DIR": "/tmp/triton"}), [("TRITON_CACHE_DIR", "yes")]),
        (later(factors={**PLAIN.factors, "package.triton": "3.9"}), [("package.triton", "no")]),
    ],
)
def test_every_factor_has_a_name(boot: CacheManifest, expected: list[tuple[str, str]]) -> None:
    """What changed, and whether somebody could have left it alone."""
    assert expected == factors(boot)


def test_b108_a_pods_address_is_named_with_what_it_cost() -> None:
    """B108: another address in a hashed variable, torch.compile built again."""
    old = replace(PLAIN, engine_version="0.25.0", inherited={"VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.5"})
    new = later(
        engine_version="0.25.0",
        inherited={"VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.0.9"},
        said={"torch.compile": (0, 8)},
        seconds={"compile": 50.0},
    )
    found = verdict("torch.compile", new, old)

    assert ("miss", 42.0, "10.0.0.9") == (found.verdict, found.cost_s, found.why[0].new)
    assert "yes" == found.why[0].avoidable


def test_what_is_not_hashed_is_harmless() -> None:
    """Thread shares, GPUs and ports change nothing; they are told apart."""
    boot = later(env={**PLAIN.env, "OMP_NUM_THREADS": "8"}, argv=(*PLAIN.argv, "--port=1"))
    found = explain(boot, PLAIN)

    assert () == found.causes
    assert ["--port was absent, is 1: in no cache's name", "OMP_NUM_THREADS was absent, is 8: not hashed"] == list(
        found.harmless
    )


def test_until_0_29_the_environment_named_the_tuned_kernels_as_well() -> None:
    """vllm#54794: one variable, two caches."""
    for version, caches in (("0.29.0", ("torch.compile", "flashinfer autotune")), ("0.30.0", ("torch.compile",))):
        boot = later(engine_version=version, env={**PLAIN.env, "VLLM_USE_DEEP_GEMM": "0"})
        assert [caches] == [c.caches for c in explain(boot, PLAIN).causes]


def test_a_folder_that_is_gone_explains_a_miss() -> None:
    """Nothing changed, and the tuned kernels were not there any more."""
    boot = later(before=(AOT,), folders=(AOT, f"flashinfer-autotune/{'99' * 32}"), said={"flashinfer autotune": (0, 8)})
    found = verdict("flashinfer autotune", boot)

    assert (TUNED,) == found.gone
    assert [("folder", "yes")] == [(c.factor, c.avoidable) for c in found.why]


def test_what_nothing_explains_is_said_to_be_so() -> None:
    """A miss without a cause on record is not given one."""
    boot = later(said={"torch.compile": (0, 8)}, seconds={"compile": 50.0})

    assert ("miss", ()) == (verdict("torch.compile", boot).verdict, verdict("torch.compile", boot).why)
    assert "no factor on record explains it" in explanation_text(explain(boot, PLAIN))


def test_without_a_word_of_the_log_the_time_says_it() -> None:
    """A phase several times as long is a miss, one several times as short a hit, others are not judged."""
    times = [({"compile": 60.0}, "miss"), ({"compile": 0.5}, "hit"), ({"compile": 9.0}, "unknown"), ({}, "unknown")]
    quiet = replace(PLAIN, said={})

    assert [v for _, v in times] == [
        verdict("torch.compile", later(said={}, seconds=s), quiet).verdict for s, _ in times
    ]


def test_the_engines_own_factors_name_the_variable() -> None:
    """cache_key_factors.json has the environment as it was hashed: the variable that changed is named."""
    folder = f"{JIT}/{'ab' * 5}"
    old = {"code_hash": "c", "config_hash": "d", "compiler_hash": "e", "env": {"VLLM_PP_LAYER_PARTITION": None}}
    new = {**old, "config_hash": "x", "env": {"VLLM_PP_LAYER_PARTITION": "1"}}
    against = replace(PLAIN, folders=(folder,), engine_factors={folder: old})
    boot = later(folders=(folder, f"{JIT}/{'cd' * 5}"), engine_factors={folder: old, f"{JIT}/{'cd' * 5}": new})

    assert [("config_hash", "yes"), ("env VLLM_PP_LAYER_PARTITION", "yes")] == factors(boot, against)


def test_moved_sources_are_told_from_the_change_that_happens_once() -> None:
    """With another interpreter code_hash says that files moved."""
    cold, warm = recorded_pair()
    moved = replace(warm, argv=("/opt/other/bin/python3", *warm.argv[1:]))

    assert [("interpreter", "yes"), ("code_hash", "no")] == factors(moved, cold)


def test_the_document_says_the_same() -> None:
    """For programs: both boots, every cause, every cache, the sum."""
    doc = explanation_document(explain(later(model_path="/mnt/x"), PLAIN))

    assert ("cache-explanation", True, 0.0) == (doc["kind"], doc["same_key"], doc["cost_s"])
    assert (MODEL, "/mnt/x") == (doc["causes"][0]["old"], doc["causes"][0]["new"])
    assert ["flashinfer autotune", "torch.compile"] == [c["cache"] for c in doc["caches"]]
