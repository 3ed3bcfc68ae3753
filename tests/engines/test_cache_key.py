from dataclasses import replace

import b300
import pytest

from kboot.engines import engine
from kboot.facts.types import NodeFacts
from kboot.profile.types import LayoutAsk, ParallelAsk

FACTS = b300.facts("vllm")


def key(facts: NodeFacts = FACTS, layout: LayoutAsk | None = None, commit: str = b300.COMMIT) -> str:
    """Name of vLLM's key."""
    layout = layout or b300.layout("vllm")
    return engine("vllm").cache_key(facts, b300.profile(layout), layout, commit).name


def packages(**versions: str) -> NodeFacts:
    """Return the node with other packages."""
    return replace(FACTS, engine=replace(FACTS.engine, packages={**FACTS.engine.packages, **versions}))


def test_the_name_can_be_read() -> None:
    """An operator sees what a folder is for; its last word tells apart what the rest leaves out."""
    assert (
        "sm103-drv580.95.05-cu13.0-vllm0.33.0-torch2.14.0+cu130-triton3.8.0-fi0.7.2.post1-3f9c1e7a3f9c-dp8ep-"
        == (key()[:-8])
    )


def built(**digests: str) -> NodeFacts:
    """Return the node with other builds of the same versions."""
    return replace(FACTS, engine=replace(FACTS.engine, builds=digests))


def gpus(**changes: object) -> NodeFacts:
    """Return the node with other GPUs."""
    changed = tuple(replace(g, **changes) for g in FACTS.gpu.gpus)
    return replace(FACTS, gpu=replace(FACTS.gpu, gpus=changed))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(packages(torch="2.15.0"), id="B116: torch"),
        pytest.param(packages(triton="3.9.0"), id="B116: triton"),
        pytest.param(packages(**{"nvidia-cudnn-cu13": "9.99"}), id="a package that is not in the name"),
        pytest.param(built(**{"flashinfer-python": "bbb"}), id="B112: another build of the same version"),
        pytest.param(replace(FACTS, gpu=replace(FACTS.gpu, driver_version="590.1")), id="B125: driver"),
        pytest.param(replace(FACTS, gpu=replace(FACTS.gpu, cuda_version="13.1")), id="B125: CUDA of the driver"),
        pytest.param(
            replace(
                FACTS,
                gpu=replace(FACTS.gpu, gpus=tuple(replace(g, compute_capability=(10, 0)) for g in FACTS.gpu.gpus)),
            ),
            id="B125: architecture",
        ),
        pytest.param(
            gpus(name="NVIDIA GB300"),
            id="another product of the same architecture: tuned choices are timed",
        ),
    ],
)
def test_other_kernels_are_another_folder(other: NodeFacts) -> None:
    """Whatever may change a kernel changes the folder; the old one stays for a rollback."""
    assert key() != key(other)


def test_another_commit_or_layout_is_another_folder() -> None:
    """Per-rank files of another layout are never mixed in."""
    assert 4 == len(
        {
            key(),
            key(commit="0" * 40),
            key(layout=b300.layout("vllm", parallel=ParallelAsk(tensor=8, expert=True))),
            key(layout=b300.layout("vllm", nodes=2, parallel=ParallelAsk(data=16, expert=True))),
        }
    )


def test_what_changes_no_kernel_keeps_the_folder() -> None:
    """Arguments of the engine, its port, the number of CPUs and the time of day are no factors."""
    later = replace(FACTS, collected_unix_s=1e9, os=replace(FACTS.os, boot_id="boot-2", hostname="node7"))

    assert key() == key(later, b300.layout("vllm", args=("--max-num-seqs", "64"), env={"NCCL_DEBUG": "INFO"}))


def test_the_name_is_one_safe_folder_name() -> None:
    """Whatever a driver or package calls itself, no slash, blank or over-long name comes out."""
    odd = replace(FACTS, gpu=replace(FACTS.gpu, driver_version="../580 beta/1"))

    assert "sm103-drv.._580_beta_1-cu13.0" == key(odd)[:29]
    assert len(key(odd)) < 255


def test_a_machine_without_gpus_has_a_key_too() -> None:
    """The demo engine's caches are kept apart from any GPU's."""
    layout = b300.layout("demo")
    bare = replace(FACTS.gpu, driver_version=None, cuda_version=None, gpus=())
    facts = replace(b300.facts("demo", gpus=0), gpu=bare)
    found = engine("demo").cache_key(facts, b300.profile(layout), layout, "a" * 40)

    assert "nogpu-drvnone-cunone-demo0.1.0-aaaaaaaaaaaa-dp8ep-" == found.name[:-8]
