import hashlib
import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kboot.demo.checkpoint import make
from kboot.demo.hub import Hub, Pace, link, listen

TOKEN = "hf_opensesame"
SHARD = "model-00001-of-00005.safetensors"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, str]]:
    """Serve a checkpoint of 5 small shards."""
    found = Hub("kboot/demo-moe", make(tmp_path_factory.mktemp("hub"), 5, 0.1), TOKEN)
    servers = listen(found, 0)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found, f"http://127.0.0.1:{servers[0].server_port}"
    for server in servers:
        server.shutdown()
        server.server_close()


Got = tuple[int, dict[str, str], bytes]


def get(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Got:
    """Ask once, redirects not followed."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=30)
    connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body, headers)
    response = connection.getresponse()
    found = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    connection.close()
    return found


class TestListing:
    def test_a_branch_is_a_commit(self, hub: tuple[Hub, str]) -> None:
        """main and the commit itself answer with the same 40 digits and the id as it is spelt (B038)."""
        found, endpoint = hub
        for revision in ("main", found.checkpoint.commit):
            _, _, body = get(f"{endpoint}/api/models/Kboot/Demo-MoE/revision/{revision}")
            info = json.loads(body)

            assert ("kboot/demo-moe", found.checkpoint.commit) == (info["id"], info["sha"])

    def test_the_tree_has_the_hash_of_every_shard(self, hub: tuple[Hub, str]) -> None:
        """LFS entries carry sha256 and size, the small files their git id; every one is that of the bytes."""
        found, endpoint = hub
        _, _, body = get(f"{endpoint}/api/models/kboot/demo-moe/tree/{found.checkpoint.commit}?recursive=true")
        entries = [e for e in json.loads(body) if e["type"] == "file"]

        assert 15 == len(entries)
        for entry in entries:
            data = (found.checkpoint.folder / entry["path"]).read_bytes()
            if "lfs" in entry:
                assert (hashlib.sha256(data).hexdigest(), len(data)) == (entry["lfs"]["oid"], entry["lfs"]["size"])
            else:
                assert hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == entry["oid"]

    def test_paths_info(self, hub: tuple[Hub, str]) -> None:
        """A client may ask for a few paths; unknown ones are left out."""
        _, endpoint = hub
        url = f"{endpoint}/api/models/kboot/demo-moe/paths-info/main"
        _, _, body = get(url, "POST", json.dumps({"paths": ["config.json", "none"]}).encode())

        assert ["config.json"] == [e["path"] for e in json.loads(body)]


class TestResolve:
    def test_a_large_file_is_redirected_to_another_host(self, hub: tuple[Hub, str]) -> None:
        """The redirect itself says commit, hash and size; its target is another origin and needs no token."""
        found, endpoint = hub
        status, headers, _ = get(f"{endpoint}/kboot/demo-moe/resolve/main/{SHARD}", "HEAD")
        file = found.files[SHARD]

        assert (302, found.checkpoint.commit) == (status, headers["x-repo-commit"])
        assert (f'"{file.sha256}"', str(file.size_bytes)) == (headers["x-linked-etag"], headers["x-linked-size"])
        assert urlsplit(endpoint).hostname != urlsplit(headers["location"]).hostname
        assert hashlib.sha256(get(headers["location"])[2]).hexdigest() == file.sha256

    @pytest.mark.parametrize(
        ("asked", "part"),
        [("bytes=0-9", slice(0, 10)), ("bytes=100-", slice(100, None)), ("bytes=-5", slice(-5, None))],
    )
    def test_ranges(self, hub: tuple[Hub, str], asked: str, part: slice) -> None:
        """206 with exactly the bytes asked for."""
        found, _ = hub
        whole = (found.checkpoint.folder / SHARD).read_bytes()
        status, headers, body = get(link(found, str(found.files[SHARD].sha256)), Range=asked)

        assert (206, whole[part]) == (status, body)
        start, stop, _ = part.indices(len(whole))
        assert f"bytes {start}-{stop - 1}/{len(whole)}" == headers["content-range"]

    def test_a_range_past_the_end_is_416_with_the_size(self, hub: tuple[Hub, str]) -> None:
        """B002: a client that already has all learns it from the answer."""
        found, _ = hub
        file = found.files[SHARD]
        status, headers, _ = get(link(found, str(file.sha256)), Range=f"bytes={file.size_bytes}-")

        assert (416, f"bytes */{file.size_bytes}") == (status, headers["content-range"])

    def test_a_small_file_comes_at_once(self, hub: tuple[Hub, str]) -> None:
        """Files kept in git are served by the Hub itself, with their git id as ETag."""
        found, endpoint = hub
        status, headers, body = get(f"{endpoint}/kboot/demo-moe/resolve/main/config.json")

        assert (200, f'"{found.files["config.json"].oid}"') == (status, headers["etag"])
        assert "DemoMoeForCausalLM" in json.loads(body)["architectures"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("path", "token", "status", "code"),
        [
            ("api/models/no/such", "", 401, "RepoNotFound"),
            ("api/models/no/such", TOKEN, 404, "RepoNotFound"),
            ("api/models/private/demo-moe", "", 401, "RepoNotFound"),
            ("api/models/private/demo-moe", TOKEN, 200, None),
            ("api/models/gated/demo-moe", "", 200, None),
            (f"gated/demo-moe/resolve/main/{SHARD}", "", 401, "GatedRepo"),
            (f"gated/demo-moe/resolve/main/{SHARD}", "hf_other", 403, "GatedRepo"),
            (f"gated/demo-moe/resolve/main/{SHARD}", TOKEN, 302, None),
            ("api/models/limited/demo-moe", TOKEN, 429, None),
            ("api/models/kboot/demo-moe/revision/none", "", 404, "RevisionNotFound"),
            ("kboot/demo-moe/resolve/main/none.bin", "", 404, "EntryNotFound"),
            ("nowhere", "", 404, None),
        ],
    )
    def test_each_has_its_form(
        self, hub: tuple[Hub, str], path: str, token: str, status: int, code: str | None
    ) -> None:
        """B025: status and X-Error-Code tell no token, no grant, no repository, no revision and no file apart."""
        _, endpoint = hub
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        found, said, _ = get(f"{endpoint}/{path}", **headers)

        assert (status, code) == (found, said.get("x-error-code"))

    def test_a_rate_limit_says_how_long(self, hub: tuple[Hub, str]) -> None:
        """B018: the headers of the real Hub."""
        _, endpoint = hub
        _, headers, _ = get(f"{endpoint}/api/models/limited/demo-moe")

        assert ('"api";r=0;t=210', "210") == (headers["ratelimit"], headers["retry-after"])

    def test_a_link_runs_out(self, hub: tuple[Hub, str]) -> None:
        """B021: 403 with the CDN's XML; a new resolve gives a link that works."""
        found, _ = hub
        sha256 = str(found.files[SHARD].sha256)
        old = Hub(found.repo, found.checkpoint, link_ttl_s=-1, key=found.key)
        old.cdn = found.cdn
        status, _, body = get(link(old, sha256))

        assert 403 == status
        assert b"<Message>Request has expired</Message>" in body
        assert 200 == get(link(found, sha256), "HEAD")[0]

    def test_a_link_cannot_be_made_up(self, hub: tuple[Hub, str]) -> None:
        """Another hash, another time or no signature: Access Denied."""
        found, _ = hub
        good = link(found, str(found.files[SHARD].sha256))

        assert [403, 403] == [get(good.replace("Expires=", "Expires=9"))[0], get(good.partition("?")[0])[0]]

    def test_the_cdn_takes_no_token(self, hub: tuple[Hub, str]) -> None:
        """As S3 refuses a signed link with an Authorization header: a client that leaks its token is found out."""
        found, _ = hub

        assert 400 == get(link(found, str(found.files[SHARD].sha256)), Authorization=f"Bearer {TOKEN}")[0]


def client(endpoint: str, home: Path, *command: str, token: str = "") -> subprocess.CompletedProcess[str]:
    """Run a real client against the Hub."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": endpoint,
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_COLOR": "1",
        **({"HF_TOKEN": token} if token else {}),
    }
    return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, timeout=100)


def same_bytes(snapshot: Path, found: Hub) -> list[str]:
    """Return the files of the snapshot, each compared with the Hub's."""
    paths = sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file())
    for path in paths:
        assert (snapshot / path).read_bytes() == (found.checkpoint.folder / path).read_bytes()
    return paths


