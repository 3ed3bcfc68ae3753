"""Listings from a Hub on loopback that can misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.checkpoints import remote
from fakes.hub import COMMIT, REPO, TLS, FakeHub, Late, Status, Trickle
from kboot.errors import SourceError
from kboot.sources.http import Client
from kboot.sources.hub_listing import ListingAsk, is_repo_id, list_once, next_page
from kboot.sources.refusals import Asked
from kboot.sources.types import Found, RateLimited

FILES = {"sub/model-1.safetensors": b"x" * 1000, "config.json": b"{}", "model.safetensors.index.json": b"[]"}


def ask_of(hub: FakeHub, revision: str = "main", token: str = "", repo: str = REPO) -> ListingAsk:
    asked = Asked(hub.url.partition("://")[2], repo, revision, token="HF_TOKEN" if token else "")
    return ListingAsk(hub.url, token, asked)


def client_of(env: Mapping[str, str] = {}) -> Client:
    return Client(env, 20.0, 30.0)


def listed(ask: ListingAsk) -> Found:
    return list_once(client_of(), ask)


def refusal_of(ask: ListingAsk) -> SourceError:
    with pytest.raises(SourceError) as caught:
        listed(ask)
    return caught.value


def refused(hub: FakeHub, **changes: str) -> SourceError:
    return refusal_of(ask_of(hub, **changes))


def test_a_listing_has_commit_sizes_and_hashes() -> None:
    """LFS files come with their sha256, others with their git id, sorted by path, folders left out."""
    with FakeHub(FILES) as hub:
        found = listed(ask_of(hub))

    assert (REPO, COMMIT) == (found.repo, found.commit)
    assert tuple(remote(path, FILES[path]) for path in sorted(FILES)) == found.files


def test_a_listing_of_several_pages_is_whole() -> None:
    """A tree that comes in pages is read to its end."""
    with FakeHub(FILES, page=1) as hub:
        found = listed(ask_of(hub))

    assert sorted(FILES) == [file.path for file in found.files]


def test_the_id_is_as_the_hub_spells_it() -> None:
    """Other letter case in the profile does not make another repository."""
    with FakeHub(FILES, repo="Org/M") as hub:
        found = listed(ask_of(hub, repo="org/m"))

    assert "Org/M" == found.repo


def test_tree_and_revision_are_of_one_commit() -> None:
    """B042: the branch is resolved once; the tree is asked for by commit."""
    with FakeHub(FILES) as hub:
        listed(ask_of(hub))

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
        assert COMMIT == listed(ask_of(hub, token="hf_rightright")).commit


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
    """Whatever the Hub answers is one of our errors; nothing is retried."""
    with FakeHub(FILES) as hub:
        hub.api_status = [status]
        error = refused(hub)

    assert code == error.code
    assert 1 == len(hub.requests)


@pytest.mark.parametrize(("status", "code"), [*REFUSALS, (Status(200, {}, '{"error": "x"}'), "listing-not-valid")])
def test_each_refusal_of_a_tree_has_its_code(status: Status, code: str) -> None:
    """The same for the second question."""
    with FakeHub(FILES) as hub:
        hub.api_status = [REVISION, status]
        error = refused(hub)

    assert code == error.code
    assert 2 == len(hub.requests)


def test_a_rate_limit_says_when() -> None:
    """429 comes with its wait; it is the caller who waits."""
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
        assert COMMIT == list_once(client_of({"REQUESTS_CA_BUNDLE": str(TLS / "ca.pem")}), ask_of(hub)).commit
        assert "certificate-refused" == refused(hub).code


def test_a_repository_id_that_cannot_be_one() -> None:
    """What is no owner/name is told before anything is asked."""
    with FakeHub(FILES) as hub:
        error = refused(hub, repo="a/b/c")

    assert "repo-not-valid" == error.code
    assert [] == hub.requests


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
@pytest.mark.parametrize("answer", [Trickle(), Trickle(chunked=True), Late()])
def test_a_listing_that_never_ends_is_left(before: tuple[Status, ...], answer: Trickle | Late) -> None:
    """A byte now and then is no silence: there is a time for the whole listing, for revision and tree alike."""
    with FakeHub(FILES) as hub:
        hub.api_status = [*before, answer]
        error = refusal_of(replace(ask_of(hub), seconds=0.5))

    assert ("source-silent", False) == (error.code, error.retry)
    assert "did not end its listing" in error.message


def test_pages_without_an_end_are_left() -> None:
    """Each of them is there at once, and names another: the time for all of them ends it."""
    with FakeHub(FILES) as hub:
        pages = [Status(200, {"Link": f'<{hub.url}{TREE}?cursor={n}>; rel="next"'}, "[]") for n in range(100_000)]
        hub.api_status = [REVISION, *pages]
        error = refusal_of(replace(ask_of(hub), seconds=0.5))

    assert ("source-silent", False) == (error.code, error.retry)


@pytest.mark.parametrize("answer", [Trickle(), Trickle(chunked=True), Late()])
def test_a_listing_is_left_when_kboot_is_told_to_stop(answer: Trickle | Late) -> None:
    """Although the Hub still sends, or sends nothing yet."""
    with FakeHub(FILES) as hub:
        hub.api_status = [answer]
        client = client_of()
        threading.Timer(0.2, client.interrupt).start()
        with pytest.raises(SourceError) as caught:
            list_once(client, ask_of(hub))

    assert ("interrupted", False) == (caught.value.code, caught.value.retry)


def test_several_listings_may_run_at_once() -> None:
    """One that the Hub keeps waiting holds up no other."""
    with FakeHub(FILES) as slow, FakeHub(FILES) as hub, ThreadPoolExecutor(1) as pool:
        slow.api_status = [Late()]
        first = pool.submit(listed, ask_of(slow))
        second = listed(ask_of(hub))
        slow.released.set()

        assert first.result(60).files == second.files


def test_a_listing_larger_than_any_is_refused() -> None:
    """Its bytes are counted as they come, over all pages."""
    with FakeHub(FILES, page=1) as hub:
        enough = listed(replace(ask_of(hub), size_bytes=2000))
        error = refusal_of(replace(ask_of(hub), size_bytes=500))

    assert 3 == len(enough.files)
    assert "listing-not-valid" == error.code and "larger than 500 bytes" in error.message


@pytest.mark.parametrize("before", [(), (REVISION,)])
def test_json_without_a_bottom_is_no_listing(before: tuple[Status, ...]) -> None:
    """200,000 brackets are told as what they are."""
    with FakeHub(FILES) as hub:
        hub.api_status = [*before, Status(200, {}, "[" * 200_000)]
        assert "listing-not-valid" == refused(hub).code


def test_a_listing_goes_through_the_proxy() -> None:
    """As the bytes do; the proxy resolves the name."""
    with FakeHub(FILES) as proxy:
        ask = replace(ask_of(proxy), endpoint="http://hub.invalid")
        found = list_once(client_of({"HTTP_PROXY": proxy.url}), ask)

    assert (COMMIT, 3) == (found.commit, len(found.files))
    assert {"hub.invalid"} == {r.headers["host"] for r in proxy.requests}


def test_both_questions_take_one_connection() -> None:
    """It is left for the bytes that follow."""
    with FakeHub(FILES) as hub:
        client = client_of()
        list_once(client, ask_of(hub))
        assert 1 == len(client._live)
        client.get(f"{hub.url}/{REPO}/resolve/{COMMIT}/config.json", {}).text()
        assert 1 == len(client._live)


def test_a_listing_that_comes_packed_is_read() -> None:
    """gzip is not asked for, and some servers and proxies send it all the same; the bound is that of what is in it."""
    with FakeHub(FILES, page=1) as hub:
        hub.packs_api = "gzip"
        found = listed(ask_of(hub))
        error = refusal_of(replace(ask_of(hub), size_bytes=500))

    assert sorted(FILES) == [file.path for file in found.files]
    assert {"identity"} == {r.headers["accept-encoding"] for r in hub.requests}
    assert "listing-not-valid" == error.code and "larger than 500 bytes" in error.message


def test_a_listing_packed_in_another_way_is_refused() -> None:
    """And the way is named."""
    with FakeHub(FILES) as hub:
        hub.packs_api = "br"
        error = refused(hub)

    assert "transformed-body" == error.code and "comes as br" in error.message


def test_a_renamed_repository_is_followed() -> None:
    """The Hub redirects to a path of its own, and the token goes along there."""
    with FakeHub(FILES, token="hf_rightright") as hub:
        api = f"/api/models/{REPO}"
        hub.api_status = [
            Status(307, {"Location": f"{api}/revision/main"}, "Temporary Redirect. Redirecting to ..."),
            REVISION,
            Status(308, {"Location": f"{api}/tree/{COMMIT}?recursive=true&expand=false"}),
        ]
        found = listed(ask_of(hub, repo="org/old-name", token="hf_rightright"))

    assert (REPO, 3) == (found.repo, len(found.files))
    assert 4 == len(hub.requests)


def test_redirects_without_an_end_are_an_error() -> None:
    """Nobody is sent on for ever."""
    with FakeHub(FILES) as hub:
        hub.api_status = [Status(302, {"Location": f"/api/models/{REPO}/revision/{n}"}) for n in range(100)]
        error = refused(hub)

    assert "redirect-not-valid" == error.code
    assert 10 > len(hub.requests)


def test_who_refuses_after_a_redirect_is_named() -> None:
    """That server saw no token: the one that was given is not what is wrong."""
    with FakeHub(FILES, token="hf_rightright") as hub, FakeHub(FILES, token="hf_another") as other:
        hub.api_status = [Status(307, {"Location": f"{other.url}/api/models/{REPO}/revision/main"})]
        error = refused(hub, token="hf_rightright")

    assert "repo-not-found" == error.code
    assert other.url.partition("://")[2] in error.message and "no token" in error.message


def test_an_endpoint_may_have_a_path() -> None:
    """HF_ENDPOINT=https://host/artifactory/api/huggingfaceml/repo: both questions go below it."""
    with FakeHub(FILES) as hub:
        below = replace(ask_of(hub), endpoint=f"{hub.url}/artifactory/api/huggingfaceml/repo")
        refusal_of(below)

    assert [f"/artifactory/api/huggingfaceml/repo/api/models/{REPO}/revision/main"] == [r.path for r in hub.requests]


