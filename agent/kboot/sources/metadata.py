"""Does the cloud say that this machine will be taken away? Its metadata service, asked without proxies or redirects."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from kboot.jsontext import parse_json
from kboot.values import dataclass

METADATA_URL = "http://169.254.169.254"

_TIMEOUT_S = 2.0
_LIMIT_BYTES = 256 << 10
_TOKEN_TTL_S = 300
_AZURE_VERSION = "2020-07-01"
_AZURE_ENDS = frozenset({"Preempt", "Terminate", "Reboot", "Redeploy"})  # Freeze goes over by itself


class Cloud(Protocol):
    """One cloud's way to announce the end of a machine."""

    def announced(self) -> str:
        """Return what is announced, in words; empty when nothing is.

        Raises:
            OSError: the service does not answer, or not as documented.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    text: str


class Aws:
    """IMDSv2: `spot/instance-action`, two minutes before a spot instance ends."""

    path = "/latest/meta-data/spot/instance-action"

    def __init__(self, url: str = METADATA_URL) -> None:
        self._url = url
        self._token = ""

    def announced(self) -> str:
        """Return the announced action and its time."""
        answer = self._get()
        if answer.status == 404:
            return ""
        return self.words(_json(answer))

    def words(self, document: Mapping[str, Any]) -> str:
        """Return an announcement as a sentence."""
        return f"AWS will {document.get('action', 'end')} this instance at {document.get('time', 'an unknown time')}"

    def _get(self) -> _Answer:
        for _ in range(2):
            fresh = not self._token
            if fresh:
                header = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)}
                token = _ask(self._url, "PUT", "/latest/api/token", header)
                self._token = _ok(token).text.strip()
            answer = _ask(self._url, "GET", self.path, {"X-aws-ec2-metadata-token": self._token})
            if answer.status != 401 or fresh:
                break
            self._token = ""  # it has expired
        return answer if answer.status == 404 else _ok(answer)


class AwsRebalance(Aws):
    """IMDSv2: the recommendation to leave a spot instance that may be interrupted soon."""

    path = "/latest/meta-data/events/recommendations/rebalance"

    def words(self, document: Mapping[str, Any]) -> str:
        """Return the recommendation as a sentence."""
        return f"AWS recommends to leave this instance, since {document.get('noticeTime', 'an unknown time')}"


class Gcp:
    """`instance/preempted`: TRUE from 30 s before a preemptible or spot machine ends."""

    def __init__(self, url: str = METADATA_URL) -> None:
        self._url = url

    def announced(self) -> str:
        """Return whether it is preempted."""
        path = "/computeMetadata/v1/instance/preempted"
        answer = _ok(_ask(self._url, "GET", path, {"Metadata-Flavor": "Google"}))
        return "Google Cloud preempts this machine" if answer.text.strip() == "TRUE" else ""


class Azure:
    """Scheduled events that end or restart this machine. An event names machines of the whole set: ours must be one."""

    def __init__(self, url: str = METADATA_URL) -> None:
        self._url = url
        self._name = ""

    def announced(self) -> str:
        """Return the first event that ends this machine."""
        for event in self._events():
            if event.get("EventType") in _AZURE_ENDS and self._is_meant(event):
                when = event.get("NotBefore") or "any moment"
                return f"Azure announces {event['EventType']} of this machine, not before {when}"
        return ""

    def _events(self) -> list[dict[str, Any]]:
        events = _json(self._ask(f"/metadata/scheduledevents?api-version={_AZURE_VERSION}")).get("Events")
        return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []

    def _is_meant(self, event: Mapping[str, Any]) -> bool:
        if not self._name:
            path = f"/metadata/instance/compute/name?api-version={_AZURE_VERSION}&format=text"
            self._name = self._ask(path).text.strip().lower()
        return self._name in [str(name).lower() for name in event.get("Resources") or ()]

    def _ask(self, path: str) -> _Answer:
        return _ok(_ask(self._url, "GET", path, {"Metadata": "true"}))


CLOUDS: Mapping[str, type[Aws] | type[Gcp] | type[Azure]] = {
    "aws": Aws,
    "aws-rebalance": AwsRebalance,
    "azure": Azure,
    "gcp": Gcp,
}


def _ask(url: str, method: str, path: str, headers: Mapping[str, str]) -> _Answer:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        return _Answer(response.status, response.read(_LIMIT_BYTES).decode(errors="replace"))
    except http.client.HTTPException as exc:
        raise OSError(f"{url}{path}: {type(exc).__name__}") from exc
    finally:
        connection.close()


def _ok(answer: _Answer) -> _Answer:
    if answer.status != 200:
        raise OSError(f"the metadata service answered {answer.status}")
    return answer


def _json(answer: _Answer) -> Mapping[str, Any]:
    try:
        document = parse_json(answer.text)
    except ValueError as exc:
        raise OSError("the metadata service gave no JSON") from exc
    if not isinstance(document, dict):
        raise OSError("the metadata service gave no JSON object")
    return document
