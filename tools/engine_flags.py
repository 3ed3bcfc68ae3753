"""Which flags and parsers does each released engine know? Writes agent/kboot/engines/flags_data.py from wheels.

    pip download --no-deps vllm==0.33.0 -d /tmp/w && python tools/engine_flags.py /tmp/w/*.whl [FOLDER…]

Nothing is imported or run: the sources are read as text. A FOLDER is an unpacked wheel named NAME-VERSION. Afterwards:
`ruff format agent/kboot/engines/flags_data.py`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "agent/kboot/engines/flags_data.py"
Read = Callable[[str], Mapping[str, str]]
"""Returns the texts of the files whose path matches a pattern, by path."""


@dataclass(frozen=True, slots=True)
class Release:
    """What one version knows: words of its command line, names of parsers."""

    engine: str
    version: tuple[int, ...]
    flags: frozenset[str]
    tool_parsers: frozenset[str]
    reasoning_parsers: frozenset[str]


def vllm(read: Read) -> tuple[set[str], set[str], set[str]]:
    """Flags are added by hand, or are the fields of the front end's dataclasses."""
    flags: set[str] = set()
    for text in read(
        r"vllm/engine/arg_utils\.py|vllm/entrypoints/[\w/]*cli_args\.py|vllm/entrypoints/cli/serve\.py"
    ).values():
        tree = ast.parse(text)
        flags |= set(_added(tree)) | set(_fields(tree, ("FrontendArgs", "BaseFrontendArgs")))
    tools = _keys(read(r"vllm/tool_parsers/__init__\.py"), "_TOOL_PARSERS_TO_REGISTER")
    reasoning = _keys(read(r"vllm/reasoning/__init__\.py"), "_REASONING_PARSERS_TO_REGISTER")
    return flags, tools, reasoning


def sglang(read: Read) -> tuple[set[str], set[str], set[str]]:
    """Flags are the annotated fields of its namespaces, or are added by hand."""
    flags: set[str] = set()
    for text in read(
        r"sglang/srt/(server_args|arg_groups/[\w/]+|plugins/[\w/]+)\.py|sglang/launch_server\.py"
    ).values():
        tree = ast.parse(text)
        flags |= set(_added(tree)) | set(_annotated(tree))
    tools = _keys(read(r"sglang/srt/function_call/function_call_parser\.py"), "ToolCallParserEnum")
    reasoning = _keys(read(r"sglang/srt/parser/reasoning_parser\.py"), "DetectorMap")
    return flags, tools | {"auto"}, reasoning | {"auto"}


def tokenspeed(read: Read) -> tuple[set[str], set[str], set[str]]:
    """Flags are added by hand; parsers are chosen by its gateway."""
    flags: set[str] = set()
    for text in read(
        r"tokenspeed/runtime/utils/server_args\.py|tokenspeed/cli/(__main__|_argsplit|serve_smg)\.py"
    ).values():
        tree = ast.parse(text)
        flags |= set(_added(tree)) | set(_words(tree))
    return flags, set(), set()


ENGINES = {"vllm": vllm, "sglang": sglang, "tokenspeed": tokenspeed}
_TABLES = (("FLAGS", "flags"), ("TOOL_PARSERS", "tool_parsers"), ("REASONING_PARSERS", "reasoning_parsers"))


