"""What is wrong with a profile is told all at once, each with file, key, value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_files import SMALLEST, write_profile

from kboot.errors import ProfileError
from kboot.host.paths import Paths
from kboot.profile.document import Document
from kboot.profile.load import build_profile, load_profile
from kboot.profile.rules import peer_of
from kboot.profile.types import Profile

GOLDEN = Path(__file__).parent / "golden"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
AWS_KEY = "AKIA" + "Q2W3" * 4
NGC_KEY = "nvapi-" + "Ab1-x" * 10


def problems(text: str, paths: Paths) -> list[str]:
    """Return the lines of the error that a profile gives, without the file."""
    path = write_profile(paths, "bad.toml", text)
    with pytest.raises(ProfileError) as caught:
        load_profile("bad", paths)
    assert "profile-not-valid" == caught.value.code
    return [line.removeprefix(f"{path}: ") for line in caught.value.where]


GPU_LAYOUT = 'schema = 1\ncheckpoint.repo = "o/n"\n[[layout]]\nname = "a"\ngpu = "H200"\ngpus_per_node = 8\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SMALLEST + "[serve]\nport = 70000\n", "serve.port is 70000; wanted: at most 65535"),
        (SMALLEST + "[serve]\nport = 0\n", "serve.port is 0; wanted: at least 1"),
        (SMALLEST + '[serve]\nport = "80"\n', 'serve.port is "80"; wanted: a whole number'),
        (SMALLEST + "[serve]\nport = 80.5\n", "serve.port is 80.5; wanted: a whole number"),
        (SMALLEST + "[serve]\nport = true\n", "serve.port is true; wanted: a whole number"),
        (SMALLEST + "[serve]\nprot = 1\n", "serve.prot is unknown; the nearest known key is serve.port"),
        (SMALLEST + "[server]\n", "server is unknown; the nearest known key is serve"),
        (SMALLEST + '[serve]\nrepo = "x"\n', "serve.repo is unknown here; did you mean checkpoint.repo?"),
        (SMALLEST + "[fleet]\nzzz = 1\n", "fleet.zzz is unknown; known here: "),
        (SMALLEST + "serve = 3\n", "layout[0].serve is unknown here; did you mean serve?"),
        ("serve = 3\n" + SMALLEST, "serve is 3; wanted: a table"),
        ('name = "x"\n' + SMALLEST, "name is unknown here; did you mean layout.name?"),
        ('digest = "x"\n' + SMALLEST, "digest is unknown; "),
        (SMALLEST + '[verify]\nmode = "none"\n', "verify.mode is \"none\"; wanted: 'ledger', 'quick' or 'full'"),
        (SMALLEST + "[warm]\nmax_memory_fraction = 1.5\n", "warm.max_memory_fraction is 1.5; wanted: at most 1"),
        (SMALLEST + "[warm]\nmax_memory_fraction = nan\n", "warm.max_memory_fraction is nan; wanted: "),
        (SMALLEST + '[warm]\nenabled = "yes"\n', 'warm.enabled is "yes"; wanted: true or false'),
        (SMALLEST + "[fetch]\nstall_timeout_s = 0\n", "fetch.stall_timeout_s is 0; wanted: more than 0"),
        (SMALLEST.replace("schema = 1", "schema = 2"), "schema is 2; wanted: 1"),
        (SMALLEST.replace("schema = 1", ""), "schema is missing and has no default"),
        (SMALLEST.replace('repo = "org/small"', ""), "checkpoint.repo is missing and has no default"),
        (SMALLEST.replace("org/small", "../../etc"), 'checkpoint.repo is "../../etc"; wanted: `owner/name`'),
        (SMALLEST.replace("org/small", "a"), 'checkpoint.repo is "a"; wanted: at least 3 characters'),
        (SMALLEST + "[checkpoint.x]\n", "checkpoint.x is unknown; known here: "),
        (
            'schema = 1\ncheckpoint = {repo = "o/n", revision = "a b"}\nlayout = []\n',
            "layout is []; wanted: at least 1",
        ),
        (SMALLEST + '[license]\nfile = "../x"\n', 'license.file is "../x"; wanted: a path inside the repository'),
        (SMALLEST + "[license]\naccept_required = true\n", "license.name is missing; wanted: the licence's name"),
        (SMALLEST + "[model]\nsize_bytes = 2026-11-30\n", "model.size_bytes is the date 2026-11-30; wanted: text"),
        (SMALLEST + '[serve]\nserved_name = "a\\u0000b"\n', "serve.served_name holds a NUL character"),
        (SMALLEST + '[tune.settings]\n"/etc/passwd" = "x"\n', 'tune.settings."/etc/passwd" has an impossible name'),
        (SMALLEST + '[tune.settings]\n"/sys/../etc/x" = "x"\n', 'tune.settings."/sys/../etc/x" has an impossible name'),
        (SMALLEST + 'env = {"A=B" = "x"}\n', 'layout[0].env."A=B" has an impossible name; wanted: an environment'),
        (SMALLEST + "[layout.parallel]\ndata = 0\n", "layout[0].parallel.data is 0; wanted: more than 0"),
        (SMALLEST.replace('"demo"', '"vlm"'), "layout[0].engine is \"vlm\"; wanted: 'vllm', 'sglang'"),
        (SMALLEST.replace('"demo"', '"vllm"'), 'layout[0].gpu is "none"; wanted: a GPU class'),
        (SMALLEST.replace('"demo"', '"command"'), "layout[0].command is missing; wanted: the whole command line"),
        (SMALLEST + 'command = ["x"]\n', 'layout[0].command is given; wanted: engine = "command" with it'),
        (SMALLEST.replace("node = 0", "node = 1"), 'layout[0].gpus_per_node is 1 for gpu = "none"; wanted: 0'),
        (GPU_LAYOUT, "layout[0].parallel makes 1 × 1 × 1 = 1 ranks for 8 × 1 = 8 GPUs; wanted: "),
        (
            GPU_LAYOUT + 'engine = "sglang"\nparallel = {tensor = 99999999}\n',
            "layout[0].parallel makes 99999999 workers on each node; wanted: at most 1024",
        ),
        (GPU_LAYOUT + "nodes = 2\nparallel = {tensor = 8}\n", "layout[0].parallel makes 1 × 8 × 1 = 8 ranks for 8 × 2"),
    ],
)
def test_one_problem_is_named_exactly(text: str, line: str, paths: Paths) -> None:
    """Key, value seen, what is allowed; for a wrong key the nearest right one."""
    found = problems(text, paths)

    assert any(each.startswith(line) for each in found), found


FLEET = SMALLEST + '[fleet]\nkey_file = "/etc/kboot/fleet.key"\ndiscovery = '


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FLEET + '"gossip"\n', "fleet.discovery is \"gossip\"; wanted: 'none', 'static'"),
        (FLEET + '"static"\n', "fleet.peers is missing; wanted: every node of the fleet"),
        (FLEET + '"dns"\n', 'fleet.dns is missing; wanted: the name that all nodes answer to, since discovery = "dns"'),
        (FLEET + '"kubernetes"\ndns = ""\n', "fleet.dns is missing; wanted: the name that all nodes answer to"),
        (SMALLEST + '[fleet]\ndiscovery = "slurm"\n', "fleet.key_file is missing; wanted: a file that holds"),
        (SMALLEST + '[fleet]\npeers = ["a"]\n', 'fleet.peers is given; wanted: discovery = "static" with it'),
        (FLEET + '"static"\npeers = ["a:b"]\n', 'fleet.peers[0] is "a:b"; wanted: host, host:port, or [IPv6'),
        (FLEET + '"static"\npeers = ["a", "b:70000"]\n', 'fleet.peers[1] is "b:70000"; wanted: host'),
        (FLEET + '"lws"\nbind = "0.0.0.0"\n', 'fleet.bind is "0.0.0.0"; wanted: one address or interface'),
        (FLEET + '"lws"\nbind = "::"\n', 'fleet.bind is "::"; wanted: one address or interface'),
        (FLEET.replace("/etc/", "") + '"lws"\n', 'fleet.key_file is "kboot/fleet.key"; wanted: an absolute path'),
        (FLEET + '"lws"\nstart_timeout_s = 0\n', "fleet.start_timeout_s is 0; wanted: more than 0"),
    ],
)
def test_a_fleet_that_could_not_meet_is_refused(text: str, line: str, paths: Paths) -> None:
    """Each way of discovery needs its own keys, all need the shared secret, and none answers on every interface."""
    found = problems(text, paths)

    assert any(each.startswith(line) for each in found), found


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("node1", ("node1", 7417)),
        ("node1.cluster:9000", ("node1.cluster", 9000)),
        ("10.0.0.1", ("10.0.0.1", 7417)),
        ("fd00::1", ("fd00::1", 7417)),
        ("[fd00::1]:9000", ("fd00::1", 9000)),
        ("[fd00::1]", ("fd00::1", 7417)),
        ("fe80::1%eth0", None),
        ("-x", None),
        ("a b", None),
        ("node1:0", None),
        ("", None),
    ],
)
def test_a_peer_is_a_host_with_or_without_a_port(text: str, peer: tuple[str, int] | None) -> None:
    """Names, addresses of both families; nothing that a resolver or a command line could misread."""
    assert peer == peer_of(text, 7417)


@pytest.mark.parametrize("source", ["hub", "https://mirror.example/hub", "file:///mnt/models", "s3://bucket/prefix"])
def test_known_sources_are_taken(source: str, paths: Paths) -> None:
    """Each kind of source has one spelling."""
    write_profile(paths, "small.toml")

    assert (source,) == load_profile("small", paths, [f'checkpoint.sources=["{source}"]']).checkpoint.sources


@pytest.mark.parametrize("seed", ["", "/seeds/{key}.tar.zst", "https://seeds.example/a/{key}.tar.zst", "s3://b/{key}"])
def test_seeds_of_every_known_form_are_taken(seed: str, paths: Paths) -> None:
    """None, a path, a URL; the key's name may stand in it."""
    write_profile(paths, "small.toml", SMALLEST)
    assert seed == load_profile("small", paths, [f'cache.seed="{seed}"']).cache.seed


