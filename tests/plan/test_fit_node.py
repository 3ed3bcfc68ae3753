"""A layout's share against one node as it stands."""

from __future__ import annotations

from dataclasses import replace

import literals
import pytest

from kboot.checkpoint import CheckpointFacts, Listing, LocalFile, RemoteFile, Share
from kboot.errors import DoesNotFit, ExitStatus
from kboot.facts.types import Gpu, MemoryFacts, MigSlice, Mount, NodeFacts
from kboot.plan.fit_node import HOST_BYTES_PER_WORKER, FitLine, first_that_fits, fit_node, node_does_not_fit
from kboot.plan.memory.model import Model, model_of
from kboot.plan.memory.reserve import RESERVE_BYTES
from kboot.plan.memory.shape import read_shape
from kboot.plan.memory.tensors import TensorGroup
from kboot.profile.types import LayoutAsk, ParallelAsk

GIB = 1 << 30
MIB = 1 << 20
CARD = "NVIDIA L4"


def card(index: int, total: int | None, used: int | None, pids: tuple[int, ...] = ()) -> Gpu:
    """One GPU with this memory."""
    plain = replace(literals.gpu(index, 0), name=CARD, memory_total_bytes=total, memory_used_bytes=used)
    return replace(plain, processes=pids)


def node(*gpus: Gpu, **changes: object) -> NodeFacts:
    """A node with these GPUs."""
    facts = literals.node(literals.cpu_facts([range(8)]), gpus)
    return replace(facts, **changes)  # type: ignore[arg-type]


def layout(gpus: int, nodes: int = 1) -> LayoutAsk:
    """A layout for that many L4."""
    return LayoutAsk(name="mine", gpu="L4" if gpus else "none", gpus_per_node=gpus, nodes=nodes)


def line(what: str, lines: tuple[FitLine, ...]) -> FitLine:
    """Return the line of one resource."""
    (found,) = [each for each in lines if each.what == what]
    return found


def mount(free_bytes: int | None, read_only: bool = False) -> tuple[Mount, ...]:
    """The file system of the state folder."""
    return (Mount("state", "/var/lib/kboot", "/var", "ext4", "/dev/vda", read_only, 10**12, free_bytes, 10**6),)


def test_the_fullest_gpu_decides_and_its_holders_are_named() -> None:
    """B073: eight 24 GiB GPUs, GPU 0 has 3 GiB in use by pid 4242: what fits the others does not fit."""
    used = [3221225472] + [419430400] * 7
    facts = node(*(card(i, 25769803776, used[i], (4242,) if i == 0 else ()) for i in range(8)))
    share = 22 * GIB - (RESERVE_BYTES - 644_939_776)

    verdict = fit_node(facts, layout(8), 8 * share, ())

    assert (0, (4242,)) == (verdict.limiting_gpu, verdict.pids)
    assert verdict.fits is False
    assert line("gpu", verdict.lines).text.startswith(
        "GPU 0 has the least free memory, 22.5 GB (pid 4242 holds memory); "
    )
    assert "end pid 4242, or take other GPUs" == node_does_not_fit(verdict).hint
    assert fit_node(node(*facts.gpu.gpus[1:]), layout(7), 7 * share, ()).fits is True


def test_a_mig_instance_counts_with_its_own_memory() -> None:
    """B090: a 3g.20gb instance of a 40 GiB part has 20 GiB."""
    part = replace(card(0, 42949672960, 0), mig=True, mig_slices=(MigSlice("MIG-1", "3g.20gb", 21474836480),))

    verdict = fit_node(node(part), layout(1), 30 * GIB, ())

    assert 21474836480 == line("gpu", verdict.lines).have_bytes
    assert verdict.fits is False
    assert fit_node(node(part), layout(1), 12 * GIB, ()).fits is True


def test_mig_without_an_instance_is_no_usable_device() -> None:
    """B090: MIG mode on and nothing created means no memory at all."""
    verdict = fit_node(node(replace(card(0, 42949672960, 0), mig=True)), layout(1), GIB, ())

    assert verdict.fits is False
    assert line("gpu", verdict.lines).text.startswith("GPU 0 is in MIG mode without an instance: no usable device")


