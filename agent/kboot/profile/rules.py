"""Which values are impossible although they have the right type? Every rule says what is wanted instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kboot.profile.toml import toml_value
from kboot.values import dataclass

Path = tuple[str | int, ...]
Problem = tuple[Path, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """test: True for a possible value. wanted: what a person should write."""

    test: Callable[[str], bool]
    wanted: str


def _shape(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def stays_inside(path: str) -> bool:
    """Return whether a relative path names something below its folder."""
    parts = path.split("/")
    return bool(path) and "\\" not in path and not any(part in ("", ".", "..") for part in parts)


def is_tunable(path: str) -> bool:
    """Return whether a path is a kernel setting: below /sys or /proc/sys, with no way out."""
    return path.startswith(("/sys/", "/proc/sys/")) and stays_inside(path[1:])


def peer_of(text: str, port: int) -> tuple[str, int] | None:
    """Return host and port of "host", "host:port", "[address]:port" or an IPv6 address; None for anything else."""
    match = _PEER_FORM.fullmatch(text)
    if match is None:
        return None
    told = int(match["port"] or match["port6"] or port)
    return (match["six"] or match["bare"] or match["host"], told) if 0 < told < 65536 else None


_PEER_FORM = re.compile(
    r"\[(?P<six>[0-9A-Fa-f:.]+)\](:(?P<port6>\d{1,5}))?|(?P<bare>[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)"
    r"|(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*)(:(?P<port>\d{1,5}))?"
)
_EVERYWHERE = frozenset({"0.0.0.0", "::", "0", "[::]"})
_MOST_WORKERS = 1024  # many times the GPUs of any node

PROFILE_NAME = Rule(
    _shape(r"[a-z0-9][a-z0-9._-]{0,63}"), "a-z, 0-9, `.`, `_`, `-`, at most 64, a letter or digit first"
)
_REPO = Rule(_shape(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"), "`owner/name` as the Hub spells it")
REVISION = Rule(
    lambda text: _shape(r"[A-Za-z0-9][\w./+-]{0,199}")(text) and ".." not in text,
    "a branch, a tag or a 40-hex commit",
)
_SOURCE = Rule(
    _shape(r"hub|https?://[^\s/]+(/\S*)?|file:///\S*|s3://[^\s/]+(/\S*)?"),
    "`hub`, https://host/…, http://host/…, file:///path or s3://bucket/…",
)
_RELATIVE = Rule(stays_inside, "a path inside the repository")
_URL = Rule(_shape(r"(https?://\S+)?"), "an http(s) URL, or empty")
_WORD = Rule(_shape(r"[a-z_]*"), "a cpufreq governor's name, or empty to leave it")
_HOST = Rule(_shape(r"[A-Za-z0-9.:%_-]+"), "an address or host name")
_ABSOLUTE = Rule(lambda text: not text or (text.startswith("/") and "/../" not in f"{text}/"), "an absolute path")
_TUNABLE = Rule(is_tunable, "a path below /sys or /proc/sys")
_ENV_NAME = Rule(_shape(r"[A-Za-z_][A-Za-z0-9_]*"), "an environment variable's name")
_DATE = Rule(_shape(r"\d{4}-\d{2}-\d{2}"), "a date as 2026-11-30")

_SEED = Rule(
    lambda text: not text or _shape(r"(https?|s3)://[^\s/]+/\S+")(text) or (_ABSOLUTE.test(text) and len(text) > 1),
    "an absolute path, an http(s) URL or s3://bucket/key of an archive of `kboot cache export`",
)
_PEER = Rule(lambda text: peer_of(text, 1) is not None, "host, host:port, or [IPv6 address]:port")
_BIND = Rule(
    lambda text: not text or (_HOST.test(text) and text not in _EVERYWHERE),
    "one address or interface of the cluster's network, never all of them; empty to have it found",
)
VALUES: Mapping[str, Rule] = {
    "cache.seed": _SEED,
    "checkpoint.repo": _REPO,
    "checkpoint.revision": REVISION,
    "checkpoint.sources.*": _SOURCE,
    "cpu.governor": _WORD,
    "fleet.bind": _BIND,
    "fleet.dns": Rule(lambda text: not text or _HOST.test(text), "a DNS name"),
    "fleet.key_file": _ABSOLUTE,
    "fleet.peers.*": _PEER,
    "license.file": _RELATIVE,
    "license.as_of": Rule(lambda text: not text or _DATE.test(text), _DATE.wanted),
    "license.url": _URL,
    "model.api_price.as_of": _DATE,
    "serve.host": _HOST,
    # kboot.toml
    "metrics_file": _ABSOLUTE,
    "profile": Rule(lambda text: not text or PROFILE_NAME.test(text), PROFILE_NAME.wanted),
    "runtime_dir": _ABSOLUTE,
    "state_dir": _ABSOLUTE,
    "token_file": _ABSOLUTE,
    # profiles/nodes
    "price.*.as_of": _DATE,
}
KEYS: Mapping[str, Rule] = {"layout.*.env": _ENV_NAME, "tune.settings": _TUNABLE}


def impossible(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with values as they stand in the file, whatever else is wrong there."""
    for path, value in _texts(values, ()):
        rule = VALUES.get(_general(path))
        if "\x00" in value:
            yield path, "holds a NUL character; no command line, environment or path can"
        elif rule is not None and not rule.test(value):
            yield path, f"is {toml_value(value)}; wanted: {rule.wanted}"
    for path, key in _keys(values, ()):
        rule = KEYS.get(_general(path))
        if rule is not None and not rule.test(key):
            yield (*path, key), f"has an impossible name; wanted: {rule.wanted}"
    yield from _layouts(values.get("layout"))
    yield from ((("fleet", key), text) for key, text in _fleet(values.get("fleet")))
    license_ = values.get("license")
    if isinstance(license_, dict) and license_.get("accept_required") is True and not license_.get("name"):
        yield ("license", "name"), "is missing; wanted: the licence's name, since accept_required = true"


