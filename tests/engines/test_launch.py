import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import b300
import pytest

from kboot.engines import ENGINES, engine
from kboot.engines.types import CpuPlacement, Launch, LaunchAsk
from kboot.errors import FactMissing, ProfileError
from kboot.facts.fleet_types import FleetFacts
from kboot.facts.types import EngineFacts, NodeFacts
from kboot.profile.types import EngineName, LayoutAsk, ParallelAsk

GOLDEN = Path(__file__).parent / "golden"
NAMES: tuple[EngineName, ...] = ("vllm", "sglang", "tokenspeed", "command", "demo")


def launch(
    name: EngineName, asked: LayoutAsk | None = None, ask: LaunchAsk | None = None, facts: NodeFacts | None = None
) -> Launch:
    """Launch on the literal node."""
    asked = asked or b300.layout(name)
    return engine(name).launch(facts or b300.facts(name), b300.profile(asked), ask or b300.launch_ask(asked))


def env_of(found: Launch) -> dict[str, str]:
    """Return the environment without its reasons."""
    return {s.name: s.value for s in found.env}


def with_version(number: str) -> NodeFacts:
    """Return the node with another vLLM."""
    facts = b300.facts("vllm")
    return replace(facts, engine=replace(facts.engine, version=number))


@pytest.mark.parametrize("name", ["vllm", "sglang", "tokenspeed"])
def test_an_engine_sees_its_own_gpus_alone(name: EngineName) -> None:
    """B119: rank 0 of two engines compiles for "cuda:0" under one path; each sees one device, so that is right."""
    scenario = json.loads((Path(__file__).parents[1] / "cases/B119/scenario.json").read_text())
    ask = b300.launch_ask(b300.layout(name))
    workers = [ask.placement.workers[engine["device"]] for engine in scenario["engines"]]
    asks = [replace(ask, placement=replace(ask.placement, workers=(worker,))) for worker in workers]
    seen = [env_of(launch(name, ask=each))["CUDA_VISIBLE_DEVICES"] for each in asks]

    assert [0, 0] == [names.count(",") for names in seen]
    assert 2 == len(set(seen))


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_launch_on_8x_b300(name: EngineName) -> None:
    """Command line, environment and reasons are those of the golden file (KBOOT_UPDATE_GOLDEN=1 rewrites it)."""
    text = json.dumps(asdict(launch(name)), indent=1) + "\n"
    golden = GOLDEN / f"{name}-8x-b300.json"
    if os.environ.get("KBOOT_UPDATE_GOLDEN"):
        golden.write_text(text)

    assert golden.read_text() == text


def test_every_engine_a_profile_may_name_has_an_adapter() -> None:
    """The tuple and the words of the profile are the same."""
    assert sorted(NAMES) == sorted(e.name for e in ENGINES)