def test_unified_memory_is_the_hosts() -> None:
    """B093: a GB10 answers Not Supported; what MemAvailable says is what there is, once."""
    memory = MemoryFacts(127600748 * 1024, 118566368 * 1024, None, 0, 0, None, None)
    part = replace(card(0, None, None), unified=True)

    verdict = fit_node(node(part, memory=memory), layout(1), 60 * GIB, ())

    assert 118566368 * 1024 == line("gpu", verdict.lines).have_bytes
    assert verdict.fits is True
    assert ["gpu", "disk"] == [each.what for each in verdict.lines]
    assert fit_node(node(part, memory=memory), layout(1), 120 * GIB, ()).fits is False


def test_a_discrete_gpu_without_an_answer_is_unknown() -> None:
    """B093: the same error on a discrete GPU is neither yes nor no."""
    verdict = fit_node(node(card(0, None, None)), layout(1), GIB, ())

    assert verdict.fits is None
    assert "free memory of GPU 0 could not be read" == line("gpu", verdict.lines).text


def test_the_drivers_own_reserve_is_counted_once() -> None:
    """Whether NVML counts it as used or not, the same weights fit."""
    share = 80 * 10**9 - RESERVE_BYTES - 1

    assert fit_node(node(card(0, 80 * 10**9, 0)), layout(1), share, ()).fits is True
    assert fit_node(node(card(0, 80 * 10**9, 644_939_776)), layout(1), share, ()).fits is True
    assert fit_node(node(card(0, 80 * 10**9, 0)), layout(1), share + 1, ()).fits is False


def test_a_node_of_several_holds_its_part() -> None:
    """Four nodes share the weights."""
    facts = node(card(0, 24 * GIB, 0))

    assert fit_node(facts, layout(1), 64 * GIB, ()).fits is False
    assert fit_node(facts, layout(1, nodes=4), 64 * GIB, ()).fits is True


def test_missing_gpus_do_not_fit() -> None:
    """B095: a lost GPU leaves three of four."""
    verdict = fit_node(node(*(card(i, 24 * GIB, 0) for i in range(3))), layout(4), GIB, ())

    assert "3 of 4 GPUs of class L4 are there" == line("gpu", verdict.lines).text
    assert verdict.fits is False


@pytest.mark.parametrize(
    ("missing", "mounts", "fits", "text"),
    [
        (0, (), True, "nothing is missing on disk"),
        (100 * 10**9, mount(99 * 10**9), False, "100 GB still to fetch, 99.0 GB free on /var"),
        (57 * 10**6, mount(52_400_000), False, "57.0 MB still to fetch, 52.4 MB free on /var"),
        (100 * 10**9, mount(100 * 10**9), True, "100 GB still to fetch, 100 GB free on /var"),
        (100 * 10**9, mount(None), None, "free disk space of the state folder could not be read"),
        (100 * 10**9, (), None, "free disk space of the state folder could not be read"),
        (100 * 10**9, mount(10**12, read_only=True), False, "/var is mounted read-only"),
    ],
)
def test_only_missing_bytes_need_disk(missing: int, mounts: tuple[Mount, ...], fits: bool | None, text: str) -> None:
    """What is there already needs no space; what is missing needs all of its own."""
    verdict = fit_node(node(card(0, 24 * GIB, 0), mounts=mounts), layout(1), GIB, (), missing_bytes=missing)

    assert (fits, text) == (line("disk", verdict.lines).fits, line("disk", verdict.lines).text)
    assert fits is verdict.fits


def test_ram_is_what_the_cgroup_allows() -> None:
    """Two workers need 8 GiB; a limit of 6 GiB is less, however much the machine has; huge pages are shown apart."""
    memory = MemoryFacts(1024 * GIB, 1000 * GIB, 6 * GIB, 600 * MIB, 0, None, None)

    verdict = fit_node(node(card(0, 24 * GIB, 0), card(1, 24 * GIB, 0), memory=memory), layout(2), GIB, ())
    ram = line("ram", verdict.lines)

    assert (2 * HOST_BYTES_PER_WORKER, 6 * GIB, False) == (ram.need_bytes, ram.have_bytes, ram.fits)
    assert (
        "8.6 GB of RAM for engine processes, 6.4 GB available (the cgroup's limit), 0.6 GB more in huge pages"
    ) == ram.text