class TestRealClient:
    def test_snapshot_download(self, hub: tuple[Hub, str], tmp_path: Path) -> None:
        """huggingface_hub fetches the whole repository, redirects included, and every byte is right."""
        found, endpoint = hub
        code = "from huggingface_hub import snapshot_download as d; print(d('kboot/demo-moe', max_workers=4))"
        done = client(endpoint, tmp_path, "-c", code)

        assert 0 == done.returncode, done.stderr
        assert sorted(found.files) == same_bytes(Path(done.stdout.strip().splitlines()[-1]), found)

    def test_hf_download_of_a_gated_repository(self, hub: tuple[Hub, str], tmp_path: Path) -> None:
        """`hf download` with the token is let in, and does not carry the token to the CDN."""
        found, endpoint = hub
        hf = ("-m", "huggingface_hub.cli.hf", "download", "gated/demo-moe", "--include", "model-*")
        done = client(endpoint, tmp_path, *hf, token=TOKEN)
        (snapshot,) = (tmp_path / "hf/hub/models--gated--demo-moe/snapshots").iterdir()

        assert 0 == done.returncode, done.stderr
        assert 5 == len(same_bytes(snapshot, found))

    def test_a_cut_file_is_resumed_by_range(self, hub: tuple[Hub, str], tmp_path: Path) -> None:
        """The client's own file transfer asks for the rest and gets it."""
        found, endpoint = hub
        part = tmp_path / "part"
        part.write_bytes((found.checkpoint.folder / SHARD).read_bytes()[:1000])
        code = (
            "import sys; from huggingface_hub.file_download import http_get;"
            f"f = open({str(part)!r}, 'ab'); http_get(sys.argv[1], f, resume_size=1000); f.close()"
        )
        done = client(endpoint, tmp_path, "-c", code, f"{endpoint}/kboot/demo-moe/resolve/main/{SHARD}")

        assert 0 == done.returncode, done.stderr
        assert (found.checkpoint.folder / SHARD).read_bytes() == part.read_bytes()


