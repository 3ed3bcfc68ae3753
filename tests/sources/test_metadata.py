"""Metadata services on loopback that answer as the clouds document them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes.lying import LyingServer
from kboot.sources.metadata import Aws, AwsRebalance, Azure, Gcp


def rule(path: str, status: int = 200, text: str = "", method: str = "GET", **more: Any) -> dict[str, Any]:
    reply = {"status": status, "headers": {"Content-Length": str(len(text))}, "body": {"text": text}}
    return {"match": {"method": method, "path": path}, "reply": reply, **more}


def paths(server: LyingServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.requests]


TOKEN = rule("/latest/api/token", text="secret-1", method="PUT")
ACTION = "/latest/meta-data/spot/instance-action"


def test_aws_announces_nothing_with_404() -> None:
    """No notice; the session token of IMDSv2 is asked once and sent along."""
    with LyingServer([TOKEN, rule(ACTION, 404)]) as server:
        aws = Aws(server.url)

        assert ("", "") == (aws.announced(), aws.announced())
    assert ["token", "instance-action", "instance-action"] == paths(server)
    assert "secret-1" == server.requests[1].headers["x-aws-ec2-metadata-token"]
    assert "300" == server.requests[0].headers["x-aws-ec2-metadata-token-ttl-seconds"]


def test_aws_announces_the_end_of_a_spot_instance() -> None:
    """Action and time are in the sentence."""
    notice = json.dumps({"action": "terminate", "time": "2026-09-18T08:22:00Z"})
    with LyingServer([TOKEN, rule(ACTION, text=notice)]) as server:
        assert "AWS will terminate this instance at 2026-09-18T08:22:00Z" == Aws(server.url).announced()


def test_aws_gets_a_new_token_when_the_old_one_has_expired() -> None:
    """401 asks for another token, once."""
    with LyingServer([TOKEN, rule(ACTION, 404, times=1), rule(ACTION, 401, times=1), rule(ACTION, 404)]) as server:
        aws = Aws(server.url)

        assert ("", "") == (aws.announced(), aws.announced())
    asked = "instance-action"
    assert ["token", asked, asked, "token", asked] == paths(server)


def test_aws_recommends_to_leave() -> None:
    """The rebalance recommendation is a source of its own."""
    path = "/latest/meta-data/events/recommendations/rebalance"
    with LyingServer([TOKEN, rule(path, text='{"noticeTime": "2026-10-26T08:00:00Z"}')]) as server:
        assert "AWS recommends to leave this instance, since 2026-10-26T08:00:00Z" == (
            AwsRebalance(server.url).announced()
        )


@pytest.mark.parametrize(("said", "words"), [("FALSE", ""), ("TRUE", "Google Cloud preempts this machine")])
def test_gcp(said: str, words: str) -> None:
    """`preempted` is TRUE or FALSE, asked with the header that the service demands."""
    with LyingServer([rule("/computeMetadata/v1/instance/preempted", text=said)]) as server:
        assert words == Gcp(server.url).announced()
    assert "Google" == server.requests[0].headers["metadata-flavor"]


def events(kind: str, *names: str) -> list[dict[str, Any]]:
    event = {"EventId": "1", "EventType": kind, "Resources": list(names), "NotBefore": "Mon, 11 Apr 2026 22:26:58 GMT"}
    return [
        rule("/metadata/scheduledevents*", text=json.dumps({"DocumentIncarnation": 1, "Events": [event]})),
        rule("/metadata/instance/compute/name*", text="gpu_7"),
    ]


@pytest.mark.parametrize(
    ("kind", "names", "meant"),
    [
        ("Preempt", ("GPU_7",), True),
        ("Terminate", ("gpu_6", "gpu_7"), True),
        ("Reboot", ("gpu_7",), True),
        ("Preempt", ("gpu_8",), False),
        ("Freeze", ("gpu_7",), False),
    ],
)
def test_azure_events_are_for_us_or_not(kind: str, names: tuple[str, ...], meant: bool) -> None:
    """Only what ends this machine counts: not a neighbour's event, not a freeze of seconds."""
    with LyingServer(events(kind, *names)) as server:
        said = Azure(server.url).announced()

    wanted = f"Azure announces {kind} of this machine, not before Mon, 11 Apr 2026 22:26:58 GMT"
    assert (wanted if meant else "") == said
    assert "true" == server.requests[0].headers["metadata"]


@pytest.mark.parametrize("cloud", [Aws, AwsRebalance, Gcp, Azure])
@pytest.mark.parametrize("answer", [rule("*", 500, method="*"), rule("*", 200, "<html>", method="*")])
def test_a_strange_answer_is_no_notice(cloud: type[Aws] | type[Gcp] | type[Azure], answer: dict[str, Any]) -> None:
    """A service that fails, or is none, announces nothing; it is an error, or (for words that are not TRUE) silence."""
    with LyingServer([answer]) as server:
        try:
            assert "" == cloud(server.url).announced()
        except OSError as exc:
            assert "metadata service" in str(exc)


def test_nobody_there_is_an_error_of_the_system() -> None:
    """The caller says that it cannot be told."""
    with pytest.raises(OSError, match="refused"):
        Gcp("http://127.0.0.1:9").announced()
