"""Would this profile give the engine's caches another name at every boot, or put them where they do not last?"""

from __future__ import annotations

import pytest

from kboot.engines.types import Launch, Setting
from kboot.errors import ProfileError
from kboot.plan.cache_stable import Trouble, key_troubles, refuse_unstable
from kboot.profile.types import EngineName, LayoutAsk

CACHE = "/var/lib/kboot/cache/sm103-vllm0.33.0"
MODEL = "/var/lib/kboot/models/kimi"
SIZES = ("--max-model-len", "4096", "--max-num-seqs=256", "--max-num-batched-tokens", "8192")


def layout(args: tuple[str, ...] = SIZES, **env: str) -> LayoutAsk:
    """A layout with these arguments and variables."""
    return LayoutAsk(name="8x-b300", gpu="B300", gpus_per_node=8, args=args, env=env)


def troubles(
    asked: LayoutAsk, version: str = "0.33.0", engine: EngineName = "vllm", **inherited: str
) -> tuple[Trouble, ...]:
    """Judge a layout for one engine."""
    env = tuple(Setting(n, v, "asked") for n, v in sorted(asked.env.items()))
    launch = Launch(engine, ("/x",), env, ("NOTIFY_SOCKET",), (), None, None, None, "m", 1, ())
    return key_troubles(asked, launch, version, inherited, MODEL, CACHE)


def refused(*args: object, **kw: object) -> list[str]:
    """Return the names that are refused."""
    return [t.name for t in troubles(*args, **kw) if t.refuse]  # type: ignore[arg-type]


def warned(*args: object, **kw: object) -> list[str]:
    """Return the names that are warned of."""
    return [t.name for t in troubles(*args, **kw) if not t.refuse]  # type: ignore[arg-type]


def test_a_layout_of_constants_has_no_trouble() -> None:
    """Sizes are given, hashed variables hold constants: nothing to say."""
    assert () == troubles(layout(VLLM_DEEP_GEMM_WARMUP="relax", NCCL_DEBUG="INFO"))


def test_a_pods_address_in_a_hashed_variable_is_refused() -> None:
    """B108: 10.0.0.5 at one boot and 10.0.0.9 at the next gave torch.compile another folder each time."""
    asked = layout(VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.5")
    (found,) = troubles(asked, version="0.25.0")

    assert ("VLLM_NIXL_SIDE_CHANNEL_HOST", True) == (found.name, found.refuse)
    assert "10.0.0.5" in found.says
    assert () == troubles(asked, version="0.33.0"), "this version ignores it"


@pytest.mark.parametrize("value", ["10.1.2.3", "tcp://10.1.2.3:9000", "fd00::17", "[2001:db8::1]:80"])
def test_an_address_is_found_wherever_it_stands(value: str) -> None:
    """Bare, in a URL, IPv6, with a port."""
    assert ["VLLM_P2P_SIDE_CHANNEL_HOST"] == refused(layout(VLLM_P2P_SIDE_CHANNEL_HOST=value))


@pytest.mark.parametrize("value", ["127.0.0.1", "::1", "0.0.0.0", "localhost", "1.2.3", "12:30:45", "999.1.1.1"])
def test_what_is_the_same_everywhere_is_no_address(value: str) -> None:
    """Loopback, any-address, versions and times of day are constants; the variable's nature is still named."""
    assert [] == refused(layout(VLLM_P2P_SIDE_CHANNEL_HOST=value))
    assert ["VLLM_P2P_SIDE_CHANNEL_HOST"] == warned(layout(VLLM_P2P_SIDE_CHANNEL_HOST=value))


def test_plugins_and_process_names_are_refused_whatever_their_value() -> None:
    """Both are hashed, and an installed plugin loads without being named."""
    assert ["VLLM_PLUGINS", "VLLM_PROCESS_NAME_PREFIX"] == refused(
        layout(VLLM_PLUGINS="a", VLLM_PROCESS_NAME_PREFIX="x")
    )


def test_another_model_path_is_refused() -> None:
    """The text of the path is hashed: only the one stable path keeps the folder."""
    assert ["--model"] == refused(layout(args=(*SIZES, "--model", "/mnt/boot-71/kimi")))
    assert ["--model-path"] == refused(layout(args=("--model-path=/mnt/x",)), engine="sglang")
    assert [] == refused(layout(args=(*SIZES, "--model", MODEL)))


def test_sizes_that_are_left_to_defaults_are_named() -> None:
    """Their defaults change with the GPU's memory."""
    assert ["--max-model-len", "--max-num-batched-tokens", "--max-num-seqs"] == warned(layout(args=()))
    assert [] == warned(layout(args=()), engine="sglang")


def test_what_would_be_inherited_is_warned_of() -> None:
    """A volatile variable of kboot's own environment, or an address in any hashed one; constants are not."""
    assert ["VLLM_LOOPBACK_IP"] == warned(layout(), VLLM_LOOPBACK_IP="10.0.0.5", VLLM_USE_DEEP_GEMM="1", HOME="/")
    assert [] == warned(layout(VLLM_DEEP_GEMM_WARMUP="full"), VLLM_DEEP_GEMM_WARMUP="10.0.0.5")


@pytest.mark.parametrize("folder", ["/tmp/triton", "/run/x", "/dev/shm", "/home/a/.triton"])
def test_a_cache_outside_of_the_keys_folder_is_named(folder: str) -> None:
    """B123: none in /tmp or in memory; elsewhere another driver's kernels may lie."""
    assert ["TRITON_CACHE_DIR"] == warned(layout(TRITON_CACHE_DIR=folder))
    assert [] == warned(layout(TRITON_CACHE_DIR=f"{CACHE}/triton"))


def test_what_is_refused_stops_the_boot_and_names_every_setting() -> None:
    """The error says which settings and why; without one, the rest are warnings."""
    asked = layout(args=(), VLLM_PLUGINS="a", VLLM_LOOPBACK_IP="10.0.0.5")
    with pytest.raises(ProfileError) as caught:
        refuse_unstable(troubles(asked), asked)

    assert ("cache-key-unstable", 2) == (caught.value.code, len(caught.value.where))
    assert "VLLM_LOOPBACK_IP, VLLM_PLUGINS" in caught.value.message
    assert 3 == len(refuse_unstable(troubles(layout(args=())), asked))
