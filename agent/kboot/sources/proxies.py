"""Does a request go through a proxy, and through which? The usual variables, read as curl reads them. Pure."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from kboot.addresses import host_port
from kboot.errors import SourceError
from kboot.sources.secrets import mask, without_query
from kboot.values import dataclass

_HOST = re.compile(r"[!-~]+")  # what fits into the head of a request


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom a URL talks to; two URLs with equal origins may share a connection and a token."""

    scheme: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port`; an IPv6 address stands in brackets."""
        return host_port(self.host, self.port)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine itself."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Proxy:
    """origin: the proxy itself. headers: its credentials, for it alone."""

    origin: Origin
    headers: Mapping[str, str]


def origin_of(url: str) -> Origin:
    """Return the origin of an http or https URL.

    Raises:
        SourceError: code "url-not-valid".
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode("ascii")
    except ValueError as exc:
        raise SourceError("url-not-valid", f"{without_query(url)} is not a URL: {exc}") from exc
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        shown = without_query(url) if "://" in url else repr(mask(url))
        raise SourceError(
            "url-not-valid",
            f"{shown} is not an http or https URL",
            hint="see HF_ENDPOINT and checkpoint.sources: https://host is wanted",
        )
    return Origin(parts.scheme, host, port or (443 if parts.scheme == "https" else 80))


def proxy_for(origin: Origin, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for an origin; None = straight. Lower-case names win over upper-case ones.

    Raises:
        SourceError: code "proxy-not-supported": the proxy is not an HTTP one; "proxy-not-valid": it is no URL.
    """
    names = (f"{origin.scheme}_proxy", f"{origin.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    url = next((env[name] for name in names if env.get(name)), "")
    if not url or _is_excepted(origin, env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or 80
    except ValueError as exc:  # what it says may be a part of the password
        raise SourceError(
            "proxy-not-valid",
            f"the proxy for {origin.scheme} has no port that is a number",
            hint="http://NAME:PASSWORD@HOST:PORT is wanted; `#`, `/`, `?` and `@` in a password as %23, %2F, %3F, %40",
        ) from exc
    if parts.scheme != "http" or not parts.hostname:
        raise SourceError(
            "proxy-not-supported",
            f"the proxy {without_query(url)} is not an http:// one",
            hint="name an HTTP proxy, or except the host with NO_PROXY",
        )
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(pair.encode(errors="surrogateescape")).decode()
    return Proxy(Origin("http", parts.hostname, port), headers)


def _is_excepted(origin: Origin, listed: str) -> bool:
    """Return whether NO_PROXY leaves an origin out, as curl reads it; `*.name` and `[::1]` are taken as meant."""
    name = origin.host.rstrip(".")
    for entry in filter(None, re.split(r"[\s,]+", listed.lower())):
        if entry == "*":
            return True
        host, _, port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
        if port and port != str(origin.port):
            continue
        host = host.strip("[]").removeprefix("*").strip(".")
        if host and (name == host or name.endswith("." + host)):
            return True
        if _is_in_network(name, entry.strip("[]")):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
