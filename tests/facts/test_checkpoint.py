import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kboot.apply.publish import publish
from kboot.checkpoint import CheckpointFacts
from kboot.errors import KbootError, SourceError
from kboot.events import Event, Notice
from kboot.facts.checkpoint import listing_with_residency, read_checkpoint
from kboot.plan.types import PublishCheckpoint
from kboot.profile.types import CheckpointAsk, LayoutAsk, Profile
from kboot.store.store import Store

_spec = importlib.util.spec_from_file_location("checkpoints", Path(__file__).parents[1] / "fakes" / "checkpoints.py")
assert _spec and _spec.loader
fake = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fake)

FILES = {**fake.make(shards=2), "README.md": b"# Tiny"}
WANTED = sorted(set(FILES) - {"README.md"})
DOWN = SourceError("source-unreachable", "hub.example does not answer", where=("GET …",), retry=True)


def hub(name: str = "hub", *, trusted: bool = True):
    source = fake.MemorySource(name, trusted=trusted)
    source.heads["main"] = fake.COMMIT
    source.commits[fake.COMMIT] = FILES
    return source


class Node:
    def __init__(self, folder: Path) -> None:
        self.told: list[Event] = []
        self.store = Store(fake.paths_in(folder), self.told.append)

    def read(self, *sources, revision: str = "main", offline: bool = False, repo: str = fake.REPO, **ask):
        profile = Profile(
            name="tiny",
            schema=1,
            checkpoint=CheckpointAsk(repo=repo, revision=revision, **ask),
            layout=(LayoutAsk(name="any", gpu="none", gpus_per_node=0),),
        )
        return read_checkpoint(profile, self.store, sources, offline=offline, emit=self.told.append)

    def fetch(self, facts: CheckpointFacts, only: list[str] | None = None) -> None:
        fake.fetch_all(self.store, facts.listing, FILES, only)

    def boot(self, *sources, revision: str = "main") -> CheckpointFacts:
        """Fetch and publish, as an earlier boot did."""
        facts = self.read(*sources, revision=revision)
        self.fetch(facts)
        model = str(self.store.paths.models / "tiny")
        assert "done" == publish(PublishCheckpoint(facts.listing, model, "test"), self.store, self.told.append).status
        return facts

    def notices(self) -> list[str]:
        return [e.event for e in self.told if isinstance(e, Notice)]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_bare_node_knows_what_to_fetch(node: Node) -> None:
    """The commit behind the branch, the wanted files, the skipped with reasons, and that nothing is here."""
    facts = node.read(hub())

    assert (fake.REPO, "main", fake.COMMIT, "hub") == (
        facts.listing.repo, facts.listing.revision, facts.listing.commit, facts.listing.origin,
    )  # fmt: skip
    assert WANTED == [f.path for f in facts.listing.files]
    assert (("README.md", "no engine reads it"),) == facts.listing.skipped
    assert facts.listing.size_bytes == facts.missing_bytes
    assert not facts.published


def test_looking_changes_nothing(node: Node, tmp_path: Path) -> None:
    """Facts are read; only apply writes."""
    node.read(hub())

    assert [] == list(tmp_path.iterdir())


def test_the_branch_is_resolved_once(node: Node) -> None:
    """B042: every later request names the commit; the branch may move meanwhile."""
    source = hub()

    node.read(source)

    assert ["list main", f"read cccc {fake.INDEX}"] == source.asked


def test_a_whole_pinned_commit_makes_no_request(node: Node) -> None:
    """B018: even where every request would be answered 429."""
    node.boot(hub(), revision=fake.COMMIT)
    source = hub()
    source.refuse = SourceError("rate-limited", "429", retry=True)

    facts = node.read(source, revision=fake.COMMIT)

    assert [] == source.asked
    assert facts.published
    assert {"verified"} == {f.state for f in facts.files}
    assert 0 == facts.missing_bytes
    assert "listing on this disk" == facts.listing.origin


