#!/usr/bin/env python3
"""Compare an engine as people start it with the same engine started by kboot, on this node, one boot after the other.

    python benchmarks/gpu/compare.py --python /opt/vllm/bin/python3 --gpu H200 --gpus 2 --out results

Run it with a Python that has kboot. It makes a checkpoint (or takes --model DIR), serves it as a Hub on loopback, and
boots the engine in each way of --ways. Every result is written when it is there. With --drop node, as root, it
drops the whole page cache between boots; it leaves the GPUs' settings alone. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from gpubench import model, node, watch, ways  # noqa: E402
from gpubench.document import boot_document, dose_document, scrubbed  # noqa: E402

_VLLM_ARGS = ("--max-model-len", "4096", "--gpu-memory-utilization", "0.8", "--skip-tokenizer-init")
_VLLM_ENV = {"VLLM_USE_DEEP_GEMM": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
_WORST_BOOT_S = 60.0


class Run:
    """One run of this script: what it works with, and what it has found so far."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.began = time.monotonic()
        self.gpus = node.Gpus()
        self.hub: subprocess.Popen[bytes] | None = None
        asked.work.mkdir(parents=True, exist_ok=True)
        asked.out.mkdir(parents=True, exist_ok=True)
        self.logs = asked.work / "logs"
        self.logs.mkdir(exist_ok=True)
        demo = asked.engine == "demo"
        self.setup = ways.Setup(
            engine=asked.engine,
            python=Path(sys.executable) if demo else asked.python,
            kboot=Path(sys.executable).with_name("kboot"),
            model=asked.model or asked.work / "model",
            work=asked.work,
            gpu=asked.gpu,
            gpus=asked.gpus,
            args=tuple(asked.engine_arg) or (() if demo else _VLLM_ARGS),
            engine_env={} if demo else _VLLM_ENV,
            inherited={k: v for k, v in os.environ.items() if not k.startswith(("KBOOT_", "HF_", "XDG_"))},
            drop_whole_node=asked.drop == "node",
            port=asked.port,
        )
        self.file = asked.out / "results.json"
        kept = asked.work / "results.json"
        self.document: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {"boots": [], "doses": []}

    def left_s(self) -> float:
        """Return the seconds that are left for this run."""
        return float(self.asked.until_s - (time.monotonic() - self.began))

    def save(self) -> None:
        """Write what was found so far: kept for the next run of the same work folder, and given out."""
        text = json.dumps(scrubbed(self.document, self.setup), indent=1)
        (self.asked.work / "results.json").write_text(json.dumps(self.document))
        temp = self.file.with_suffix(".tmp")
        temp.write_text(f"{text}\n")
        temp.replace(self.file)
        with tarfile.open(self.asked.out / "logs.tar.gz", "w:gz") as tar:
            tar.add(self.logs, "logs")

    def checkpoint(self) -> None:
        """Make the checkpoint where none was given; copy it to where the Hub serves it from."""
        if self.asked.model is None:
            layers, experts, shards = self.asked.make
            shape = replace(model.Shape(), layers=layers, experts=experts, shards=shards)
            if self.asked.tiny:
                shape = replace(shape, hidden=128, expert_width=128, dense_width=256, vocabulary=512, heads=2)
            started = time.monotonic()
            size = model.make(self.setup.model, shape)
            say(f"checkpoint: {size / 2**30:.2f} GiB of weights, {time.monotonic() - started:.1f} s")
        source = self.asked.hub_folder
        if source is not None and not (source / "config.json").exists():
            started = time.monotonic()
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(self.setup.model, source)
            say(f"copied for the Hub: {time.monotonic() - started:.1f} s")

    def start_hub(self) -> None:
        """Start the Hub on loopback; it serves when this returns."""
        port_file = self.asked.work / "hub.json"
        port_file.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "gpubench.hub", "--repo", ways.REPO, "--port-file", str(port_file)]
        argv += ["--folder", str(self.asked.hub_folder or self.setup.model)]
        started = time.monotonic()
        with (self.logs / "hub.log").open("wb") as log:
            self.hub = subprocess.Popen(argv, cwd=HERE, stdout=log, stderr=log)
        while not port_file.exists():
            if self.hub.poll() is not None or time.monotonic() - started > 240:
                raise SystemExit(f"the Hub did not start: {(self.logs / 'hub.log').read_text()[-500:]}")
            time.sleep(0.2)
        self.setup = replace(self.setup, endpoint=json.loads(port_file.read_text())["endpoint"])
        say(f"hub: hashed and serving after {time.monotonic() - started:.1f} s")

    def bytecode(self) -> node.Bytecode:
        """Return the compiled files of every folder the engine's interpreter imports from."""
        code = "import json, sys; print(json.dumps([p for p in sys.path if p]))"
        argv = [str(self.setup.python), "-B", "-c", code]
        found = subprocess.run(argv, capture_output=True, check=True, timeout=60)
        roots = [Path(p) for p in json.loads(found.stdout) if Path(p).is_dir()]
        return node.Bytecode(roots if self.setup.engine != "demo" else (), self.asked.work / "bytecode.json")

    def boot(self, name: str, bytecode: node.Bytecode) -> None:
        """Boot in one way and keep what was seen."""
        way = ways.WAYS[name]
        number = 1 + sum(b["way"] == name for b in self.document["boots"])
        label = f"{name}-{number}"
        prepared = way.prepare(self.setup, bytecode)
        command = way.command(self.setup)
        limit_s = min(self.asked.limit_s, self.left_s() - 20)
        say(f"{label}: {way.means} ({prepared}); at most {limit_s:.0f} s")
        seen = watch.watch(command, self.logs / f"{label}.out", limit_s, self.asked.serve_s, self.gpus)
        (self.logs / f"{label}.log").write_text(watch.stamped(seen))
        for source in ("boot.json", "handoff.json"):
            if not command.own_log and (self.setup.node / "run" / source).exists():
                shutil.copy(self.setup.node / "run" / source, self.logs / f"{label}.{source}")
        found = boot_document(label, way, prepared, command, seen, self.setup)
        found["bytecode"] = bytecode.counts()
        found["kboot"] = self.asked.kboot_commit if name.startswith("kboot") else ""
        self.document["boots"].append(found)
        self.save()
        say(f"{label}: ready {found['ready_s']} s, engine {found['engine_ready_s']} s, answer {found['answer_s']} s")
        say(f"{label}: {json.dumps({p: v['seconds'] for p, v in found['phases'].items()})}")
        if found["why"]:
            say(f"{label}: {found['why']}; {found['failure']}")

    def doses(self, cpus: str, threads: list[str]) -> None:
        """Load the weights with each number of threads on a few CPUs."""
        for word in threads:
            if self.left_s() < _WORST_BOOT_S + 20:
                say(f"no time for {word} threads")
                return
            label = f"dose-{word}-{len(self.document['doses']) + 1}"
            command = ways.dose(self.setup, int(word) if word.isdigit() else None, cpus)
            limit_s = min(self.asked.limit_s, self.left_s() - 20)
            seen = watch.watch(command, self.logs / f"{label}.out", limit_s, 0.0, self.gpus)
            (self.logs / f"{label}.log").write_text(watch.stamped(seen))
            found = dose_document(label, word, cpus, command, seen)
            self.document["doses"].append(found)
            self.save()
            say(f"{label}: {json.dumps(found)}")

    def look(self) -> None:
        """Time kboot's own commands on this node's driver and keep what they say."""
        env = ways.kboot_env(self.setup)
        ways.write_profile(self.setup)
        facts = self.asked.work / "facts"
        shutil.rmtree(facts, ignore_errors=True)
        profile = ("--profile", ways.PROFILE)
        found = {}
        for name, words, repeat in (
            ("version", ("--version",), 5),
            ("facts", ("facts", "--json"), 3),
            ("record", ("facts", "--record", str(facts)), 1),
            ("doctor-quick", ("doctor", *profile, "--mode", "quick", "--json"), 3),
            ("doctor-full", ("doctor", *profile, "--mode", "full", "--json"), 1),
            ("doctor-deep", ("doctor", *profile, "--mode", "deep", "--json"), 1),
            ("plan", ("plan", *profile, "--json"), 1),
            ("exec-wrap", ("exec", "--", "/bin/true"), 3),
        ):
            times, cpu_s = [], []
            for _ in range(repeat):
                started, before = time.monotonic(), os.times()
                try:
                    done = subprocess.run(
                        [str(self.setup.kboot), *words], env=env, capture_output=True, timeout=90, check=False
                    )
                except subprocess.TimeoutExpired:
                    times.append(None)
                    continue
                times.append(round(time.monotonic() - started, 3))
                cpu_s.append(round(sum(os.times()[2:4]) - sum(before[2:4]), 3))
                (self.logs / f"look-{name}.json").write_bytes(done.stdout)
                (self.logs / f"look-{name}.err").write_bytes(done.stderr)
            found[name] = {"seconds": times, "cpu_s": cpu_s, "status": done.returncode}
            say(f"kboot {' '.join(words[:1])}: {found[name]}")
        self.document["own"] = found
        if facts.exists():
            with tarfile.open(self.asked.out / "facts.tar.gz", "w:gz") as tar:
                tar.add(facts, "facts")
        self.save()

    def describe(self) -> None:
        """Keep what the node is and how the run was asked for."""
        self.document["date"] = datetime.now(UTC).strftime("%Y-%m-%d")
        self.document["node"] = node.describe(self.setup.python, self.setup.inherited)
        kboot = subprocess.run([str(self.setup.kboot), "--version"], capture_output=True, text=True, check=False)
        self.document["kboot"] = f"{kboot.stdout.strip()} {self.asked.kboot_commit}".strip()
        self.document["stock_command"] = list(ways.stock_argv(self.setup))
        self.document["engine_env"] = dict(self.setup.engine_env)
        weights = sorted(self.setup.model.glob("*.safetensors"))
        self.document["model"] = {"shards": len(weights), "weights_bytes": sum(p.stat().st_size for p in weights)}