def test_a_revision_is_one_word_of_the_path() -> None:
    """A branch may have slashes and blanks in its name."""
    with FakeHub(FILES) as hub:
        refused(hub, revision="refs/pr/1 #")

    assert [f"/api/models/{REPO}/revision/refs/pr/1 #"] == [r.path for r in hub.requests]


def test_a_page_may_be_named_by_its_path() -> None:
    """Relative to the page that names it, and among links of other kinds in headers of their own."""
    with FakeHub(FILES) as hub:
        first = {"link": "<style.css>; rel=preload", "Link": '<?cursor=0>; title="a, b"; rel="next"'}
        hub.api_status = [REVISION, Status(200, dict(reversed(first.items())), "[]")]
        found = listed(ask_of(hub))

    assert sorted(FILES) == [file.path for file in found.files]


@pytest.mark.parametrize(
    ("link", "url"),
    [
        ('<https://h/x?a=1,2>; rel="next"', "https://h/x?a=1,2"),
        ("<u>;rel=next", "u"),
        ('<a>; rel="first", <b>; title="x, <c>; y"; REL="last Next"', "b"),
        ("<a>; rel=prev", ""),
        ("<a>; title=next", ""),
        ("<a", ""),
        ("", ""),
    ],
)
def test_a_link_header_is_read(link: str, url: str) -> None:
    """As RFC 8288 writes it: several links, words in quotes, several relations."""
    assert url == next_page(link)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("gpt2", True),
        ("deepseek-ai/DeepSeek-V3.1", True),
        ("_a_/b__c.d-e", True),
        ("a" * 96 + "/" + "b" * 96, True),
        ("a" * 97 + "/b", False),
        ("a/" + "b" * 97, False),
        ("a/b/c", False),
        ("/a", False),
        ("a/", False),
        ("", False),
        ("-a/b", False),
        ("a/b.", False),
        ("a/.b", False),
        ("a./b", False),
        ("a/b--c", False),
        ("a..b", False),
        ("a/b.git", False),
        ("a/b\n", False),
        ("a b", False),
        ("caf\u00e9", False),
    ],
)
def test_an_id_is_judged_before_anything_is_asked(text: str, is_one: bool) -> None:
    """By the rules of huggingface_hub 2.4; 1.31 is less strict with long names, line ends and letters beyond ASCII."""
    assert is_one == is_repo_id(text)


