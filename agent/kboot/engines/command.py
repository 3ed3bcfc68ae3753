"""How is any command line started with the node's share, pins and caches?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kboot.engines import common, sglang, tokenspeed, vllm
from kboot.engines.vllm import CACHE_SIGNS, FAILURES, PHASES, THREADS
from kboot.errors import ProfileError

if TYPE_CHECKING:
    from kboot.engines.types import CacheKey, CacheSign, EnginePhase, Launch, LaunchAsk
    from kboot.facts.types import NodeFacts
    from kboot.profile.types import EngineName, LayoutAsk, Profile


class Command:
    """Adapter for a command line of the profile's own; its log is read as vLLM's, the commonest engine behind one.

    It is taken to answer HTTP like an OpenAI-compatible server at serve.host and serve.port.
    """

    name: EngineName = "command"
    phases: tuple[EnginePhase, ...] = PHASES
    failures: tuple[str, ...] = FAILURES
    cache_signs: tuple[CacheSign, ...] = CACHE_SIGNS
    threads: tuple[str, ...] = THREADS

    def cache_key(self, facts: NodeFacts, profile: Profile, layout: LayoutAsk, commit: str) -> CacheKey:
        """Return the key under which the command's kernel caches are kept."""
        return common.cache_key(facts, profile, layout, commit)

    def launch(self, facts: NodeFacts, profile: Profile, ask: LaunchAsk) -> Launch:
        """Return the profile's command with its placeholders filled.

        {model}, {host}, {port}, {served_name}, {cache}, {threads}, {workers}, {node_rank}, {head}: other braces stay.

        Raises:
            ProfileError: it is empty, or its program is not an absolute path.
        """
        argv = tuple(_fill(word, profile, ask) for word in (*ask.layout.command, *ask.layout.args))
        if not argv or not argv[0].startswith("/"):
            raise ProfileError(
                "command-not-absolute",
                f'layout {ask.layout.name} has engine "command", and its command must begin with an absolute path',
                where=(f"layout.command = {list(ask.layout.command)}",),
                hint="write the program's full path: what PATH finds may be another one at boot",
            )
        return common.launch(
            self.name,
            profile,
            ask,
            argv=argv,
            env=(
                *common.thread_settings(ask.placement),
                *common.cache_settings(ask.cache_dir),
                *common.hub_settings(ask.cache_dir),
                *common.network_settings(facts.fleet, ask.layout),
                *common.gpu_settings(facts.gpu, ask.placement),
            ),
            flags=(),
            titles=(*vllm.WORKER_TITLES, *sglang.WORKER_TITLES, *tokenspeed.WORKER_TITLES),
            http=ask.node_rank == 0,
        )


def _fill(word: str, profile: Profile, ask: LaunchAsk) -> str:
    values = {
        "{model}": ask.model_path,
        "{host}": profile.serve.host,
        "{port}": str(profile.serve.port),
        "{served_name}": common.served_name(profile),
        "{cache}": ask.cache_dir,
        "{threads}": str(ask.placement.threads),
        "{workers}": str(len(ask.placement.workers)),
        "{node_rank}": str(ask.node_rank),
        "{head}": ask.head_address,
    }
    for name, value in values.items():
        word = word.replace(name, value)
    return word
