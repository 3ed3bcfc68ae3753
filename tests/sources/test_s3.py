"""Objects in a bucket: through obstore, against servers that speak S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from fakes.checkpoints import COMMIT, REPO, listing, make
from fakes.objects import ObjectServer
from kboot.errors import SourceError
from kboot.profile.types import CheckpointAsk, FetchAsk
from kboot.sources import open_sources
from kboot.sources.patience import Patience
from kboot.sources.s3 import S3
from kboot.sources.types import Source
from kboot.store.trees import encode_tree

FILES = make()
LISTING = listing(FILES)
SHARD = LISTING.files[-2]
OBJECTS = {
    **{f"tiny/blobs/{file.blob_id}": FILES[file.path] for file in LISTING.files},
    "tiny/refs/main": COMMIT.encode(),
    f"tiny/trees/{COMMIT}.json": encode_tree(LISTING),
}
ANONYMOUS = {"AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def source_at(endpoint: str, env: Mapping[str, str] = ANONYMOUS, bucket: str = "models") -> Source:
    asked = CheckpointAsk(repo=REPO, sources=(f"s3://{bucket}/tiny",))
    (source,) = open_sources(asked, FetchAsk(), {"AWS_ENDPOINT_URL": endpoint, **env})
    return source


@pytest.fixture
def served() -> Iterator[ObjectServer]:
    pytest.importorskip("obstore")
    with ObjectServer({f"models/{key}": data for key, data in OBJECTS.items()}) as server:
        yield server


def test_a_bucket_lists_and_delivers(served: ObjectServer) -> None:
    """An uploaded cache folder: files by branch and commit, bytes in ranges; never trusted for hashes."""
    source = source_at(served.url)

    assert [LISTING.files] * 2 == [source.list(REPO, revision).files for revision in ("main", COMMIT)]
    assert FILES[SHARD.path] == source.read(REPO, COMMIT, SHARD, 10_000)
    assert not source.trusted
    assert "s3://models/tiny" == source.name


def test_only_the_asked_bytes_are_asked_for(served: ObjectServer) -> None:
    """A range of a file is a range of the object."""
    with source_at(served.url).open(REPO, COMMIT, SHARD, 10, 30) as body:
        buffer = memoryview(bytearray(100))
        n = body.readinto(buffer)

    assert FILES[SHARD.path][10:30] == bytes(buffer[:n])
    assert "bytes=10-29" in [r for _, _, r in served.requests]


def test_an_object_of_another_size_is_another_file(served: ObjectServer) -> None:
    """It is not even opened."""
    served.objects[f"models/tiny/blobs/{SHARD.blob_id}"] = b"short"
    with pytest.raises(SourceError) as caught:
        source_at(served.url).open(REPO, COMMIT, SHARD, 0)

    assert "size-mismatch" == caught.value.code


@pytest.mark.parametrize(("status", "code", "retry"), [(403, "auth", False), (500, "source-failing", True)])
def test_a_store_that_refuses_is_told_from_one_that_fails(
    served: ObjectServer, status: int, code: str, retry: bool
) -> None:
    """403 will not pass; 500 may."""
    served.refuse = status
    with pytest.raises(SourceError) as caught:
        source_at(served.url).open(REPO, COMMIT, SHARD, 0)

    assert (code, retry) == (caught.value.code, caught.value.retry)


def test_a_bucket_of_another_region_is_told_with_what_to_set(served: ObjectServer) -> None:
    """apache/arrow-rs-object-store#224: S3 redirects without saying where to; asking again is in vain."""
    served.refuse = 301
    with pytest.raises(SourceError) as caught:
        source_at(served.url).open(REPO, COMMIT, SHARD, 0)

    assert ("s3-not-valid", False) == (caught.value.code, caught.value.retry)
    assert "AWS_REGION" in str(caught.value.hint)


def test_keys_are_in_no_message(served: ObjectServer) -> None:
    """What obstore says is shown without secrets."""
    served.refuse = 403
    with pytest.raises(SourceError) as caught:
        source_at(served.url, KEYS).open(REPO, COMMIT, SHARD, 0)

    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in " ".join([caught.value.message, *caught.value.where])


def test_without_obstore_the_error_names_the_extra() -> None:
    """A plain installation refuses at the first request, with the command that helps."""
    try:
        import obstore  # noqa: F401
    except ImportError:
        with pytest.raises(SourceError) as caught:
            S3("models", "", {}, (5, 5), Patience).open(REPO, COMMIT, SHARD, 0)
        assert "kboot[s3]" in (caught.value.hint or "")
    else:
        pytest.skip("obstore is installed")


@pytest.fixture
def moto_url() -> Iterator[str]:
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_signed_requests_to_a_whole_implementation_of_s3(moto_url: str) -> None:
    """moto's server, with keys: the same answers."""
    import obstore
    from obstore.store import S3Store

    boto3 = pytest.importorskip("boto3")
    credentials = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    boto3.client("s3", endpoint_url=moto_url, **credentials).create_bucket(Bucket="models")
    store = S3Store("models", endpoint=moto_url, client_options={"allow_http": True}, region="us-east-1",
                    access_key_id="AKIDEXAMPLE", secret_access_key="secret")  # fmt: skip
    for key, data in OBJECTS.items():
        obstore.put(store, key, data)
    source = source_at(moto_url, KEYS)

    assert LISTING.files == source.list(REPO, "main").files
    assert FILES[SHARD.path] == source.read(REPO, COMMIT, SHARD, 10_000)
    with pytest.raises(SourceError) as caught:
        source_at(moto_url, KEYS, bucket="none").open(REPO, COMMIT, SHARD, 0)
    assert "file-not-found" == caught.value.code
