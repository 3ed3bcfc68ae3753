"""Fetching whole checkpoints from real servers on loopback, honest and lying."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fakes.fetching import ASK, IMPATIENT, fetch, listing_of, sources_of
from fakes.hub import COMMIT, REPO, Chunked, Cut, FakeHub, Flip, Headers, Slow, Stall, Status, Whole
from fakes.lying import LyingServer, pattern
from kboot.apply.fetch import count_streams
from kboot.checkpoint import Listing, RemoteFile
from kboot.profile.types import FetchAsk
from kboot.store.part_trust import have_bytes

CASES = Path(__file__).parents[1] / "cases"
SHARD = "model-00001-of-00002.safetensors"
SHA256 = "d41d438c379110c7f7b2c561b1f04f26c1b4549110791f8e022f48974280c13e"
CASE_LISTING = Listing(REPO, "main", COMMIT, (RemoteFile(SHARD, 4096, SHA256, SHA256),), (), "case")


def data(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


FILES = {
    "model-00001-of-00003.safetensors": data(3_000_000, 1),
    "model-00002-of-00003.safetensors": data(3_000_001, 2),
    "model-00003-of-00003.safetensors": data(17, 3),
    "config.json": b'{"model_type": "tiny"}',
    "empty.txt": b"",
}
ONE = {SHARD: data(2_500_000, 4)}


def test_files_arrive_whole_under_their_hashes(tmp_path: Path) -> None:
    """Every file, LFS or git, large or empty, ends under its blob's name with its content; nothing else is left."""
    with FakeHub(FILES) as hub:
        got = fetch(tmp_path, FILES, sources_of(hub.url))

    assert [] == got.errors
    assert FILES == {path: got.blob(path) for path in FILES}
    assert [] == got.leftovers()
    assert sorted(FILES) == sorted(e.path for e in got.done)
    assert {f"hub {hub.url}"} == {o.source for o in got.outcomes if o.size_bytes}
    assert ["verified"] * len(FILES) == [local.state for local in got.store.local(got.listing)]


def test_one_request_per_file(tmp_path: Path) -> None:
    """Nothing is asked but the bytes themselves, once: no HEAD, no probe."""
    with FakeHub(FILES) as hub:
        fetch(tmp_path, FILES, sources_of(hub.url))

    wanted = sorted(path for path in FILES if FILES[path])  # an empty file is known without asking
    assert wanted == sorted(r.path.rpartition("/")[2] for r in hub.requests)


def test_two_files_with_one_content_are_fetched_once(tmp_path: Path) -> None:
    """A blob that two paths share moves once and both files count as done."""
    files = {"a.safetensors": ONE[SHARD], "b.safetensors": ONE[SHARD]}
    with FakeHub(files) as hub:
        got = fetch(tmp_path, files, sources_of(hub.url))

    assert ["done", "done"] == [o.status for o in got.outcomes]
    assert 1 == len(hub.requests)


def test_a_body_that_ends_early_goes_on_from_its_last_byte(tmp_path: Path) -> None:
    """B001: 3727 of 4096 bytes come, the rest is asked for from byte 3727 on."""
    with LyingServer.of_case(CASES / "B001") as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url))

    assert ["", "bytes=3727-"] == [r.range for r in server.requests]
    assert pattern(4096) == got.blob(SHARD)
    assert ["short-body"] == got.troubles


def test_a_short_file_never_gets_its_name(tmp_path: Path) -> None:
    """B001: after the last try the file fails, naming file, got and wanted; what came is kept."""
    with FakeHub(ONE) as hub:
        hub.every_file = Cut(1000)
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert ["short-body"] == got.errors
    assert ASK.attempts == len(hub.requests)
    assert None is got.blob(SHARD)
    assert ASK.attempts * 1000 == got.kept_bytes(SHARD)
    (outcome,) = got.outcomes
    assert outcome.error and SHARD in outcome.error.where[0]


