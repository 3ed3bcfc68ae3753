import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kboot.checkpoint import RemoteFile
from kboot.errors import KbootError
from kboot.store.selection import CONSOLIDATED_INDEX, INDEX, find_index, reselect, select

GPT_OSS = [
    "config.json",
    "model-00000-of-00002.safetensors",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "original/model.safetensors",
    "original/config.json",
    "original/dtypes.json",
    "metal/model.bin",
]
MISTRAL = [
    "consolidated.safetensors",
    "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors",
    "model-00003-of-00003.safetensors",
    "model.safetensors.index.json",
    "params.json",
    "config.json",
    "tekken.json",
]


def listed(*paths: str, size_bytes: int = 10) -> list[RemoteFile]:
    return [RemoteFile(path, size_bytes, "a" * 40, None) for path in paths]


def index_of(*shards: str) -> bytes:
    return json.dumps({"weight_map": {f"t{n}": shard for n, shard in enumerate(shards)}}).encode()


def shards_in(paths: list[str]) -> list[str]:
    return [path for path in paths if path.startswith("model-")]


def chosen(paths: list[str], index: bytes | None = None, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()):
    wanted, skipped = select(listed(*paths), index, include, exclude)
    return [file.path for file in wanted], dict(skipped)


def test_only_the_shards_of_the_index_are_fetched() -> None:
    """B035: the same weights stand three times in the repository, the shards count from 00000; the index decides."""
    wanted, skipped = chosen(GPT_OSS, index_of(*shards_in(GPT_OSS)))

    assert ["config.json", *shards_in(GPT_OSS), INDEX, "tokenizer.json"] == wanted
    assert {"original/model.safetensors", "original/config.json", "original/dtypes.json", "metal/model.bin"} == set(
        skipped
    )
    assert "belongs to the weights in original/, which are not loaded" == skipped["original/config.json"]


def test_consolidated_weights_beside_shards_are_skipped() -> None:
    """B036: consolidated.safetensors is the whole model again; the small files stay."""
    wanted, skipped = chosen(MISTRAL, index_of(*shards_in(MISTRAL)))

    assert ["consolidated.safetensors"] == list(skipped)
    assert ["config.json", *shards_in(MISTRAL), INDEX, "params.json", "tekken.json"] == wanted


def test_consolidated_weights_alone_are_the_weights() -> None:
    """Nothing is skipped for its name where it is all there is."""
    assert ["config.json", "consolidated.safetensors"] == chosen(["consolidated.safetensors", "config.json"])[0]


def test_consolidated_shards_have_an_index_of_their_own() -> None:
    """It decides where no other weights are at the top; a shard it names must be listed, as with the other one."""
    shards = ["consolidated-00001-of-00002.safetensors", "consolidated-00002-of-00002.safetensors"]
    paths = [*shards, CONSOLIDATED_INDEX, "params.json", "tekken.json"]
    wanted, skipped = chosen(paths, index_of(*shards))

    assert (sorted(paths), {}) == (wanted, skipped)
    with pytest.raises(KbootError) as caught:
        chosen([path for path in paths if path != shards[1]], index_of(*shards))
    assert "index-shard-not-listed" == caught.value.code and CONSOLIDATED_INDEX in caught.value.message
    assert find_index(listed("model.safetensors", *paths)) is None


def test_layers_behind_an_embedding_model_are_part_of_it() -> None:
    """vllm PR#23408: modules.json names them; without it a folder's weights are another model's."""
    dense = ["2_Dense/config.json", "2_Dense/model.safetensors"]
    paths = ["1_Pooling/config.json", *dense, "2_Dense/pytorch_model.bin", "config.json", "model.safetensors"]
    wanted, skipped = chosen([*paths, "modules.json"])

    assert ["1_Pooling/config.json", *dense, "config.json", "model.safetensors", "modules.json"] == wanted
    assert ["2_Dense/pytorch_model.bin"] == list(skipped)
    assert not set(dense) & set(chosen(paths)[0])