def main() -> None:
    """Read the releases and write the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", nargs="+", type=Path, metavar="WHEEL|FOLDER")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    asked = parser.parse_args()
    releases = sorted((release(path) for path in asked.releases), key=lambda r: (r.engine, r.version))
    asked.output.write_text(module(releases))
    for found in releases:
        number = ".".join(map(str, found.version))
        counts = (
            f"{len(found.flags)} flags, {len(found.tool_parsers)} tool and {len(found.reasoning_parsers)} reasoning"
        )
        sys.stderr.write(f"{found.engine} {number}: {counts} parsers\n")


def release(path: Path) -> Release:
    """Return what a wheel or an unpacked one knows."""
    name, number = re.match(r"([A-Za-z_]+)-(\d+(?:\.\d+)*)", path.name).groups()  # type: ignore[union-attr]
    read = _wheel_reader(path) if path.is_file() else _folder_reader(path)
    flags, tools, reasoning = ENGINES[name](read)
    version = tuple(map(int, number.split(".")))
    return Release(name, version, frozenset(flags), frozenset(tools), frozenset(reasoning))


def module(releases: Iterable[Release]) -> str:
    """Return the source of the module: what all versions of an engine know stands once."""
    by_engine: dict[str, list[Release]] = {}
    for each in releases:
        by_engine.setdefault(each.engine, []).append(each)
    versions = {engine: [_number(r.version) for r in found] for engine, found in by_engine.items()}
    lines = [
        '"""Which flags and parser names does each released engine know? Made by tools/engine_flags.py.',
        "",
        *(f"{engine}: {', '.join(numbers)}" for engine, numbers in versions.items()),
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "",
        "Words = tuple[tuple[str, str], ...]",
        '"""(versions that know them, separated by blanks, or "all"; the words)."""',
        "",
        "VERSIONS: Mapping[str, str] = {",
        *(f'    "{engine}": "{" ".join(numbers)}",' for engine, numbers in versions.items()),
        "}",
        "",
    ]
    for title, field in _TABLES:
        lines.append(f"{title}: Mapping[str, Words] = {{")
        for engine, found in by_engine.items():
            lines.append(f'    "{engine}": (')
            for known_to, words in _grouped(found, field):
                lines += [f'        ("{known_to}", """', *_wrapped(words), '        """),']
            lines.append("    ),")
        lines += ["}", ""]
    return "\n".join(lines)


def _wrapped(words: str) -> list[str]:
    return textwrap.wrap(words, 116, initial_indent=" " * 12, subsequent_indent=" " * 12, break_on_hyphens=False)


def _grouped(found: list[Release], field: str) -> Iterator[tuple[str, str]]:
    known_to: dict[str, list[str]] = {}
    for each in found:
        for word in getattr(each, field):
            known_to.setdefault(word, []).append(_number(each.version))
    groups: dict[str, list[str]] = {}
    for word, numbers in known_to.items():
        versions = "all" if len(numbers) == len(found) else " ".join(numbers)
        groups.setdefault(versions, []).append(word.removeprefix("--"))
    for versions in sorted(groups, key=lambda name: (name != "all", name)):
        yield versions, " ".join(sorted(groups[versions]))


def _number(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _wheel_reader(path: Path) -> Read:
    def read(pattern: str) -> Mapping[str, str]:
        with zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if re.fullmatch(pattern, name)]
            return {name: wheel.read(name).decode() for name in sorted(names)}

    return read


def _folder_reader(path: Path) -> Read:
    def read(pattern: str) -> Mapping[str, str]:
        names = [f.relative_to(path).as_posix() for f in path.rglob("*.py")]
        return {name: (path / name).read_text() for name in sorted(names) if re.fullmatch(pattern, name)}

    return read


def _added(tree: ast.AST) -> Iterator[str]:
    """Return the option strings of every add_argument(…)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                    yield str(argument.value)


def _fields(tree: ast.AST, classes: tuple[str, ...]) -> Iterator[str]:
    """Return a flag for each annotated field of these classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in classes:
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield f"--{item.target.id.replace('_', '-')}"


def _annotated(tree: ast.AST) -> Iterator[str]:
    """Return the flags of fields annotated as A[type, Arg(…)] or A[type, "help"]."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        annotation = node.annotation
        if not (isinstance(annotation, ast.Subscript) and getattr(annotation.value, "id", "") in ("A", "Annotated")):
            continue
        yield f"--{node.target.id.replace('_', '-')}"
        for keyword in (k for call in ast.walk(annotation) if isinstance(call, ast.Call) for k in call.keywords):
            for constant in ast.walk(keyword.value) if keyword.arg in ("aliases", "cli_name") else ():
                if isinstance(constant, ast.Constant) and str(constant.value).startswith("-"):
                    yield str(constant.value)


def _words(tree: ast.AST) -> Iterator[str]:
    """Return every string that is a flag and nothing else."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"--[a-z][\w-]+", node.value)
        ):
            yield node.value


def _keys(texts: Mapping[str, str], name: str) -> set[str]:
    """Return the keys of a dictionary with this name."""
    found: set[str] = set()
    for text in texts.values():
        for node in ast.walk(ast.parse(text)):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            if isinstance(value, ast.Dict) and any(getattr(target, "id", "") == name for target in targets):
                found |= {str(k.value) for k in value.keys if isinstance(k, ast.Constant)}
    return found


if __name__ == "__main__":
    main()