class TestProgram:
    def start(self, data: Path, *args: str) -> subprocess.Popen[str]:
        """Start the program."""
        command = [
            sys.executable,
            "-m",
            "kboot.demo.hub",
            "--data",
            str(data),
            "--shards",
            "3",
            "--mib-per-shard",
            "0.1",
        ]
        return subprocess.Popen([*command, *args], stdout=subprocess.PIPE, text=True)

    def test_it_says_where_it_listens_and_ends_on_sigterm(self, tmp_path: Path) -> None:
        """One JSON line on stdout, the same in the port file, status 0."""
        program = self.start(tmp_path, "--port-file", str(tmp_path / "port"))
        assert program.stdout is not None
        line = json.loads(program.stdout.readline())
        status, _, _ = get(f"{line['endpoint']}/api/models/{line['repo']}")
        program.terminate()

        assert 200 == status
        assert line == json.loads((tmp_path / "port").read_text())
        assert 0 == program.wait(30)

    def test_it_ends_with_its_parent(self, tmp_path: Path) -> None:
        """--with-parent: no Hub is left when the demo that started it is killed."""
        code = (
            "import subprocess, sys, time;"
            "subprocess.Popen([sys.executable, '-m', 'kboot.demo.hub', '--with-parent', '--shards', '3',"
            "'--mib-per-shard', '0.1', '--data', sys.argv[1]]); time.sleep(600)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
        parent.wait(30)

        assert "" == parent.stdout.read()  # the pipe is closed: whoever held it has ended

    def test_a_port_that_is_taken_is_one_line(self, tmp_path: Path, hub: tuple[Hub, str]) -> None:
        """No traceback, status 1."""
        _, endpoint = hub
        command = [sys.executable, "-m", "kboot.demo.hub", "--data", str(tmp_path), "--shards", "3"]
        done = subprocess.run(
            [*command, "--mib-per-shard", "0.1", "--port", str(urlsplit(endpoint).port)],
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert (1, 1) == (done.returncode, len(done.stderr.splitlines()))
        assert "Address already in use" in done.stderr


def test_a_rate_holds_over_all_connections() -> None:
    """At 100 bytes/s, three senders of 50 bytes at one time go now, after half a second and after a second."""
    pace = Pace(100.0)

    assert [0.0, 0.5, 1.0] == [pace.wait_s(50, 10.0) for _ in range(3)]
    assert 0.0 == pace.wait_s(50, 20.0)


def test_a_hub_with_a_rate_sends_the_same_bytes(tmp_path: Path) -> None:
    """In pieces or at once, the file is the file."""
    found = Hub("kboot/demo-moe", make(tmp_path, 3, 1), rate_mib_s=1000)
    servers = listen(found, 0)
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    (file,) = [f for f in found.blobs.values() if f.path == "model-00002-of-00003.safetensors"]
    _, _, body = get(link(found, str(file.sha256)))
    for server in servers:
        server.shutdown()
        server.server_close()

    assert file.sha256 == hashlib.sha256(body).hexdigest()