@pytest.mark.parametrize("name", NAMES)
class TestEveryEngine:
    def test_every_value_has_its_reason(self, name: EngineName) -> None:
        """`kboot plan` can explain each variable and flag."""
        found = launch(name)

        assert [] == [s.name for s in (*found.env, *found.flags) if not s.reason]

    def test_nothing_is_cached_outside_the_key_folder(self, name: EngineName) -> None:
        """B120, B123: no cache lies in $HOME, /tmp or /run, whatever the user."""
        folders = [v for v in env_of(launch(name)).values() if v.startswith("/")]

        assert len(folders) > 20
        assert [] == [f for f in folders if not f.startswith("/var/lib/kboot/cache/KEY/")]

    def test_libraries_with_a_variable_of_their_own_are_told_too(self, name: EngineName) -> None:
        """DeepEP, Mooncake and FlashInfer's DeepGEMM do not follow XDG_CACHE_HOME; $HOME is read-only in the unit."""
        assert {"EP_JIT_CACHE_DIR", "MOONCAKE_EP_JIT_CACHE_DIR", "TRTLLM_DG_CACHE_DIR"} <= set(env_of(launch(name)))

    def test_the_hub_client_is_offline_and_moves_as_a_whole(self, name: EngineName) -> None:
        """B018, B050: no request to the Hub; HF_HOME, HF_HUB_CACHE and HF_XET_CACHE below one folder."""
        env = env_of(launch(name))

        assert ("1", "1") == (env["HF_HUB_OFFLINE"], env["TRANSFORMERS_OFFLINE"])
        root = "/var/lib/kboot/cache/KEY/hf"
        assert [root, f"{root}/hub", f"{root}/xet"] == [env[n] for n in ("HF_HOME", "HF_HUB_CACHE", "HF_XET_CACHE")]

    def test_the_service_manager_and_the_token_are_not_handed_on(self, name: EngineName) -> None:
        """B029, B141: neither NOTIFY_SOCKET and WATCHDOG_* nor a Hub token reach the engine."""
        assert {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} <= set(
            launch(name).unset
        )

    def test_the_shares_sum_to_the_cpus(self, name: EngineName) -> None:
        """B101: 8 workers on 128 CPUs get 16 threads each, in OpenMP and in every builder."""
        env = env_of(launch(name))

        assert ["16"] * 3 == [env[n] for n in ("OMP_NUM_THREADS", "MAX_JOBS", "HUMMING_MAX_PARALLEL_BUILD_WORKERS")]

    def test_the_launch_is_the_same_twice(self, name: EngineName) -> None:
        """B108: no address, pid, time or random value: the engine's own cache hash cannot move."""
        assert launch(name) == launch(name)

    def test_the_layout_has_the_last_word(self, name: EngineName) -> None:
        """What the profile's layout sets in the environment stands, and says that it was asked."""
        found = launch(name, b300.layout(name, env={"OMP_NUM_THREADS": "4", "NCCL_DEBUG": "INFO"}))
        asked = {s.name: (s.value, s.reason) for s in found.env if s.reason.startswith("asked")}

        assert {
            "NCCL_DEBUG": ("INFO", "asked by layout 8x-b300"),
            "OMP_NUM_THREADS": ("4", "asked by layout 8x-b300"),
        } == asked

    def test_no_variable_of_kboots_own_looks_like_the_engines(self, name: EngineName) -> None:
        """vLLM hashes unknown VLLM_* variables into nothing but warns of them: kboot adds none."""
        assert [] == [n for n in env_of(launch(name)) if n.startswith("VLLM_KBOOT")]


@pytest.mark.parametrize("name", ["vllm", "sglang", "tokenspeed", "demo"])
def test_an_engine_that_is_not_installed_is_a_missing_fact(name: EngineName) -> None:
    """Exit 11 with the engine's name, not a command line that cannot work."""
    facts = replace(b300.facts(name), engine=EngineFacts(name, None, None, {}))

    with pytest.raises(FactMissing, match=f"the layout wants {name}"):
        launch(name, facts=facts)


def test_gpus_are_named_by_uuid() -> None:
    """B092: of a display card and a GB300, the worker gets the GB300 whatever CUDA numbers first."""
    facts = b300.facts("vllm")
    cards = (replace(b300.gpu(0, "GPU-d"), name="NVIDIA RTX PRO 4000"), replace(b300.gpu(1, "GPU-c"), name="GB300"))
    facts = replace(facts, gpu=replace(facts.gpu, gpus=cards))
    asked = b300.layout("vllm", parallel=ParallelAsk())
    one = b300.placement(1)
    share = replace(one, workers=(replace(one.workers[0], gpu=1),))

    assert "GPU-c" == env_of(launch("vllm", asked, b300.launch_ask(asked, share), facts))["CUDA_VISIBLE_DEVICES"]


def test_an_image_builder_without_gpus_names_none() -> None:
    """B150: planning for B300 on a machine without one leaves the devices to the node that boots."""
    asked = b300.layout("vllm")
    share = b300.placement()
    share = replace(share, workers=tuple(replace(w, gpu=None) for w in share.workers))
    found = launch("vllm", asked, b300.launch_ask(asked, share), b300.facts("vllm", gpus=0))

    assert "CUDA_VISIBLE_DEVICES" not in env_of(found)


