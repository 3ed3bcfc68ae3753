"""Listings through the real huggingface_hub client, from a Hub on loopback that can misbehave."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fakes.checkpoints import remote
from fakes.hub import COMMIT, REPO, TLS, FakeHub, Status, Trickle
from kboot.checkpoint import RemoteFile
from kboot.errors import SourceError
from kboot.sources.hub_listing import ListingAsk, list_once, to_files
from kboot.sources.refusals import Asked
from kboot.sources.types import RateLimited

FILES = {"sub/model-1.safetensors": b"x" * 1000, "config.json": b"{}", "model.safetensors.index.json": b"[]"}


def ask_of(
    hub: FakeHub, revision: str = "main", token: str = "", env: dict[str, str] | None = None, repo: str = REPO
) -> ListingAsk:
    asked = Asked(hub.url.partition("://")[2], repo, revision, token="HF_TOKEN" if token else "")
    return ListingAsk(hub.url, token, asked, env or {}, 2.0, 3.0)


def refused(hub: FakeHub, **changes: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        list_once(ask_of(hub, **changes))  # type: ignore[arg-type]
    return caught.value


def test_a_listing_has_commit_sizes_and_hashes() -> None:
    """LFS files come with their sha256, others with their git id, sorted by path, folders left out."""
    with FakeHub(FILES) as hub:
        found = list_once(ask_of(hub))

    assert (REPO, COMMIT) == (found.repo, found.commit)
    assert tuple(remote(path, FILES[path]) for path in sorted(FILES)) == found.files


def test_a_listing_of_several_pages_is_whole() -> None:
    """A tree that comes in pages is read to its end."""
    with FakeHub(FILES, page=1) as hub:
        found = list_once(ask_of(hub))

    assert sorted(FILES) == [file.path for file in found.files]


def test_the_id_is_as_the_hub_spells_it() -> None:
    """Other letter case in the profile does not make another repository."""
    with FakeHub(FILES, repo="Org/M") as hub:
        found = list_once(ask_of(hub, repo="org/m"))

    assert "Org/M" == found.repo


def test_tree_and_revision_are_of_one_commit() -> None:
    """B042: the branch is resolved once; the tree is asked for by commit."""
    with FakeHub(FILES) as hub:
        list_once(ask_of(hub))

    assert [f"/api/models/{REPO}/revision/main", f"/api/models/{REPO}/tree/{COMMIT}"] == [r.path for r in hub.requests]


def test_a_pinned_commit_that_is_gone_is_told_so() -> None:
    """B043: 404 for a commit is revision-gone; for a branch it is revision-not-found."""
    remembered = Path(__file__).parents[1] / "cases/B043/disk/models--org--m/refs/main"
    with FakeHub(FILES) as hub:
        assert "revision-gone" == refused(hub, revision=remembered.read_text()).code
        assert "revision-not-found" == refused(hub, revision="v2").code


def test_a_bad_token_is_told_as_such() -> None:
    """B027: 401 with a token: the token is the cause, and is not shown."""
    with FakeHub(FILES, token="hf_rightright") as hub:
        bad = refused(hub, token="hf_wrongwrong")
        none = refused(hub)

    assert "auth" == bad.code and "401" in bad.message and "HF_TOKEN" in bad.message
    assert "hf_wrong" not in str(bad.to_json())
    assert "repo-not-found" == none.code and "no token" in none.message


def test_the_token_is_sent() -> None:
    """With the right one the listing comes."""
    with FakeHub(FILES, token="hf_rightright") as hub:
        assert COMMIT == list_once(ask_of(hub, token="hf_rightright")).commit


REVISION = Status(200, {}, f'{{"_id": "0", "id": "{REPO}", "modelId": "{REPO}", "sha": "{COMMIT}", "siblings": []}}')
REFUSALS = [
    (Status(403, {"X-Error-Code": "GatedRepo"}), "auth-gated"),
    (Status(404, {"X-Error-Code": "RepoNotFound"}), "repo-not-found"),
    (Status(500, {}, "oops"), "source-failing"),
    (Status(503, {}, "<html>"), "source-failing"),
    (Status(200, {}, "<html>log in first</html>"), "listing-not-valid"),
]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *REFUSALS,
        (Status(200, {}, '{"id": "org/m", "sha": "short"}'), "listing-not-valid"),
        (Status(200, {}, "[]"), "listing-not-valid"),
    ],
)
def test_each_refusal_of_a_revision_has_its_code(status: Status, code: str) -> None:
    """Whatever the Hub answers, and whatever huggingface_hub makes of it, is one of our errors; nothing is retried."""
    with FakeHub(FILES) as hub:
        hub.api_status = [status]
        error = refused(hub)

    assert code == error.code
    assert 1 == len(hub.requests)


@pytest.mark.parametrize(("status", "code"), [*REFUSALS, (Status(200, {}, '{"error": "x"}'), "listing-not-valid")])
def test_each_refusal_of_a_tree_has_its_code(status: Status, code: str) -> None:
    """The same for the second question, where huggingface_hub would retry and wait on its own."""
    with FakeHub(FILES) as hub:
        hub.api_status = [REVISION, status]
        error = refused(hub)

    assert code == error.code
    assert 2 == len(hub.requests)


def test_a_rate_limit_says_when() -> None:
    """429 comes with its wait, and huggingface_hub does not sleep on its own."""
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(429, {"Retry-After": "77"})]
        error = refused(hub)

    assert isinstance(error, RateLimited) and 77.0 == error.retry_after_s


def test_a_listing_without_hashes_is_refused() -> None:
    """An LFS file without a sha256 could not be proven: the file is named."""
    with FakeHub(FILES) as hub:
        hub.without_lfs_hashes = True
        assert "listing-without-hashes" == refused(hub).code


def test_nobody_there() -> None:
    """A closed port is told as refused, with the host."""
    with FakeHub(FILES) as hub:
        pass
    error = refused(hub)

    assert ("connection-refused", True) == (error.code, error.retry)


def test_the_listing_comes_over_tls_with_the_private_root() -> None:
    """B033: REQUESTS_CA_BUNDLE is honoured for the listing as well; without it the certificate is refused."""
    with FakeHub(FILES, tls=True) as hub:
        assert COMMIT == list_once(ask_of(hub, env={"REQUESTS_CA_BUNDLE": str(TLS / "ca.pem")})).commit
        assert "certificate-refused" == refused(hub).code


def test_a_repository_id_that_cannot_be_one() -> None:
    """What is no owner/name is told before anything is asked."""
    with FakeHub(FILES) as hub:
        error = refused(hub, repo="a/b/c")

    assert "repo-not-valid" == error.code
    assert [] == hub.requests


@dataclass
class Lfs:
    sha256: str | None
    size: int


@dataclass
class Entry:
    path: str
    size: int
    blob_id: str = "b" * 40
    lfs: Lfs | None = None
    xet_hash: str | None = None


def test_entries_become_files() -> None:
    """Size and hash of an LFS file are those of its content, not of its pointer."""
    entries = [Entry("b.bin", 134, lfs=Lfs("a" * 64, 5000), xet_hash="x"), Entry("a.txt", 3)]

    assert (RemoteFile("a.txt", 3, "b" * 40, None), RemoteFile("b.bin", 5000, "a" * 64, "a" * 64, "x")) == to_files(
        entries
    )


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (Entry("../../etc/passwd", 3), "listing-not-valid"),
        (Entry("/etc/passwd", 3), "listing-not-valid"),
        (Entry("a", -1), "listing-not-valid"),
        (Entry("a", 3, blob_id="../../x"), "listing-without-hashes"),
        (Entry("a", 3, lfs=Lfs(None, 3)), "listing-without-hashes"),
        (Entry("a", 3, lfs=Lfs("A" * 64, 3)), "listing-without-hashes"),
        (Entry("model.safetensors", 5_000_000_000), "listing-without-hashes"),
    ],
)
def test_entries_that_cannot_be_trusted(entry: Entry, code: str) -> None:
    """A path that leads out, a size that is none, a hash that is none: the listing is refused, whole."""
    with pytest.raises(SourceError) as caught:
        to_files([Entry("fine", 1), entry])

    assert code == caught.value.code


def test_a_file_listed_twice_is_refused() -> None:
    """One path, two contents: neither is believed."""
    with pytest.raises(SourceError):
        to_files([Entry("a", 1), Entry("a", 2)])


TREE = f"/api/models/{REPO}/tree/{COMMIT}"


def test_the_token_goes_to_no_other_server_for_a_page() -> None:
    """A next page on another origin is refused, and that origin is not even asked."""
    with FakeHub(FILES, token="hf_rightright") as hub:
        hub.api_status = [REVISION, Status(200, {"Link": f'<{hub.cdn_url}{TREE}?cursor=1>; rel="next"'}, "[]")]
        error = refused(hub, token="hf_rightright")

    assert ("listing-not-valid", False) == (error.code, error.retry)
    assert ["hub", "hub"] == [r.origin for r in hub.requests]


def test_the_token_goes_to_no_other_server_by_redirect() -> None:
    """A listing may be redirected, without the token."""
    with FakeHub(FILES, token="hf_rightright") as hub:
        hub.api_status = [REVISION, Status(307, {"Location": f"{hub.cdn_url}{TREE}"})]
        refused(hub, token="hf_rightright")

    (elsewhere,) = [r for r in hub.requests if r.origin == "cdn"]
    assert "authorization" not in elsewhere.headers


def test_a_page_that_leads_to_itself_is_refused() -> None:
    """The second time an address is named, the listing is over."""
    with FakeHub(FILES) as hub:
        page = Status(200, {"Link": f'<{hub.url}{TREE}?cursor=7>; rel="next"'}, "[]")
        hub.api_status = [REVISION, page, page, page, page]
        error = refused(hub)

    assert "listing-not-valid" == error.code and "twice" in error.message
    assert 3 == len(hub.requests)


@pytest.mark.parametrize("before", [(), (REVISION,)])
def test_a_listing_that_never_ends_is_left(before: tuple[Status, ...]) -> None:
    """A byte now and then is no silence: there is a time for the whole listing, for revision and tree alike."""
    with FakeHub(FILES) as hub:
        hub.api_status = [*before, Trickle()]
        with pytest.raises(SourceError) as caught:
            list_once(replace(ask_of(hub), seconds=0.5))

    assert ("source-silent", False) == (caught.value.code, caught.value.retry)


def test_a_listing_is_left_when_kboot_is_told_to_stop() -> None:
    """Although the Hub still sends."""
    with FakeHub(FILES) as hub:
        hub.api_status = [Trickle()]
        ask = ask_of(hub)
        threading.Timer(0.2, ask.stop.set).start()
        with pytest.raises(SourceError) as caught:
            list_once(ask)

    assert "interrupted" == caught.value.code


def test_a_listing_larger_than_any_is_refused() -> None:
    """Its bytes are counted as they come, over all pages."""
    with FakeHub(FILES, page=1) as hub:
        enough = list_once(replace(ask_of(hub), size_bytes=2000))
        with pytest.raises(SourceError) as caught:
            list_once(replace(ask_of(hub), size_bytes=500))

    assert 3 == len(enough.files)
    assert "listing-not-valid" == caught.value.code and "larger than 500 bytes" in caught.value.message


@pytest.mark.parametrize("before", [(), (REVISION,)])
def test_json_without_a_bottom_is_no_listing(before: tuple[Status, ...]) -> None:
    """200,000 brackets are told as what they are."""
    with FakeHub(FILES) as hub:
        hub.api_status = [*before, Status(200, {}, "[" * 200_000)]
        assert "listing-not-valid" == refused(hub).code


@pytest.mark.parametrize("path", ["x" * 251 + ".json", "\u00fc" * 128, "a.txt/inner.json", "a.txt/b/c.json"])
def test_paths_that_cannot_be_linked_are_refused(path: str) -> None:
    """Before the first byte: a name longer than 255 bytes, or a file that is also a folder."""
    with pytest.raises(SourceError) as caught:
        to_files([Entry("a.txt", 3), Entry(path, 3)])

    assert "listing-not-valid" == caught.value.code


def test_the_longest_name_is_taken() -> None:
    """255 bytes are a name; folders may hold files of like names."""
    paths = ["a.txt", "a.txt2/b", "x" * 255]

    assert paths == [file.path for file in to_files([Entry(path, 3) for path in paths])]