def test_the_list_of_files_is_kept_before_the_first_byte(tmp_path: Path) -> None:
    """Cut off before any file is whole, a node still knows what it wants when its origin has gone."""
    with FakeHub(ONE) as hub:
        hub.every_file = Cut(0)
        got = fetch(tmp_path, ONE, sources_of(hub.url))
    kept = got.store.known_listing(REPO, COMMIT)

    assert None is got.blob(SHARD)
    assert kept
    assert got.listing.files == kept.files


def put_part(folder: Path, content: bytes, journal: bool = False) -> None:
    """Put another downloader's partial where kboot's would be."""
    from fakes.checkpoints import paths_in
    from kboot.store.store import Store

    part = Store(paths_in(folder)).part_path(REPO, SHA256)
    part.parent.mkdir(parents=True)
    part.write_bytes(content)


def test_a_partial_of_full_size_is_hashed_not_asked_for(tmp_path: Path) -> None:
    """B002: a whole partial of the right bytes gets its name without one request."""
    (whole,) = (CASES / "B002" / "disk" / "blobs").iterdir()
    put_part(tmp_path, whole.read_bytes())
    with LyingServer.of_case(CASES / "B002") as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url))

    assert [] == server.requests
    assert pattern(4096) == got.blob(SHARD)
    assert ("this disk", 4096) == (got.done[0].source, got.done[0].reused_bytes)


def test_a_whole_partial_of_wrong_bytes_is_fetched_again(tmp_path: Path) -> None:
    """B002: a whole partial of wrong bytes is thrown away and fetched from byte 0, without a loop of 416."""
    (bad,) = (CASES / "B002" / "disk_bad" / "blobs").iterdir()
    put_part(tmp_path, bad.read_bytes())
    with FakeHub({SHARD: pattern(4096)}) as hub:
        got = fetch(tmp_path, CASE_LISTING, sources_of(hub.url))

    assert [""] == [r.range for r in hub.requests]
    assert pattern(4096) == got.blob(SHARD)
    assert [] == [n for n in got.notices if n == "source.demoted"], "the disk was wrong, not the source"


def test_a_partial_that_is_too_long_is_thrown_away(tmp_path: Path) -> None:
    """B005: 4200 bytes of a file of 4096 are never resumed; both numbers are told."""
    (long,) = (CASES / "B005" / "disk" / "blobs").iterdir()
    put_part(tmp_path, long.read_bytes())
    with LyingServer.of_case(CASES / "B005") as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url))

    assert [""] == [r.range for r in server.requests]
    assert pattern(4096) == got.blob(SHARD)
    (notice,) = [e for e in got.events if getattr(e, "event", "") == "partial.discarded"]
    assert "4200" in notice.text and "4096" in notice.text  # type: ignore[union-attr]


def test_silence_is_not_waited_out(tmp_path: Path) -> None:
    """B006: a body that stops at byte 1700 with the connection open fails after the stall timeout, bytes kept."""
    with LyingServer.of_case(CASES / "B006") as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url, ask=IMPATIENT), replace(ASK, attempts=2))

    assert ["source-silent"] == got.errors
    assert ["", "bytes=1700-"] == [r.range for r in server.requests]
    assert 1700 == got.kept_bytes(SHARD)
    (outcome,) = got.outcomes
    assert outcome.error and server.url.removeprefix("http://") in outcome.error.message


def test_silence_of_one_source_moves_the_file_to_another(tmp_path: Path) -> None:
    """B006: where there is a second source, it delivers the rest."""
    with FakeHub(ONE) as first, FakeHub(ONE) as second:
        first.every_file = Stall(1_000_000)
        got = fetch(tmp_path, ONE, sources_of(first.url, second.url, ask=IMPATIENT), replace(ASK, attempts=1))

    assert ONE[SHARD] == got.blob(SHARD)
    assert ["bytes=1000000-"] == [r.range for r in second.requests]