class TestVllm:
    @pytest.mark.parametrize(("number", "marked"), [("0.27.1", False), ("0.28.0", True), ("0.33.0.post1+cu130", True)])
    def test_the_mark_that_keeps_the_share_is_for_versions_that_know_it(self, number: str, marked: bool) -> None:
        """From 0.28 on vLLM keeps kboot's share while loading and serves with one thread."""
        env = env_of(launch("vllm", facts=with_version(number)))

        assert marked == ("VLLM_OMP_NUM_THREADS_SET_BY_VLLM" in env)

    def test_versions_that_read_numbers_only_get_numbers(self) -> None:
        """vLLM up to 0.23 ends in a ValueError at a UUID: numbers in bus order are as exact."""
        env = env_of(launch("vllm", facts=with_version("0.22.0")))

        assert ("0,1,2,3,4,5,6,7", "PCI_BUS_ID") == (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"])

    def test_pins_are_always_explicit(self) -> None:
        """Bare --numa-bind on a B300 node would leave 2 threads per worker for loading."""
        argv = launch("vllm").argv
        at = argv.index("--numa-bind-cpus")

        assert ("0-15", "16-31", "32-47", "48-63", "64-79", "80-95", "96-111", "112-127") == argv[at + 1 : at + 9]
        assert ("--numa-bind-nodes", *"00001111") == argv[at - 9 : at]

    def test_no_pins_where_a_gpus_node_is_unknown(self) -> None:
        """B077: with numa_node -1 nothing is bound to a node that was guessed."""
        asked = b300.layout("vllm")
        found = launch("vllm", asked, b300.launch_ask(asked, b300.placement(numa=False)))

        assert [] == [word for word in found.argv if word.startswith("--numa")]

    def test_no_pins_where_numactl_is_missing(self) -> None:
        """vLLM binds by that program and ends without it; the workers are pinned when they run."""
        argv = launch("vllm", facts=replace(b300.facts("vllm"), programs={})).argv

        assert [] == [word for word in argv if word.startswith("--numa")]

    def test_a_worker_on_a_slice_gets_the_slice(self) -> None:
        """B088: CUDA is told the slice's UUID, whatever the engine reads, for a slice has no number."""
        (share,) = b300.placement(1).workers
        asked = b300.layout("vllm", parallel=ParallelAsk())
        ask = b300.launch_ask(asked, CpuPlacement((replace(share, device="MIG-1f"),), (), ()))

        for number in ("0.22.0", "0.33.0"):
            assert "MIG-1f" == env_of(launch("vllm", asked, ask, with_version(number)))["CUDA_VISIBLE_DEVICES"]

    def test_a_flag_the_profile_gives_is_not_given_twice(self) -> None:
        """The profile's own argument stands alone, in either spelling."""
        argv = launch("vllm", b300.layout("vllm", args=("--data-parallel-size=4", "--port", "9"))).argv

        assert ["--data-parallel-size=4"] == [w for w in argv if w.startswith("--data-parallel-size")]
        assert 1 == argv.count("--port")

    @pytest.mark.parametrize("args", [("--enable-eplb",), ("--no-enable-ep-weight-filter",)], ids=" ".join)
    def test_the_weight_filter_gives_way(self, args: tuple[str, ...]) -> None:
        """Experts that move between ranks must all be read; a profile may say no."""
        argv = launch("vllm", b300.layout("vllm", args=args)).argv

        assert "--enable-ep-weight-filter" not in argv
        assert "--enable-expert-parallel" in argv

    def test_data_parallel_over_nodes(self) -> None:
        """32 engines on 4 nodes: the first node answers, the others are headless and know their first rank."""
        asked = b300.layout("vllm", nodes=4, parallel=ParallelAsk(data=32, expert=True), args=())
        head, third = (launch("vllm", asked, b300.launch_ask(asked, node_rank=rank)) for rank in (0, 2))

        shared = "--data-parallel-size 32 --enable-expert-parallel --enable-ep-weight-filter"
        shared += " --data-parallel-size-local 8"
        shared += " --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 29550"
        assert f"{shared} --numa-bind" in " ".join(head.argv)
        assert f"{shared} --data-parallel-start-rank 16 --headless --numa-bind" in " ".join(third.argv)
        assert ("http://127.0.0.1:8000/health", None) == (head.health_url, third.health_url)

    def test_one_engine_over_nodes(self) -> None:
        """TP8 x PP4 on 4 nodes is one engine: nnodes, node rank and the master's address."""
        asked = b300.layout("vllm", nodes=4, parallel=ParallelAsk(tensor=8, pipeline=4), args=())
        argv = " ".join(launch("vllm", asked, b300.launch_ask(asked, node_rank=3)).argv)

        assert "--tensor-parallel-size 8 --pipeline-parallel-size 4" in argv
        assert "--nnodes 4 --node-rank 3 --master-addr 10.0.0.1 --master-port 29501 --headless" in argv

    def test_degrees_that_nodes_do_not_divide_are_an_error_of_the_profile(self) -> None:
        """10 ranks on 4 nodes: said before anything starts."""
        asked = b300.layout("vllm", nodes=4, parallel=ParallelAsk(data=10))

        with pytest.raises(ProfileError, match="has a world size of 10 on 4 nodes"):
            launch("vllm", asked)


class TestSglang:
    def test_data_parallel_attention_lies_inside_the_tensor_group(self) -> None:
        """DP8 with experts spread is tp 8, attention dp 8, ep 8; without experts it is 8 replicas."""
        spread = " ".join(launch("sglang").argv)
        replicas = " ".join(launch("sglang", b300.layout("sglang", parallel=ParallelAsk(data=8))).argv)

        assert "--tp-size 8 --attention-data-parallel-size 8 --ep-size 8" in spread
        assert "--tp-size 1 --dp-size 8" in replicas

    def test_over_nodes(self) -> None:
        """The first node's address and port are the same on all; only it answers."""
        asked = b300.layout("sglang", nodes=2, parallel=ParallelAsk(tensor=16, expert=True))
        found = launch("sglang", asked, b300.launch_ask(asked, node_rank=1))

        assert "--nnodes 2 --node-rank 1 --dist-init-addr 10.0.0.1:20000" in " ".join(found.argv)
        assert found.health_url is None


def test_tokenspeed_over_nodes_is_refused() -> None:
    """What this version cannot start is said, not guessed."""
    asked = b300.layout("tokenspeed", nodes=2, parallel=ParallelAsk(tensor=16))

    with pytest.raises(ProfileError, match="one node only"):
        launch("tokenspeed", asked)


class TestCommand:
    def test_placeholders_are_filled_and_other_braces_stay(self) -> None:
        """{model}, {host}, {port} and {served_name} are known; JSON in an argument is left alone."""
        asked = b300.layout("command", args=())

        assert (
            "/opt/serve/run",
            "/var/lib/kboot/models/k3",
            "--bind=0.0.0.0:8000",
            "--name",
            "moonshotai/Kimi-K3",
            '{"literal": {braces}}',
        ) == launch("command", asked).argv

    @pytest.mark.parametrize("command", [(), ("serve", "{model}")])
    def test_a_program_without_its_full_path_is_refused(self, command: tuple[str, ...]) -> None:
        """What PATH finds at boot may be another program."""
        with pytest.raises(ProfileError, match="must begin with an absolute path"):
            launch("command", b300.layout("command", command=command, args=()))


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000/health"),
        ("127.0.0.1", "http://127.0.0.1:8000/health"),
        ("::", "http://[::1]:8000/health"),
        ("10.1.2.3", "http://10.1.2.3:8000/health"),
    ],
)
def test_the_health_url_is_reachable_from_this_node(host: str, url: str) -> None:
    """A server on every address is asked over loopback, one on a single address is asked there."""
    asked = b300.layout("vllm")

    assert (
        url
        == engine("vllm").launch(b300.facts("vllm"), b300.profile(asked, host=host), b300.launch_ask(asked)).health_url
    )