def say(text: str) -> None:
    """Say how far the run is."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def main() -> int:
    """Return 0 when every boot that was begun became ready."""
    asked = parser().parse_args()
    run = Run(asked)
    run.checkpoint()
    if asked.only_make:
        return 0
    run.describe()
    bytecode = run.bytecode()
    say(f"bytecode: {bytecode.counts()}")
    try:
        if any(name.startswith("kboot") for name in asked.ways) or asked.look:
            run.start_hub()
        if asked.look:
            run.look()
        for name in asked.ways:
            if run.left_s() < _WORST_BOOT_S + 20:
                say(f"no time for {name}")
                break
            run.boot(name, bytecode)
        if asked.doses:
            bytecode.unpark()
            run.doses(asked.dose_cpus, asked.doses)
    finally:
        run.save()
        if run.hub is not None:
            run.hub.terminate()
            run.hub.wait(10)
    return 0 if all(b["ready_s"] is not None for b in run.document["boots"]) else 1


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--engine", choices=("vllm", "demo"), default="vllm")
    words.add_argument("--python", type=Path, default=Path("/usr/bin/python3"), help="interpreter that has the engine")
    words.add_argument("--gpu", default="H200", help="class of the node's GPUs, as in profiles/nodes")
    words.add_argument("--gpus", type=int, default=2)
    words.add_argument("--port", type=int, default=8123, help="where the engine listens, on loopback")
    words.add_argument("--model", type=Path, help="checkpoint to serve; without it one is made")
    words.add_argument("--make", type=_three, default=(48, 128, 111), metavar="LAYERS,EXPERTS,SHARDS")
    words.add_argument("--tiny", action="store_true", help="make a checkpoint of a few MiB, for trying this script")
    words.add_argument("--only-make", action="store_true", help="make the checkpoint and end")
    words.add_argument("--hub-folder", type=Path, help="copy for the Hub, e.g. in /dev/shm: its reads cost no disk")
    words.add_argument("--engine-arg", action="append", default=[], help="in place of the usual ones; may be repeated")
    words.add_argument("--ways", type=_words, default=tuple(ways.WAYS), help=f"of {', '.join(ways.WAYS)}")
    words.add_argument("--doses", type=_words, default=(), help="thread counts for loading: default,4,8,16")
    words.add_argument("--dose-cpus", default="0-7", help="CPUs that the loader may use")
    words.add_argument("--look", action="store_true", help="time kboot's own commands first, and record the node")
    words.add_argument("--limit-s", type=float, default=400.0, help="for one boot")
    words.add_argument("--until-s", type=float, default=3600.0, help="for the whole run; no boot is begun without time")
    words.add_argument("--serve-s", type=float, default=10.0, help="how long each engine is looked at while it serves")
    words.add_argument("--drop", choices=("node", "files"), default="files", help="what a cold page cache means")
    words.add_argument("--work", type=Path, default=Path("gpu-bench"), help="keeps state between runs")
    words.add_argument("--out", type=Path, default=Path("gpu-bench-results"))
    words.add_argument("--kboot-commit", default="", help="named in the results")
    return words


def _three(text: str) -> tuple[int, int, int]:
    layers, experts, shards = (int(n) for n in text.split(","))
    return layers, experts, shards


def _words(text: str) -> tuple[str, ...]:
    return tuple(w for w in re.split(r"[ ,]+", text) if w)


if __name__ == "__main__":
    raise SystemExit(main())
