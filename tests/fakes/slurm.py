"""A Slurm of a head and nodes, each a host of a network of its own: Debian's slurmctld, slurmd and munged, as they are.

Every host has its own name and its own /etc, /opt, /run and /var/lib, laid over the machine's; nothing of them stays.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fakes import cluster as network
from fakes.cluster import Cluster

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "unshare")
DEADLINE_S = 90.0
_PLACES = ("etc", "opt", "run", "var/lib")
_HEAD = "kbhead"
_CONF = """\
ClusterName=kboot
SlurmctldHost={head}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
KillWait=20
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
Prolog={prolog}
PrologFlags=Alloc
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Return why no Slurm can be started here; empty when it can."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    return network.why_not()


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Slurm:
    """A cluster whose host 0 is the head. Hosts 1 to `nodes` are Slurm's, by the names that `name` gives."""

    cluster: Cluster
    folder: Path
    nodes: int
    partition: str
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def name(self, host: int) -> str:
        """Return a host's name."""
        return f"kbs{host}" if host else _HEAD

    def place(self, host: int, path: str) -> Path:
        """Return where a file of a host lies; path: as the host sees it."""
        top = next(top for top in _PLACES if path.startswith(f"/{top}/"))
        found = self.folder / self.name(host) / top.replace("/", "-") / "upper" / path[len(top) + 2 :]
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def ask(self, *argv: str) -> str:
        """Run a program of Slurm's on the head and return what it says."""
        env = {"PATH": f"{os.environ['PATH']}:/usr/sbin", "SLURM_CONF": str(self.folder / "slurm.conf")}
        done = subprocess.run(
            [*self.cluster.inside(0), *argv],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout.strip()

    def until(self, wanted: Callable[[], bool], what: str) -> None:
        """Wait for something that Slurm does."""
        deadline = time.monotonic() + DEADLINE_S
        while not wanted():
            ended = [process.args for process in self.running if process.poll() is not None]
            assert not ended and time.monotonic() < deadline, f"{what}; ended: {ended}\n{self.said()}"
            time.sleep(0.1)

    def said(self) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"{path}:\n{path.read_text()[-2500:]}" for path in sorted(self.folder.glob("*.log")))

    def start(self, prolog: Path) -> None:
        """Start everything and wait until every node may be given work."""
        nodes = "\n".join(
            f"NodeName={self.name(n)} NodeAddr={self.cluster.address(n)} CPUs=2 Gres=gpu:8 State=UNKNOWN"
            for n in range(1, self.nodes + 1)
        )
        names = {n: self.name(n) for n in range(self.nodes + 1)}
        hosts = "127.0.0.1 localhost\n" + "".join(f"{self.cluster.address(n)} {name}\n" for n, name in names.items())
        conf = _CONF.format(
            head=_HEAD,
            address=self.cluster.address(0),
            folder=self.folder,
            prolog=prolog,
            nodes=nodes,
            partition=self.partition,
        )
        (self.folder / "slurm.conf").write_text(conf)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-7]\n")
        for number in range(8):
            os.mknod(self.folder / f"gpu{number}", stat.S_IFCHR | 0o600, os.makedev(1, 3))  # counted, and never opened
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o600)
        (self.folder / "state").mkdir()
        for n in names:
            self.place(n, "/etc/hosts").write_text(hosts)
        where = {
            name: f"--{name}={self.folder}/munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")
        }
        self._run(0, "munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key", *where.values())
        self.until((self.folder / "munge.socket").exists, "munged does not listen")
        conf_file = str(self.folder / "slurm.conf")
        self._run(0, "slurmctld", "-D", "-f", conf_file)
        for n in range(1, self.nodes + 1):
            self._run(n, "slurmd", "-D", "-f", conf_file)
        self.until(lambda: self.ask("sinfo", "-h", "-o", "%D %t") == f"{self.nodes} idle", "not every node is idle")

    def _run(self, host: int, program: str, *arguments: str) -> None:
        self.running.append(
            self.cluster.start(host, self._inside(host, _program(program) or program, *arguments), _ENV)
        )

    def _inside(self, host: int, *argv: str) -> list[str]:
        """Return the words that run a program under the host's name, with the host's folders."""
        lines = ["set -e", f"hostname {self.name(host)}"]
        for top in _PLACES:
            layer = self.folder / self.name(host) / top.replace("/", "-")
            for part in ("upper", "work"):
                (layer / part).mkdir(parents=True, exist_ok=True)
            options = f"lowerdir=/{top},upperdir={layer}/upper,workdir={layer}/work"
            lines.append(f"mount -t overlay overlay -o {options} /{top}")
        lines.append('exec "$@"')
        own = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]  # a job ends with its host
        return ["unshare", *own, "sh", "-c", "\n".join(lines), "sh", *argv]


_ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@contextmanager
def slurm(folder: Path, nodes: int, partition: str) -> Iterator[Slurm]:
    """Give a Slurm that has not been started."""
    with Cluster(nodes + 1) as cluster:
        made = Slurm(cluster, folder, nodes, partition)
        try:
            yield made
        finally:
            for process in reversed(made.running):
                process.kill()
                process.wait(30)