def test_an_expired_link_is_asked_for_again_and_goes_on(tmp_path: Path) -> None:
    """B021: 403 from the link's host leads back to the Hub; the new link is asked from byte 2000 on."""
    with LyingServer.of_case(CASES / "B021") as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url))

    assert pattern(4096) == got.blob(SHARD)
    name = f"/{REPO}/resolve/{COMMIT}/{SHARD}"
    assert [name, "/1", "/1", name, "/2"] == [r.path for r in server.requests]
    assert "bytes=2000-" == server.requests[-1].range


def test_a_link_is_resolved_once_per_file(tmp_path: Path) -> None:
    """Tries after a cut go straight to the link, and never show it the token."""
    with FakeHub(ONE, cdn=True, token="hf_secretsecret") as hub:
        hub.fault(SHARD, Cut(900_000), Cut(900_000))
        got = fetch(tmp_path, ONE, sources_of(hub.url, env={"HF_TOKEN": "hf_secretsecret"}))

    assert ONE[SHARD] == got.blob(SHARD)
    assert ["hub", "cdn", "cdn", "cdn"] == [r.origin for r in hub.requests]
    assert [True, False, False, False] == ["authorization" in r.headers for r in hub.requests]


def test_a_file_without_a_length_is_fine(tmp_path: Path) -> None:
    """B022: the size comes from the listing; a body without Content-Length is read to its end."""
    files = {"config.json": b"{}"}
    with FakeHub(files) as hub:
        hub.fault("config.json", Headers({"Content-Length": None}))
        got = fetch(tmp_path, files, sources_of(hub.url))

    assert b"{}" == got.blob("config.json")


def test_a_relative_redirect_is_followed_with_the_token(tmp_path: Path) -> None:
    """B023: a first hop without an ETag that leads to the same host is no obstacle."""
    path = f"/{REPO}/resolve/{COMMIT}/{SHARD}"
    rules = [
        {"match": {"method": "GET", "path": path}, "reply": {"status": 307, "headers": {"Location": "/cache/x"}}},
        {
            "match": {"method": "GET", "path": "/cache/x"},
            "reply": {"status": 200, "headers": {"Content-Length": "4096"}, "body": {"bytes": 4096}},
        },
    ]
    with LyingServer(rules) as server:
        got = fetch(tmp_path, CASE_LISTING, sources_of(server.url, env={"HF_TOKEN": "hf_secretsecret"}))

    assert pattern(4096) == got.blob(SHARD)
    assert ["Bearer hf_secretsecret"] * 2 == [r.headers.get("authorization") for r in server.requests]


def test_a_gated_repository_is_asked_once(tmp_path: Path) -> None:
    """B025: 403 GatedRepo closes the source for all files after one request per stream, and names the token's place."""
    with FakeHub(FILES) as hub:
        hub.every_file = Status(403, {"X-Error-Code": "GatedRepo"})
        got = fetch(tmp_path, FILES, sources_of(hub.url, env={"HF_TOKEN": "hf_secretsecret"}), replace(ASK, streams=1))

    asked = [path for path in FILES if FILES[path]]
    assert ["auth-gated"] * len(asked) == got.errors
    assert 1 == len(hub.requests)
    error = got.outcomes[0].error
    assert error and "HF_TOKEN" in error.message and "hf_secret" not in str(error.to_json())


def test_refused_files_do_not_stop_the_others(tmp_path: Path) -> None:
    """B051: two of five objects answer 403 for good: three are kept, two fail with the host, nothing loops."""
    files = {f"model-{n}.safetensors": data(50_000, n) for n in range(5)}
    with FakeHub(files, cdn=True) as hub:
        for name in ("model-1.safetensors", "model-3.safetensors"):
            hub.fault(name, *[Status(403, {}, "<Error><Code>AccessDenied</Code></Error>")] * 9)
        got = fetch(tmp_path, files, sources_of(hub.url))

    assert ["done", "failed", "done", "failed", "done"] == [o.status for o in got.outcomes]
    assert ["refused-by-store"] * 2 == got.errors
    assert 1 == sum(r.origin == "cdn" for r in hub.asked("model-1.safetensors"))
    error = got.outcomes[1].error
    assert error and hub.cdn_url.removeprefix("http://") in error.message