@pytest.mark.parametrize("name", ["vllm", "sglang", "command"])
def test_nodes_find_one_another_through_the_interface_of_the_fleet(name: EngineName) -> None:
    """vllm#7074, aws-do-eks#50: where a host's name is a loopback address, gloo offers 127.0.0.1 to other nodes."""
    asked = b300.layout(name, nodes=2)
    fleet = FleetFacts(interface="ens5", address="10.0.0.2", found_by="fleet.peers")
    facts = replace(b300.facts(name), fleet=fleet)
    env = env_of(launch(name, asked, facts=facts))

    assert ("ens5", "=ens5", "10.0.0.2") == (
        env["GLOO_SOCKET_IFNAME"],
        env["NCCL_SOCKET_IFNAME"],
        env["VLLM_HOST_IP"],
    )
    assert "GLOO_SOCKET_IFNAME" not in env_of(launch(name, b300.layout(name), facts=facts))
    chosen = replace(asked, env={"GLOO_SOCKET_IFNAME": "bond0"})
    assert "bond0" == env_of(launch(name, chosen, facts=facts))["GLOO_SOCKET_IFNAME"]


def test_an_ipv6_head_stands_in_brackets() -> None:
    """sglang#2892: without them the last group of the address is read as the port."""
    asked = b300.layout("sglang", nodes=2)
    argv = launch("sglang", asked, replace(b300.launch_ask(asked), head_address="fd00::1")).argv

    assert "[fd00::1]:20000" == argv[argv.index("--dist-init-addr") + 1]
