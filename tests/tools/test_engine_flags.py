"""The tool that reads flags and parsers from released wheels."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import kboot

TOOL = Path(kboot.__file__).parents[2] / "tools" / "engine_flags.py"
ARG_UTILS = """
class EngineArgs:
    def add_cli_args(parser):
        group = parser.add_argument_group("x")
        group.add_argument("--tensor-parallel-size", "-tp", type=int)
        raise SystemExit("sources are read, never run")
"""
CLI_ARGS = """
class FrontendArgs:
    host: str = ""
    tool_call_parser: str | None = None
    def method(self): ...
"""
PARSERS = '_TOOL_PARSERS_TO_REGISTER = {"kimi_k9": ("a", "B")}'
REASONING = '_REASONING_PARSERS_TO_REGISTER = {"kimi_k9": ("a", "B")}'


def wheel(folder: Path, number: str, more: str = "") -> Path:
    """Return a small wheel of vLLM."""
    path = folder / f"vllm-{number}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vllm/engine/arg_utils.py", ARG_UTILS)
        archive.writestr("vllm/entrypoints/openai/cli_args.py", CLI_ARGS + more)
        archive.writestr("vllm/tool_parsers/__init__.py", PARSERS)
        archive.writestr("vllm/reasoning/__init__.py", REASONING)
    return path


def test_flags_and_parsers_come_from_the_text_of_the_sources(tmp_path: Path) -> None:
    """Options added by hand and fields of the front end; what one version has alone stands apart."""
    wheels = [wheel(tmp_path, "0.1.0"), wheel(tmp_path, "0.2.0", "    late_flag: int = 0\n")]
    output = tmp_path / "data.py"
    subprocess.run([sys.executable, TOOL, *wheels, "--output", output], check=True, timeout=60, capture_output=True)
    found: dict[str, object] = {}
    exec(output.read_text(), found)

    assert {"vllm": "0.1.0 0.2.0"} == found["VERSIONS"]
    (everywhere, late) = found["FLAGS"]["vllm"]  # type: ignore[index]
    assert ("all", ["-tp", "host", "tensor-parallel-size", "tool-call-parser"]) == (
        everywhere[0],
        everywhere[1].split(),
    )
    assert ("0.2.0", ["late-flag"]) == (late[0], late[1].split())
    assert "kimi_k9" == found["TOOL_PARSERS"]["vllm"][0][1].strip()  # type: ignore[index]
