"""Wherever a canary is planted in a tree, a sealed image does not hold it, or is told where it was not looked for."""

from __future__ import annotations

import gzip
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path

import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kboot.facts.residue import ImageFolders
from kboot.host.image import ImageTree
from kboot.host.real import RealHost
from kboot.report.sealed import SealReport
from kboot.sealing import SealAsk, seal_image

CANARIES = (
    "hf_" + "CanaryCanary0123456789",
    "ghp_" + "Canary" * 6,
    "glpat-" + "Canary-0123456789abcd",
    "AKIA" + "CANARY0123456789",
    "-----BEGIN PRIVATE" + " KEY-----\n" + "Canary01" * 8 + "\n-----END PRIVATE" + " KEY-----",
    "eyJhbGciOiJI.eyJzdWIiOiJD." + "Canary" * 6,
)
TOPS = (
    *(
        "boot",
        "etc",
        "etc/NetworkManager/system-connections",
        "etc/default",
        "etc/kboot",
        "etc/systemd/system/a.service.d",
    ),
    *(
        "home/a",
        "home/a/.cache/tool",
        "home/a/.config/app",
        "home/a/.docker",
        "home/a/work/.git",
        "mnt",
        "opt/app",
        "opt",
    ),
    *("root", "root/.ssh", "run/app", "run/kboot", "srv", "tmp", "usr/local/share", "usr/share/doc", "var/cache/app"),
    *(
        "var/lib/cloud/instances/i-1",
        "var/lib/cloud/seed/nocloud",
        "var/lib/kboot",
        "var/lib/kboot/cache/key",
        "var/log",
    ),
    *("var/log/journal/0123", "var/spool/mail", "srv/venv/lib/python3.12/site-packages", "var/tmp"),
)
NAMES = (
    *(
        "a",
        "a.txt",
        "a.conf",
        "a.log",
        "a.log.1",
        "a.log.2",
        ".bash_history",
        ".bashrc",
        ".env",
        ".netrc",
        ".npmrc",
        "config",
    ),
    *("authorized_keys", "id_ed25519", "pip.conf", "known_hosts", "user-data", "env", "a.toml", "a.zip", "a.so", "ä b"),
)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompress(data),
}
PLANT = st.tuples(
    st.sampled_from(TOPS),
    st.sampled_from(NAMES),
    st.sampled_from(sorted(PACKERS)),
    st.sampled_from(CANARIES),
    st.sampled_from(("", "key = ", "HF_TOKEN=", "https://u:", '{"auths": "')),
)


def holds(path: Path, canary: bytes) -> bool:
    data = path.read_bytes()
    unpack = UNPACKERS.get(path.suffix)
    return canary in data or (bool(data) and unpack is not None and canary in unpack(data))


def sealed(root: Path) -> SealReport:
    return seal_image(ImageTree(root), ImageFolders(), RealHost(), {}, SealAsk(login_keys=True))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PLANT, min_size=1, max_size=6, unique_by=lambda plant: plant[:3]))
@example([("var/log", "a.log.2", ".gz", CANARIES[0], "")])
@example([("usr/share/doc", "a", "", CANARIES[0], ""), ("opt/app", "a", ".xz", CANARIES[4], "key = ")])
def test_a_canary_is_gone_or_named_or_was_told_not_to_be_looked_for(
    plants: list[tuple[str, str, str, str, str]],
) -> None:
    """A file that holds one after sealing stands in the error, or lies where the report says that nothing was read."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for top, name, end, canary, before in plants:
            (root / top).mkdir(parents=True, exist_ok=True)
            (root / top / f"{name}{end}").write_bytes(PACKERS[end](f"{before}{canary}\n".encode()))
        report = sealed(root)
        blocked = {r.path for r in report.remains if r.blocks}
        for top, name, end, canary, _ in plants:
            path = f"{top}/{name}{end}"
            if path in blocked or not (root / path).exists() or not holds(root / path, canary.encode()):
                continue
            assert top in ("boot", "usr/share/doc", "srv/venv/lib/python3.12/site-packages") or end + name[-4:] in (
                *(".zip", "a.so"),
            ), path
            assert report.searched.passed, path
        assert () == report.left
        assert (report.error is not None) == bool(blocked)