def test_a_pinned_commit_that_was_begun_asks_only_for_what_it_lacks(node: Node) -> None:
    """The listing is known from the first admitted file; the index that is not here is read again."""
    node.fetch(node.read(hub(), revision=fake.COMMIT), only=["config.json"])
    source = hub()

    facts = node.read(source, revision=fake.COMMIT)

    assert [f"read cccc {fake.INDEX}"] == source.asked
    assert WANTED == [f.path for f in facts.listing.files]


def test_a_profile_that_wants_more_asks_again(node: Node) -> None:
    """A file that was skipped has no known hash; the pinned commit is listed anew."""
    node.boot(hub(), revision=fake.COMMIT)
    source = hub()

    facts = node.read(source, revision=fake.COMMIT, include=("*",))

    assert "list " + fake.COMMIT in source.asked
    assert "README.md" in [f.path for f in facts.listing.files]


def test_a_profile_that_wants_less_does_not_ask(node: Node) -> None:
    """exclude is applied to what is known."""
    node.boot(hub(), revision=fake.COMMIT)
    source = hub()

    facts = node.read(source, revision=fake.COMMIT, exclude=("config.json",))

    assert [] == source.asked
    assert ("config.json", "excluded by the profile (config.json)") in facts.listing.skipped


def test_the_next_source_is_asked_when_one_does_not_answer(node: Node) -> None:
    """In the order of the profile."""
    first, second = hub("first"), hub("second")
    first.refuse = DOWN

    assert "second" == node.read(first, second).listing.origin


def test_nobody_answers_and_nothing_is_here(node: Node) -> None:
    """The first cause is raised, with what the others said below it."""
    first, second = hub("first"), hub("second")
    first.refuse = SourceError("source-unreachable", "first does not answer", retry=True)
    second.refuse = SourceError("unauthorized", "token is not valid")

    with pytest.raises(SourceError) as caught:
        node.read(first, second)

    assert "source-unreachable" == caught.value.code
    assert "second: token is not valid" in caught.value.where


def test_a_whole_local_copy_stands_in_for_a_silent_source(node: Node) -> None:
    """The commit that the branch last stood for is served, and it is said why."""
    node.boot(hub())
    source = hub()
    source.refuse = DOWN

    facts = node.read(source)

    assert fake.COMMIT == facts.listing.commit
    assert facts.published
    assert ["checkpoint.local_copy"] == node.notices()


def test_half_a_local_copy_does_not(node: Node) -> None:
    """B027: the first cause comes first, the state of this disk below it."""
    facts = node.boot(hub())
    shard = facts.listing.files[1]
    node.store.blob_path(fake.REPO, shard.blob_id).unlink()
    source = hub()
    source.refuse = SourceError("unauthorized", "401: token is not valid", where=("GET …",))

    with pytest.raises(SourceError) as caught:
        node.read(source)

    assert "unauthorized" == caught.value.code
    assert ("GET …", f"this disk has 3 of 4 files of {fake.REPO}@{'c' * 12}") == caught.value.where


def test_a_moved_branch_is_followed(node: Node) -> None:
    """The new commit is listed; what it shares with the old one is here already."""
    node.boot(hub())
    source = hub()
    source.heads["main"] = "d" * 40
    source.commits["d" * 40] = {**FILES, "config.json": b'{"model_type": "tiny", "v": 2}'}

    facts = node.read(source)

    assert "d" * 40 == facts.listing.commit
    assert {"config.json": "absent"} == {f.file.path: f.state for f in facts.files if f.state != "verified"}
    assert not facts.published


def test_a_rewritten_history_is_resolved_again(node: Node) -> None:
    """B043: the commit of the branch is gone when its files are asked for; the branch is asked once more."""
    source = hub()
    source.heads["main"] = "9" * 40
    listed = hub()

    class Rewritten(type(source)):
        def list(self, repo: str, revision: str):
            found = super().list(repo, revision) if self.heads["main"] != "9" * 40 else None
            self.heads["main"] = fake.COMMIT
            return found or replace(listed.list(repo, revision), commit="9" * 40)

    source.__class__ = Rewritten

    facts = node.read(source)

    assert fake.COMMIT == facts.listing.commit
    assert [f"read 9999 {fake.INDEX}", "list main", f"read cccc {fake.INDEX}"] == source.asked