def test_hidden_huge_pages_are_shown() -> None:
    """B174: reserved huge pages lower MemAvailable; the line says how much is there."""
    memory = MemoryFacts(16 * GIB, 2 * GIB, None, 1200 * MIB, 0, None, None)

    ram = line("ram", fit_node(node(card(0, 24 * GIB, 0), memory=memory), layout(1), GIB, ()).lines)

    assert ram.fits is False
    assert ram.text.endswith(", 1.3 GB more in huge pages")


def test_without_gpus_the_weights_need_ram() -> None:
    """The demo's workers load into host memory; no GPU is asked about."""
    facts = node(memory=MemoryFacts(4 * GIB, 3 * GIB, None, 0, 0, None, None))

    assert fit_node(facts, layout(0), 2 * GIB, ()).fits is True
    assert fit_node(facts, layout(0), 4 * GIB, ()).fits is False
    assert ["ram", "disk"] == [each.what for each in fit_node(facts, layout(0), GIB, ()).lines]


def test_gpus_that_are_not_there_are_not_called_too_small() -> None:
    """The error says how many of the class there are, and what judges hardware that is elsewhere."""
    error = node_does_not_fit(fit_node(node(), layout(2), GIB, ()))

    assert "gpus-missing" == error.code
    assert error.message.startswith("layout mine does not fit this node: 0 of 2 GPUs of class ")
    assert error.hint.endswith("`kboot fit --gpu CLASS` judges those that are not here")


def test_the_error_tells_every_resource_that_is_short() -> None:
    """GPU first, then RAM and disk, each with what to do."""
    facts = node(card(0, 24 * GIB, 0), memory=MemoryFacts(4 * GIB, GIB, None, 0, 0, None, None), mounts=mount(10**9))

    error = node_does_not_fit(fit_node(facts, layout(1), 40 * GIB, (), missing_bytes=40 * GIB))

    assert (ExitStatus.DOES_NOT_FIT, "gpu-memory-too-small") == (error.status, error.code)
    assert error.message.startswith("layout mine does not fit this node: GPU 0 has the least free memory, 25.1 GB; ")
    assert 2 == len(error.where)
    assert (
        "take a layout with more GPUs; free memory, or raise the memory limit of the service; "
        "free space, or point state_dir in kboot.toml at a larger disk"
    ) == error.hint


def test_a_full_disk_has_a_code_of_its_own() -> None:
    """What is too small is in the code."""
    facts = node(card(0, 24 * GIB, 0), mounts=mount(1))

    assert "disk-too-small" == node_does_not_fit(fit_node(facts, layout(1), GIB, (), missing_bytes=2)).code