@pytest.mark.parametrize("seed", ["seed.tar.zst", "ftp://x/y", "https://host", "s3://b", "/a/../b"])
def test_other_seeds_are_refused_with_what_is_known(seed: str, paths: Paths) -> None:
    """The message says what would do."""
    (line,) = problems(f'{SMALLEST}[cache]\nseed = "{seed}"\n', paths)
    wanted = "an absolute path, an http(s) URL or s3://bucket/key of an archive of `kboot cache export`"
    assert f'cache.seed is "{seed}"; wanted: {wanted}' == line


@pytest.mark.parametrize("source", ["", "Hub", "ftp://x/y", "file://relative", "/mnt/models", "https://", "https:// x"])
def test_other_sources_are_refused(source: str, paths: Paths) -> None:
    """What no source understands is told before anything is tried."""
    text = SMALLEST.replace('"org/small"', f'"org/small"\nsources = ["hub", "{source}"]')

    (line,) = problems(text, paths)

    assert line.startswith(f'checkpoint.sources[1] is "{source}"; wanted: `hub`, https://host/')


def test_all_problems_of_all_files_are_told_at_once(paths: Paths) -> None:
    """Golden text of one bad profile with a bad drop-in and a bad `--set`."""
    profile = (GOLDEN / "bad.toml").read_bytes()
    write_profile(paths, "bad.toml", profile)
    write_profile(paths, "bad.d/10-site.toml", "[serve]\nport = 99999\n[fetch]\ntransport = 'ftp'\n")

    with pytest.raises(ProfileError) as caught:
        load_profile("bad", paths, ["verify.mode=never"])

    error = caught.value
    text = "\n".join((f"error: {error.code}", error.message, *error.where, f"hint: {error.hint}", ""))
    assert (GOLDEN / "bad.txt").read_text() == text.replace(str(paths.config), "/etc/kboot")