def test_tensorizer_weights_can_be_asked_for() -> None:
    """Not chosen by themselves; an include that names them means them."""
    assert ["config.json", "model.tensors"] == chosen(["model.tensors", "config.json"], include=("*",))[0]


def test_a_single_file_needs_no_index() -> None:
    """One model.safetensors at the top is the checkpoint; its copy in another format is not."""
    wanted, skipped = chosen(["model.safetensors", "pytorch_model.bin", "tf_model.h5", "config.json", "m.gguf"])

    assert ["config.json", "model.safetensors"] == wanted
    assert "torch weights; engines load the safetensors" == skipped["pytorch_model.bin"]
    assert {"pytorch_model.bin", "tf_model.h5", "m.gguf"} == set(skipped)


def test_shards_in_a_folder_are_taken_where_the_index_says_so() -> None:
    """Paths in the index may name folders."""
    paths = ["weights/a.safetensors", "weights/b.safetensors", INDEX, "config.json"]

    assert sorted(paths) == chosen(paths, index_of("weights/a.safetensors", "weights/b.safetensors"))[0]


def test_torch_weights_are_taken_where_there_is_nothing_else() -> None:
    """A repository of .bin files is loadable; optimizer state is not its weights."""
    paths = ["pytorch_model-1.bin", "pytorch_model-2.bin", "pytorch_model.bin.index.json", "training_args.bin"]

    assert sorted(set(paths) - {"training_args.bin"}) == chosen(paths)[0]


def test_what_engines_need_beside_the_weights_is_kept() -> None:
    """Configs, tokenizers, templates, code and the licence stay; pictures and pages do not."""
    small = ["LICENSE", "chat_template.jinja", "configuration_x.py", "encoding/enc.py", "tiktoken.model", "vocab.txt"]

    wanted, skipped = chosen([*small, "model.safetensors", "README.md", "figures/a.png", ".gitattributes"])

    assert sorted([*small, "model.safetensors"]) == wanted
    assert {"README.md", "figures/a.png", ".gitattributes"} == set(skipped)


def test_a_huge_file_that_is_no_weights_of_the_index_is_skipped() -> None:
    """Only what is small is taken on the chance that an engine reads it."""
    files = listed("model.safetensors", "config.json") + listed("imatrix.dat", size_bytes=1 << 30)

    assert (("imatrix.dat", "larger than 256 MiB and no weights of the index"),) == select(files, None, (), ())[1]


def test_an_index_that_names_shards_the_commit_lacks_is_an_error() -> None:
    """B052: the model would load with weights that were never set; it is said before the first byte."""
    with pytest.raises(KbootError, match=r"model-00002-of-00003\.safetensors") as caught:
        chosen(["model-00001-of-00003.safetensors", INDEX], index_of("model-00001-of-00003.safetensors",
               "model-00002-of-00003.safetensors"))  # fmt: skip

    assert "index-shard-not-listed" == caught.value.code


@pytest.mark.parametrize("paths", [[], ["config.json"], ["README.md", "model.gguf"], ["original/model.safetensors"]])
def test_no_loadable_weights_is_an_error(paths: list[str]) -> None:
    """A repository that an engine could not load is refused before the first byte."""
    with pytest.raises(KbootError) as caught:
        chosen(paths)

    assert "no-loadable-weights" == caught.value.code


def test_filters_that_leave_no_weights_are_an_error_that_says_why() -> None:
    """The error names the weights that were there and the pattern that dropped them."""
    with pytest.raises(KbootError) as caught:
        chosen(["model.safetensors", "config.json"], exclude=("*.safetensors",))

    assert ("model.safetensors: excluded by the profile (*.safetensors)",) == caught.value.where


def test_filters_that_drop_a_shard_of_the_index_are_an_error() -> None:
    """Half a checkpoint is not served."""
    with pytest.raises(KbootError) as caught:
        chosen(GPT_OSS, index_of(*shards_in(GPT_OSS)), exclude=("model-00001*",))

    assert "index-shard-left-out" == caught.value.code