def test_a_pinned_commit_that_is_gone_is_an_error(node: Node) -> None:
    """B043: nobody chooses another commit for a pin."""
    source = hub()

    with pytest.raises(SourceError) as caught:
        node.read(source, revision="9" * 40)

    assert "revision-not-found" == caught.value.code
    assert ["list " + "9" * 40] == source.asked


def test_a_mirror_is_not_asked_for_hashes(node: Node) -> None:
    """Only the operator's Hub says what the bytes must be; a mirror may deliver them."""
    mirror, source = hub("mirror", trusted=False), hub()
    mirror.heads["main"] = "e" * 40

    facts = node.read(mirror, source)

    assert ("hub", fake.COMMIT) == (facts.listing.origin, facts.listing.commit)
    assert [f"read cccc {fake.INDEX}"] == mirror.asked


def test_without_a_hub_the_first_source_is_taken_at_its_word_and_that_is_said(node: Node) -> None:
    """A node that only has a share has nobody else to ask."""
    facts = node.read(hub("file:///mnt/models", trusted=False))

    assert "file:///mnt/models" == facts.listing.origin
    assert ["listing.untrusted"] == node.notices()


def test_an_index_that_is_not_the_listed_one_is_asked_elsewhere(node: Node) -> None:
    """Its hash decides, before its content does."""
    liar, honest = hub("liar"), hub("honest")
    liar.read = lambda *_: json.dumps({"weight_map": {"a": "evil.safetensors"}}).encode()

    assert WANTED == [f.path for f in node.read(liar, honest).listing.files]
    with pytest.raises(KbootError) as caught:
        node.read(liar)
    assert "from liar" in caught.value.where


def test_offline_asks_nobody(node: Node) -> None:
    """What is known is the answer, whole or not."""
    facts = node.boot(hub())
    node.store.blob_path(fake.REPO, facts.listing.files[0].blob_id).unlink()
    source = hub()

    found = node.read(source, offline=True)

    assert [] == source.asked
    assert ["absent"] == [f.state for f in found.files if f.state != "verified"]


def test_offline_without_the_index_still_knows_the_files(node: Node) -> None:
    """The selection of the earlier boot is remembered."""
    facts = node.boot(hub())
    index = next(f for f in facts.listing.files if f.path == fake.INDEX)
    node.store.blob_path(fake.REPO, index.blob_id).unlink()

    assert WANTED == [f.file.path for f in node.read(offline=True).files]


def test_offline_and_never_fetched_is_an_error(node: Node) -> None:
    """It says what to do."""
    with pytest.raises(SourceError) as caught:
        node.read(offline=True)

    assert ("checkpoint-unknown", 17) == (caught.value.code, int(caught.value.status))


def test_offline_another_letter_case_finds_the_checkpoint(node: Node) -> None:
    """B038: the profile says acme/tiny-1b, the Hub and this disk say acme/Tiny-1B."""
    node.boot(hub())

    facts = node.read(offline=True, repo="acme/tiny-1b")

    assert fake.REPO == facts.listing.repo
    assert {"verified"} == {f.state for f in facts.files}


def test_online_the_hubs_spelling_counts(node: Node) -> None:
    """B038: one folder, whatever the profile says."""
    node.boot(hub())

    facts = node.read(hub(), repo="acme/tiny-1b")

    assert fake.REPO == facts.listing.repo
    assert {"verified"} == {f.state for f in facts.files}


def test_residency_is_measured_when_asked(node: Node) -> None:
    """What was just written is in the page cache; what is not here has no residency."""
    facts = node.read(hub())
    node.fetch(facts, only=["config.json"])

    measured = listing_with_residency(node.read(hub()), node.store)

    assert {"config.json": len(FILES["config.json"])} == {
        f.file.path: f.resident_bytes for f in measured.files if f.resident_bytes is not None
    }


def test_a_listing_without_weights_is_refused(node: Node) -> None:
    """Before the first byte."""
    source = hub()
    source.commits[fake.COMMIT] = {"README.md": b"#", "config.json": b"{}"}

    with pytest.raises(KbootError) as caught:
        node.read(source)

    assert "no-loadable-weights" == caught.value.code