def _fleet(fleet: object) -> Iterator[tuple[str, str]]:
    if not isinstance(fleet, dict):
        return
    how = fleet.get("discovery", "none")
    peers = fleet.get("peers")
    if peers and how == "none":
        yield "peers", 'is given; wanted: discovery = "static" with it'
    if how == "static" and not peers:
        yield "peers", 'is missing; wanted: every node of the fleet, since discovery = "static"'
    if how in ("dns", "kubernetes") and not fleet.get("dns"):
        yield "dns", f"is missing; wanted: the name that all nodes answer to, since discovery = {toml_value(how)}"
    if how != "none" and not fleet.get("key_file"):
        yield "key_file", "is missing; wanted: a file that holds the fleet's shared secret"


def _general(path: Path) -> str:
    return ".".join("*" if isinstance(part, int) else part for part in path)


def _texts(node: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(node, str):
        yield path, node
    for key, child in _items(node):
        yield from _texts(child, (*path, key))


def _keys(node: object, path: Path) -> Iterator[tuple[Path, str]]:
    for key, child in _items(node):
        if isinstance(key, str):
            yield path, key
        yield from _keys(child, (*path, key))


def _items(node: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list):
        yield from enumerate(node)


def _layouts(layouts: object) -> Iterator[Problem]:
    if not isinstance(layouts, list):
        return
    seen: set[str] = set()
    for number, layout in enumerate(layouts):
        if isinstance(layout, dict):
            for key, text in _layout(layout, seen):
                yield ("layout", number, key), text


def _layout(layout: Mapping[str, Any], seen: set[str]) -> Iterator[tuple[str, str]]:
    name, engine = layout.get("name"), layout.get("engine", "vllm")
    if isinstance(name, str):
        if name in seen:
            yield "name", f"is {toml_value(name)}, as an earlier layout's; wanted: a name of its own"
        seen.add(name)
    if engine == "command" and not layout.get("command"):
        yield "command", 'is missing; wanted: the whole command line, since engine = "command"'
    if engine != "command" and layout.get("command"):
        yield "command", f'is given; wanted: engine = "command" with it, not {toml_value(engine)}'
    yield from _gpus(layout, engine)
    yield from _workers(layout)


def _gpus(layout: Mapping[str, Any], engine: object) -> Iterator[tuple[str, str]]:
    gpu, per_node = layout.get("gpu"), layout.get("gpus_per_node")
    if not isinstance(gpu, str) or not isinstance(per_node, int):
        return
    if (gpu.lower() == "none") != (per_node == 0):
        yield (
            "gpus_per_node",
            f'is {per_node} for gpu = {toml_value(gpu)}; wanted: 0 goes with "none", and only with it',
        )
    elif per_node == 0 and engine not in ("command", "demo"):
        yield "gpu", f'is "none"; wanted: a GPU class, since engine {toml_value(engine)} needs GPUs'
    elif per_node and engine == "vllm":
        yield from _ranks(layout, per_node)


def _workers(layout: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each worker of a node is planned by itself, whatever the engine makes of the degrees."""
    if degrees := _degrees(layout):
        data, tensor, pipeline, nodes = degrees
        if (workers := data * tensor * pipeline // nodes) > _MOST_WORKERS:
            yield "parallel", f"makes {workers} workers on each node; wanted: at most {_MOST_WORKERS}"


def _degrees(layout: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """Return data, tensor and pipeline degree and the nodes; None where one is no such number."""
    parallel, nodes = layout.get("parallel", {}), layout.get("nodes", 1)
    if not isinstance(parallel, dict):
        return None
    data, tensor, pipeline = (parallel.get(name, 1) for name in ("data", "tensor", "pipeline"))
    numbers = (data, tensor, pipeline, nodes)
    return numbers if all(type(n) is int and n > 0 for n in numbers) else None


def _ranks(layout: Mapping[str, Any], per_node: int) -> Iterator[tuple[str, str]]:
    """vLLM starts data × tensor × pipeline workers, one on each GPU; a rest would stand idle or be missing."""
    if not (degrees := _degrees(layout)):
        return
    data, tensor, pipeline, nodes = degrees
    if data * tensor * pipeline != per_node * nodes:
        yield (
            "parallel",
            f"makes {data} × {tensor} × {pipeline} = {data * tensor * pipeline} ranks for {per_node} × {nodes} = "
            f"{per_node * nodes} GPUs; wanted: data × tensor × pipeline = gpus_per_node × nodes",
        )