def test_bytes_come_from_the_commit_that_was_listed(tmp_path: Path) -> None:
    """B042: requests name the 40-digit commit, so a branch that moves meanwhile changes nothing."""
    content = b'{"v":1}'
    files = {"config.json": content}
    listing = listing_of(files)
    with LyingServer.of_case(CASES / "B042") as server:
        got = fetch(tmp_path, replace(listing, commit="1" * 40), sources_of(server.url))

    assert content == got.blob("config.json")


def test_an_answer_of_another_commit_is_refused(tmp_path: Path) -> None:
    """B042: a server that says it answers with another commit is not believed, before its bytes are read."""
    with FakeHub(ONE) as hub:
        hub.every_file = Headers({"X-Repo-Commit": "2" * 40})
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert ["other-commit"] == got.errors


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Headers({"Content-Encoding": "gzip"}), "transformed-body"),
        (Headers({"Content-Length": "5"}), "size-mismatch"),
        (Headers({"Content-Length": None, "Transfer-Encoding": "gzip"}), "transformed-body"),
        (Status(200, {}, "<html>log in</html>"), "size-mismatch"),
        (Status(404, {"X-Error-Code": "EntryNotFound"}), "file-not-found"),
        (Status(418), "unexpected-status"),
        (Status(206), "range-lie"),
    ],
)
def test_an_answer_that_cannot_be_right_is_not_read(tmp_path: Path, fault: Headers | Status, code: str) -> None:
    """A lie in the head of an answer is final for the source: one request, one clear code."""
    with FakeHub(ONE) as hub:
        hub.every_file = fault
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert [code] == got.errors
    assert 1 == len(hub.requests)


@pytest.mark.parametrize(
    "lie",
    [
        Whole(),
        Chunked(),
        Headers({"Content-Range": "bytes 0-1/2"}),
        Headers({"Content-Range": None}),
        Status(416, {"Content-Range": "bytes */2500000"}),
        Status(503),
        Status(500, {"Retry-After": "0"}),
        Cut(0),
    ],
)
def test_a_lie_about_a_range_does_not_spoil_the_file(tmp_path: Path, lie: Whole | Chunked | Headers | Status) -> None:
    """After a cut, whatever a server answers to the range, the file comes right: from it, or from the next source."""
    with FakeHub(ONE) as hub, FakeHub(ONE) as mirror:
        hub.fault(SHARD, Cut(1_000_000), lie)
        got = fetch(tmp_path, ONE, sources_of(hub.url, mirror.url))

    assert ONE[SHARD] == got.blob(SHARD)


def test_a_chunked_body_is_a_body(tmp_path: Path) -> None:
    """A server that gives no length but chunks delivers all the same."""
    with FakeHub(ONE) as hub:
        hub.every_file = Chunked()
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert ONE[SHARD] == got.blob(SHARD)


def test_wrong_bytes_come_from_elsewhere_the_second_time(tmp_path: Path) -> None:
    """One flipped bit: the file is thrown away, its source named and demoted, and another source delivers it."""
    with FakeHub(ONE) as hub, FakeHub(ONE) as mirror:
        hub.every_file = Flip(1_234_567)
        got = fetch(tmp_path, ONE, sources_of(hub.url, mirror.url))

    assert ONE[SHARD] == got.blob(SHARD)
    assert [mirror.url] == [o.source for o in got.outcomes]
    (notice,) = [e for e in got.events if getattr(e, "event", "") == "source.demoted"]
    assert hub.url in notice.text  # type: ignore[union-attr]


