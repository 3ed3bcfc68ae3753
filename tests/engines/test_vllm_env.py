"""Which environment variables does vLLM hash into the names of its compile-cache folders, by version?"""

import pytest

from kboot.engines.vllm_env import hashed_names, volatile


@pytest.mark.parametrize(
    ("version", "count"),
    [("0.26.0", 221), ("0.27.1", 224), ("0.28.0", 233), ("0.29.0", 238), ("0.30.0", 237), ("0.31.0", 240),
     ("0.32.0", 249), ("0.33.0", 245)],
)  # fmt: skip
def test_every_version_has_as_many_as_its_wheel(version: str, count: int) -> None:
    """The counts are those of compile_factors in the released wheels."""
    assert count == len(hashed_names(version))


def test_a_variable_can_become_ignored() -> None:
    """The API key was hashed until 0.28, the bundle indices until 0.32, the configuration's folder in 0.26 only."""
    assert [True, False] == ["VLLM_API_KEY" in hashed_names(v) for v in ("0.28.0", "0.29.0")]
    assert [True, False] == ["VLLM_RAY_BUNDLE_INDICES" in hashed_names(v) for v in ("0.32.0", "0.33.0")]
    assert [True, False] == ["VLLM_CONFIG_ROOT" in hashed_names(v) for v in ("0.26.0", "0.27.1")]


def test_a_version_that_is_not_known_counts_as_the_nearest() -> None:
    """A newer or unknown engine is judged as the newest known one, local and post-release parts make no difference."""
    newest = hashed_names("0.33.0")

    assert [newest] * 4 == [hashed_names(v) for v in ("0.34.1", "1.0", None, "0.33.0.post1+cu130")]


def test_caches_folders_and_devices_are_never_hashed() -> None:
    """What kboot sets differently on every node changes no name."""
    ignored = {"VLLM_CACHE_ROOT", "VLLM_HOST_IP", "VLLM_PORT", "CUDA_VISIBLE_DEVICES", "MAX_JOBS", "OMP_NUM_THREADS"}

    assert set() == ignored & hashed_names("0.33.0")


def test_what_varies_by_its_nature_is_said() -> None:
    """A reason for those whose value is of one boot or node, nothing for the rest."""
    assert "a node's address" == volatile("VLLM_LOOPBACK_IP")
    assert "" == volatile("VLLM_USE_DEEP_GEMM")