@pytest.mark.parametrize(
    "text",
    [
        SMALLEST + f'env = {{HF_TOKEN = "{TOKEN}"}}\n',
        SMALLEST + f"# {TOKEN}\n",
        SMALLEST + f'args = ["--hf-token={TOKEN}"]\n',
        SMALLEST + f'[fleet]\n{TOKEN} = "x"\n',
        SMALLEST.replace("org/small", TOKEN),
        SMALLEST.replace('"org/small"', '"org/small"\nsources = ["https://me:secretword@mirror.example/x"]'),
        SMALLEST + f'env = {{A = "{AWS_KEY}"}}\n',
        SMALLEST + f'env = {{A = "{NGC_KEY}"}}\n',
        SMALLEST.replace("org/small", "https://s3.example/b?x-amz-signature=secretword"),
    ],
)
def test_credentials_are_refused_and_never_repeated(text: str, paths: Paths) -> None:
    """Tokens, keys and passwords do not belong in a profile, and the error does not print them."""
    found = "\n".join(problems(text, paths))

    assert " holds a" in found
    assert TOKEN not in found
    assert "secretword" not in found
    assert AWS_KEY not in found
    assert NGC_KEY not in found


@pytest.mark.parametrize("override", [f"serve.served_name={TOKEN}", f"serve.port={TOKEN}", f'serve.host="{TOKEN}'])
def test_credentials_in_set_are_not_repeated(override: str, paths: Paths) -> None:
    """Neither by validation nor by the TOML reader."""
    write_profile(paths, "small.toml")

    with pytest.raises(ProfileError) as caught:
        load_profile("small", paths, [override])

    assert TOKEN not in str(caught.value.to_json())


def test_a_missing_value_is_blamed_on_the_profile_not_on_a_drop_in(paths: Paths) -> None:
    """A required key that no file gives is wanted in the profile's own file."""
    path = write_profile(paths, "bad.toml", "schema = 1\n")
    write_profile(paths, "bad.d/a.toml", "[checkpoint]\nrevision = 'v1'\n")

    with pytest.raises(ProfileError) as caught:
        load_profile("bad", paths)

    assert f"{path}: layout is missing and has no default" in caught.value.where


ODD = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([0.5, float("inf"), float("nan")]),
    st.sampled_from(["", "none", "hub", "a/b", "../x", "vllm", "x" * 200, "\x00", "é"]),
    st.dates(),
    st.times(),
)
SHAPES = st.recursive(
    ODD,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["repo", "gpu", "name", "parallel", "env", "data", "", "a.b", "é"]), inner),
    ),
    max_leaves=6,
)
SECTIONS = [*Profile.__dataclass_fields__, "", "unknown"]


@given(st.dictionaries(st.sampled_from(SECTIONS), SHAPES, max_size=4))
@settings(max_examples=60, deadline=None)
def test_whatever_a_file_says_the_answer_is_ours(values: dict[str, Any]) -> None:
    """Any TOML value under any key gives a ProfileError with one line per problem, never a traceback."""
    with pytest.raises(ProfileError) as caught:
        build_profile("odd", (Document("odd.toml", values),))

    assert "profile-not-valid" == caught.value.code
    assert caught.value.where
    assert all(line.startswith("odd.toml: ") for line in caught.value.where)