def test_a_file_comes_right_while_one_source_has_it_right(tmp_path: Path) -> None:
    """Each source in turn is the only one that has a file right, and each was caught with more than one wrong."""
    sizes = (60_000, 50_000, 40_000, 30_000, 20_000, 10_000)
    files = {f"{n}.safetensors": random.Random(n).randbytes(size) for n, size in enumerate(sizes)}
    with FakeHub(files) as one, FakeHub(files) as two, FakeHub(files) as three:
        hubs = (one, two, three)
        for n, path in enumerate(files):
            for hub in hubs[: n % 3] + hubs[n % 3 + 1 :]:
                hub.fault(path, *[Flip(1_000)] * 9)
        got = fetch(tmp_path, files, sources_of(*(hub.url for hub in hubs)), replace(ASK, streams=1))

    assert [] == got.errors
    assert files == {path: got.blob(path) for path in files}


def test_wrong_bytes_twice_are_final(tmp_path: Path) -> None:
    """A lone source that delivers wrong bytes twice is named, and none of them is kept."""
    with FakeHub(ONE) as hub:
        hub.every_file = Flip(1_234_567)
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert ["shard-hash-mismatch"] == got.errors
    assert 2 == len(hub.requests)
    assert [] == got.leftovers()
    error = got.outcomes[0].error
    assert error and hub.url in error.where[0] and 12 == error.status


def test_a_rate_limit_holds_everybody(tmp_path: Path) -> None:
    """429 with Retry-After: nobody asks again before it is over, and the answer is no failed try."""
    with FakeHub(FILES) as hub:
        for path in FILES:
            hub.fault(path, Status(429, {"Retry-After": "1"}))
        got = fetch(tmp_path, FILES, sources_of(hub.url), replace(ASK, attempts=1))

    assert [] == got.errors
    assert FILES == {path: got.blob(path) for path in FILES}
    assert 1 <= got.notices.count("source.limited")


def test_a_failing_server_is_tried_again(tmp_path: Path) -> None:
    """5xx twice and then the bytes: two tries failed, the file is right."""
    with FakeHub(ONE) as hub:
        hub.fault(SHARD, Status(502), Status(503))
        got = fetch(tmp_path, ONE, sources_of(hub.url))

    assert ONE[SHARD] == got.blob(SHARD)
    assert ["source-failing", "source-failing"] == got.troubles


def test_the_first_cause_is_reported(tmp_path: Path) -> None:
    """B027: with a Hub that refuses the token and a mirror that has nothing, the token is the error."""
    with FakeHub(ONE, token="hf_right") as hub, FakeHub({}) as mirror:
        got = fetch(tmp_path, ONE, sources_of(hub.url, mirror.url, env={"HF_TOKEN": "hf_wrongwrong"}))

    assert ["auth"] == got.errors
    error = got.outcomes[0].error
    assert error and "401" in error.message and mirror.url in error.where[-1]


def test_a_folder_delivers_bytes(tmp_path: Path) -> None:
    """A file:// source gives what a Hub cannot, and its bytes are proven like any others."""
    folder = tmp_path / "nfs"
    folder.mkdir()
    (folder / SHARD).write_bytes(ONE[SHARD])
    with FakeHub({}) as hub:
        got = fetch(tmp_path, ONE, sources_of(hub.url, f"file://{folder}"))

    assert ONE[SHARD] == got.blob(SHARD)
    assert [f"file://{folder}"] == [o.source for o in got.outcomes]


def test_one_bad_copy_in_a_folder_costs_only_that_file(tmp_path: Path) -> None:
    """The folder is named for it; its good files come from there all the same."""
    folder = tmp_path / "nfs"
    folder.mkdir()
    for path, content in FILES.items():
        (folder / path).write_bytes(content)
    largest = max(FILES, key=lambda path: len(FILES[path]))
    (folder / largest).write_bytes(b"x" + FILES[largest][1:])
    ask = replace(ASK, streams=1)  # one after the other, the largest first
    with FakeHub(FILES) as hub:
        got = fetch(tmp_path, FILES, sources_of(hub.url, f"file://{folder}")[::-1], ask)

    assert FILES == {path: got.blob(path) for path in FILES}
    assert [largest] == [o.title.split()[1] for o in got.outcomes if o.source == f"hub {hub.url}"]
    assert ["source.demoted"] == got.notices