def moe() -> Model:
    """8 GB of experts and 8 GB of attention in one layer, with a cache of 1 MiB for a token."""
    config = {"num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32768}
    experts = TensorGroup("model.layers.0.mlp.experts.*.w1.weight", "U8", (1000, 1000), 10**9, tuple(range(8)))
    attention = TensorGroup("model.layers.0.self_attn.q_proj.weight", "U8", (8000, 1000), 8 * 10**9)
    return model_of([experts, attention], read_shape({**config, "max_position_embeddings": 1000}))


def divided(name: str, data: int = 1, tensor: int = 1, args: tuple[str, ...] = ()) -> LayoutAsk:
    """A layout of so many L4."""
    parallel = ParallelAsk(data=data, tensor=tensor, expert=True)
    return LayoutAsk(name=name, gpu="L4", gpus_per_node=data * tensor, parallel=parallel, args=args)


def checkpoint() -> CheckpointFacts:
    """A listing of 16 GB, all of it here."""
    file = RemoteFile("a.safetensors", 16 * 10**9, "b" * 64, "b" * 64)
    return CheckpointFacts(Listing("a/b", "main", "c" * 40, (file,), (), "disk"), (), "/s", True)


def test_headers_count_what_data_parallelism_repeats() -> None:
    """16 GB on two 16 GB cards fit by division; each data-parallel rank holds 12 GB and the reserve: too much."""
    facts = node(card(0, 16 * 10**9, 0), card(1, 16 * 10**9, 0))
    twice, halves = divided("dp2", data=2), divided("tp2", tensor=2)

    assert fit_node(facts, twice, 16 * 10**9, ()).fits is True
    verdict = fit_node(facts, twice, 16 * 10**9, (), model=moe())
    assert verdict.fits is False
    assert "DP2+EP: 12 GB of weights on one GPU of 16 GB, 2.6 GB short after the reserve" in verdict.short[0].text
    assert "attention 8 GB whole" in verdict.short[0].text
    assert fit_node(facts, halves, 16 * 10**9, (), model=moe()).fits is True


def test_the_first_layout_that_fits_is_taken_and_the_others_are_named() -> None:
    """A profile may prefer what this node cannot hold."""
    facts = node(card(0, 16 * 10**9, 0), card(1, 16 * 10**9, 0))
    layouts = (divided("dp2", data=2), divided("tp2", tensor=2))

    taken, passed_over = first_that_fits(facts, layouts, checkpoint(), (), moe())

    assert "tp2" == taken.name
    (warning,) = passed_over
    assert warning.startswith("layout dp2 does not fit this node: GPU 0 has the least free memory")
    assert "dp2" == first_that_fits(facts, layouts, checkpoint(), ())[0].name
    with pytest.raises(DoesNotFit, match="layout dp2 does not fit this node"):
        first_that_fits(facts, layouts[:1], checkpoint(), (), moe())


def test_what_the_engine_leaves_alone_is_where_others_may_be() -> None:
    """vLLM leaves 8 % of 16 GB: another process may hold 1 GB of that, not 3 GB."""
    layout = divided("tp2", tensor=2)

    def verdict(held: int) -> bool | None:
        facts = node(card(0, 16 * 10**9, 644_939_776 + held, (7,)), card(1, 16 * 10**9, 0))
        return fit_node(facts, layout, 16 * 10**9, (), model=moe()).fits

    assert [True, True, False] == [verdict(held) for held in (0, 10**9, 3 * 10**9)]


def test_one_sequence_must_have_room() -> None:
    """An engine refuses --max-model-len that its cache cannot hold, minutes into the boot: it is said before."""
    facts = node(card(0, 16 * 10**9, 0), card(1, 16 * 10**9, 0))
    asked = divided("tp2", tensor=2, args=("--max-model-len", "100000"))
    verdict = fit_node(facts, asked, 16 * 10**9, (), model=moe())

    assert verdict.fits is False
    assert "left for the KV cache, one sequence of 100,000 tokens takes 52.4 GB" in verdict.short[0].text


def test_blocks_of_a_killed_fetch_are_not_needed_again() -> None:
    """What its partials hold of the disk counts, written or not, once for two files of one content."""
    listing = Listing("org/m", "main", "c" * 40, (), (), "literal")
    part, lost, twin = (RemoteFile(path, 100, "a" * 64, "a" * 64) for path in ("a", "b", "c"))
    whole = RemoteFile("d", 100, "b" * 64, "b" * 64)

    facts = CheckpointFacts(
        listing,
        (
            LocalFile(part, "partial", 10, reserved_bytes=96),
            LocalFile(twin, "partial", 10, reserved_bytes=96),
            LocalFile(whole, "absent", 0, reserved_bytes=0),
            LocalFile(replace(lost, blob_id="c" * 64), "absent", 0, reserved_bytes=4096),
        ),
        "",
        False,
    )

    assert 104 == facts.disk_bytes


def test_the_rest_of_a_part_that_was_begun_is_still_to_fetch() -> None:
    """Of a file that is here in part, what this node's ranks load and do not have yet moves, and takes room."""
    file = RemoteFile("a", 100, "a" * 64, "a" * 64)
    begun = LocalFile(file, "shared", 20, share=Share(0b11, "n1", frozenset({0}), size_bytes=60, have_bytes=20))
    facts = CheckpointFacts(Listing("org/m", "main", "c" * 40, (file,), (), "literal"), (begun,), "", False)

    assert (40, 40) == (facts.missing_bytes, facts.disk_bytes)