def test_include_replaces_kboots_choice() -> None:
    """With include, GGUF, README or anything else is what is asked for."""
    wanted, skipped = chosen(["m.Q4.gguf", "m.Q8.gguf", "README.md", "config.json"], include=("*.Q4.gguf", "*.md"))

    assert ["README.md", "m.Q4.gguf"] == wanted
    assert {"m.Q8.gguf": "not included by the profile", "config.json": "not included by the profile"} == skipped


def test_an_index_that_is_left_out_decides_nothing() -> None:
    """A broken index can be worked around by naming the files."""
    assert ["a.safetensors"] == chosen(["a.safetensors", INDEX], b"broken", include=("*.safetensors",))[0]


def test_another_precision_of_the_only_file_is_left_out() -> None:
    """An engine that takes every file at the top would load the same tensors twice (Blaizzy/mlx-vlm#1329)."""
    names = ["model.safetensors", "model.fp16.safetensors", "model.mtp.safetensors"]

    assert ["model.mtp.safetensors", "model.safetensors"] == chosen(names)[0]
    assert ["model.fp16.safetensors"] == chosen(["model.fp16.safetensors"])[0]


def test_an_index_that_is_a_pointer_is_called_one() -> None:
    """B062 for the index: a clone without git-lfs."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 24000\n"
    with pytest.raises(KbootError) as caught:
        chosen(["a.safetensors", INDEX], pointer)

    assert f"{INDEX} is a git-lfs pointer of 130 bytes, real size 24000" == caught.value.message


def test_a_broken_index_is_an_error() -> None:
    """An index that cannot be read is never ignored."""
    with pytest.raises(KbootError) as caught:
        chosen(["a.safetensors", INDEX], b"<html>")

    assert "index-not-valid" == caught.value.code


def test_a_folder_pattern_stands_for_all_below_it() -> None:
    """As in huggingface_hub: `original/` is `original/*`, and `*` crosses folders."""
    assert ["b.safetensors"] == chosen(["b.safetensors", "x/y/c.json"], exclude=("x/",))[0]


def test_selecting_again_with_the_same_profile_gives_the_same() -> None:
    """What was skipped is known by name only, and that is enough."""
    files = [*listed(*MISTRAL, "README.md"), *listed("huge.dat", size_bytes=1 << 30)]
    index = index_of(*shards_in(MISTRAL))
    wanted, skipped = select(files, index, (), ("tekken.json",))

    assert (wanted, skipped) == reselect(wanted, skipped, index, (), ("tekken.json",))


def test_selecting_again_with_more_wanted_needs_a_source() -> None:
    """A file that was skipped has no known hash: None says so."""
    wanted, skipped = select(listed(*MISTRAL), index_of(*shards_in(MISTRAL)), (), ("tekken.json",))

    assert reselect(wanted, skipped, index_of(*shards_in(MISTRAL)), (), ()) is None
    assert reselect(*select(listed("a.safetensors", INDEX), b"", ("a.*",), ()), None, (), ()) is None


def test_the_index_is_the_one_at_the_top() -> None:
    """An index in a folder belongs to another model."""
    assert find_index(listed("vae/model.safetensors.index.json")) is None
    assert INDEX == getattr(find_index(listed(*GPT_OSS)), "path", None)


PATHS = st.lists(
    st.sampled_from([*GPT_OSS, *MISTRAL, "x.bin", "README.md", "a/b.py", "m.gguf", "tokenizer.model"]), unique=True
).filter(lambda paths: INDEX not in paths)


@given(PATHS, st.lists(st.sampled_from(["*.bin", "a/", "*.json"]), max_size=2), st.booleans())
def test_every_file_is_either_wanted_or_skipped_with_a_reason(paths: list[str], patterns: list[str], inc: bool) -> None:
    """Nothing is lost, nothing stands in both, and whatever is excluded is never wanted."""
    include, exclude = (tuple(patterns), ()) if inc else ((), tuple(patterns))
    try:
        wanted, skipped = chosen(paths, None, include, exclude)
    except KbootError as exc:
        assert "no-loadable-weights" == exc.code
        return
    assert sorted(paths) == sorted([*wanted, *skipped])
    assert all(skipped.values())