def test_full_disk_is_known_before_the_first_byte(tmp_path: Path) -> None:
    """A file larger than the disk fails with what is needed; nothing is asked and nothing is left."""
    huge = RemoteFile("huge.safetensors", 1 << 60, "a" * 64, "a" * 64)
    listing = Listing(REPO, "main", COMMIT, (huge,), (), "test")
    with FakeHub({}) as hub:
        got = fetch(tmp_path, listing, sources_of(hub.url))

    assert ["disk-too-small"] == got.errors
    error = got.outcomes[0].error
    assert error and 15 == error.status and "need 1153 PB more" in error.message
    assert [] == hub.requests
    assert [] == got.leftovers()


@cache
def big() -> dict[str, bytes]:
    return {"big.safetensors": data(80 << 20, 9)}


def test_a_lone_slow_file_is_fetched_by_several_streams(tmp_path: Path) -> None:
    """Where one connection is slow, idle streams take pieces of the file; the hash still follows from the front."""
    with FakeHub(big(), rate_bytes_s=16 << 20) as hub:
        got = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=4))

    assert big()["big.safetensors"] == got.blob("big.safetensors")
    ranges = {r.range for r in hub.requests}
    assert 3 <= len(ranges) and "" in ranges


def test_stopping_keeps_what_arrived(tmp_path: Path) -> None:
    """When kboot is told to stop, what has arrived is durable, and the next run asks only for the rest."""
    stop, begun = threading.Event(), threading.Event()
    with FakeHub(big(), rate_bytes_s=16 << 20) as hub:
        threading.Thread(target=lambda: (begun.wait(30), stop.set()), daemon=True).start()
        got = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=1), stop, on_event=begun)
        kept = got.kept_bytes("big.safetensors")
        hub.requests.clear()
        hub.rate_bytes_s = 0
        again = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=1))

    assert ["interrupted"] == got.errors
    assert 0 < kept < 80 << 20
    assert [f"bytes={kept}-"] == [r.range for r in hub.requests]
    assert big()["big.safetensors"] == again.blob("big.safetensors")
    assert kept == again.done[0].reused_bytes


CHILD = """
import sys
from pathlib import Path
from dataclasses import replace
from fakes.fetching import ASK, IMPATIENT, fetch, sources_of
from kboot.checkpoint import Listing, RemoteFile
folder, url, sha256, size = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
listing = Listing("org/m", "main", "c" * 40, (RemoteFile("big.safetensors", size, sha256, sha256),), (), "test")
got = fetch(folder, listing, sources_of(url), replace(ASK, streams=2))
print(got.errors)
"""


def test_kill_9_loses_nothing_that_was_noted(tmp_path: Path) -> None:
    """A process killed in mid-fetch: the next one trusts the page cache, asks for the rest, and the file is right."""
    listing = listing_of(big())
    (file,) = listing.files
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with FakeHub(big(), rate_bytes_s=24 << 20) as hub:
        argv = [sys.executable, "-c", CHILD, str(tmp_path), hub.url, file.blob_id, str(file.size_bytes)]
        from fakes.checkpoints import paths_in
        from kboot.store.store import Store

        part = Store(paths_in(tmp_path)).part_path(REPO, file.blob_id)
        with subprocess.Popen(argv, env=env) as child:
            while have_bytes(part, file) < 20 << 20:
                assert None is child.poll(), "it ended before it could be killed"
                threading.Event().wait(0.05)
            child.send_signal(signal.SIGKILL)
        kept = have_bytes(part, file)
        hub.requests.clear()
        hub.rate_bytes_s = 0
        got = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=1))

    assert 20 << 20 <= kept
    assert big()["big.safetensors"] == got.blob("big.safetensors")
    assert kept == got.done[0].reused_bytes
    assert all(r.range for r in hub.requests), "nothing was asked for from byte 0"