@pytest.mark.parametrize("said", ["../../../etc", "org", "org/\ud800", {"org": "m"}, "org/" + "m" * 300])
def test_an_id_that_can_be_none_is_refused(said: object) -> None:
    """What the Hub calls the repository becomes the name of a folder; one word alone was the name of old models."""
    answer = Status(200, {}, json.dumps({"id": said, "sha": COMMIT}))
    with FakeHub(FILES) as hub:
        hub.api_status = [answer]
        if said == "org":
            assert "org" == listed(ask_of(hub)).repo
        else:
            assert "listing-not-valid" == refused(hub).code


def test_a_page_of_more_values_than_any_has_is_not_parsed() -> None:
    """A megabyte of empty objects takes 25 times as much memory; what has so many is no listing."""
    with FakeHub(FILES) as hub:
        hub.api_status = [REVISION, Status(200, {}, f"[{'{},' * (1 << 20)}{{}}]")]
        error = refusal_of(ask_of(hub))

    assert "listing-not-valid" == error.code and "more than 1048576 values" in error.message


def test_addresses_of_pages_are_counted_as_well() -> None:
    """They are kept, to notice one that comes twice: empty pages with long addresses would fill the memory."""
    with FakeHub(FILES) as hub:
        pages = [Status(200, {"Link": f'<?cursor={n}{"x" * 10_000}>; rel="next"'}, "[]") for n in range(10)]
        hub.api_status = [REVISION, *pages]
        error = refusal_of(replace(ask_of(hub), size_bytes=50_000))

    assert "listing-not-valid" == error.code and "larger than 50000 bytes" in error.message
    assert 10 > len(hub.requests)


@pytest.mark.timeout(20)
def test_a_link_header_is_read_in_one_pass() -> None:
    """As long as headers may be in all, full of beginnings of links: looking from each to the end took days."""
    assert "" == next_page("<" * 6_000_000)