def test_bytes_lost_by_the_disk_are_noticed_at_once(tmp_path: Path) -> None:
    """A partial whose first bytes changed since they were written is begun again, and the source is not blamed."""
    stop, begun = threading.Event(), threading.Event()
    with FakeHub(big(), rate_bytes_s=16 << 20) as hub:
        threading.Thread(target=lambda: (begun.wait(30), stop.set()), daemon=True).start()
        got = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=1), stop, on_event=begun)
        part = got.store.part_path(REPO, got.listing.files[0].blob_id)
        with part.open("r+b") as file:
            file.write(b"\0" * 100)
        hub.rate_bytes_s = 0
        again = fetch(tmp_path, big(), sources_of(hub.url), replace(ASK, streams=2))

    assert big()["big.safetensors"] == again.blob("big.safetensors")
    assert "partial-damaged" in again.troubles
    assert "source.demoted" not in again.notices


def test_a_rate_is_kept(tmp_path: Path) -> None:
    """max_rate_mib_s bounds all streams together: 2.5 MB at 2 MiB/s take at least a second of waiting."""
    with FakeHub(ONE) as hub:
        got = fetch(tmp_path, ONE, sources_of(hub.url), replace(ASK, max_rate_mib_s=2))

    assert ONE[SHARD] == got.blob(SHARD)
    assert 1.0 <= got.outcomes[0].seconds


@pytest.mark.parametrize(
    ("streams", "size_bytes", "files", "cpus", "wanted"),
    [
        (0, 1_561_000_000_000, 111, 128, (32, 64)),
        (0, 1_561_000_000_000, 111, 4, (8, 32)),
        (0, 1_561_000_000_000, 111, 2, (4, 32)),
        (0, 1_561_000_000_000, 111, 1, (2, 32)),
        (0, 14_000_000_000, 1, 16, (16, 32)),
        (0, 100, 1, 64, (1, 1)),
        (0, 0, 0, 64, (1, 1)),
        (64, 1_561_000_000_000, 111, 2, (64, 64)),
        (64, 1_000_000, 3, 2, (3, 3)),
    ],
)
def test_streams_are_counted(streams: int, size_bytes: int, files: int, cpus: int, wanted: tuple[int, int]) -> None:
    """At first as the CPUs suggest, later more; as many as asked for; never more than there is work for."""
    assert wanted == count_streams(FetchAsk(streams=streams), size_bytes, files, cpus)


def test_more_connections_are_opened_where_each_is_limited(tmp_path: Path) -> None:
    """A CDN gives every connection its share and no more: the fetch finds out, and asks on more of them at once."""
    files = {f"model-{n:05d}-of-00096.safetensors": data(300_000, n) for n in range(96)}
    with FakeHub(files, rate_bytes_s=1_000_000) as hub:
        got = fetch(tmp_path, files, sources_of(hub.url))

    assert [] == got.errors
    assert 8 < hub.most_at_once <= 32


@pytest.mark.slow
def test_a_slow_connection_is_left_for_another(tmp_path: Path) -> None:
    """One answer of many comes at a hundredth of the usual rate: its rest is asked for again, elsewhere first."""
    files = {f"model-{n:05d}-of-00024.safetensors": data(12_000_000, n) for n in range(24)}
    first = min(files)
    with FakeHub(files, rate_bytes_s=4_000_000) as hub, FakeHub(files, rate_bytes_s=4_000_000) as mirror:
        hub.fault(first, Slow(40_000))
        got = fetch(tmp_path, files, sources_of(hub.url, mirror.url), replace(ASK, streams=8))

    assert [] == got.errors
    assert ["stream-slow"] == got.troubles
    assert 1 == len(mirror.asked(first))
    assert files[first] == got.blob(first)
