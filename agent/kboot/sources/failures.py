"""What does a broken connection mean for the person who has to act on it? Pure."""

from __future__ import annotations

import errno
import socket
import ssl

from kboot.errors import SourceError
from kboot.sources.types import NotYet

_NOT_YET_VALID, _EXPIRED, _OTHER_HOST = 9, 10, 62  # X509_V_ERR_…
_RESOLVER_FAILED = frozenset({socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_SYSTEM})
_ROOTS = "are there roots (package ca-certificates)? Behind a proxy that inspects TLS, name its own: SSL_CERT_FILE=FILE"
_CERTIFICATE_HINTS = {
    _EXPIRED: "it has ended, or this machine's clock is ahead: see `timedatectl`",
    _OTHER_HOST: "the host must be called by a name that stands in its certificate: see HF_ENDPOINT",
}
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})
_NO_TLS_HINT = "what answers there seems to speak no TLS: is http:// meant, or another port? See HF_ENDPOINT"
NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})


REFUSED_HINT = (
    "nothing listens there, or a firewall refuses: see HF_ENDPOINT, checkpoint.sources and the proxy variables"
)


def explain_network(exc: BaseException, host: str) -> SourceError | None:
    """Return our error for what a socket, the resolver or TLS raised; None when it is none of theirs.

    host: name and port, for the message.
    """
    match exc:
        case ssl.SSLCertVerificationError():
            return _certificate(exc, host)
        case ssl.SSLError():
            said = getattr(exc, "reason", None) or exc
            hint = _NO_TLS_HINT if said in _NO_TLS else None
            return SourceError("tls-failed", f"TLS with {host} failed: {said}", hint=hint, retry=True)
        case socket.gaierror():
            return _unresolved(exc, host)
        case TimeoutError() | BlockingIOError():
            return SourceError("source-silent", f"{host} sent nothing for as long as allowed", retry=True)
        case ConnectionRefusedError():
            return SourceError("connection-refused", f"{host} refuses connections", hint=REFUSED_HINT, retry=True)
        case ConnectionError():
            return SourceError("connection-cut", f"{host} closed the connection", retry=True)
        case OSError(errno=number) if number in NO_ROUTE:
            return NotYet("no-route", f"there is no route to {host}", hint="see `ip route`", retry=True)
        case _:
            return None


def at_proxy(exc: SourceError, host: str) -> SourceError:
    """Return the error of a connection that failed at a proxy, whose address the user may never have typed.

    host: name and port that were asked for.
    """
    hint = "see the proxy variables; NO_PROXY leaves a host out"
    kind = NotYet if isinstance(exc, NotYet) else SourceError
    message = f"{exc.message}; it is the proxy for {host}"
    return kind(exc.code, message, where=exc.where, hint=hint, retry=exc.retry)


def unresolved(host: str, said: str) -> NotYet:
    """Return the error of a resolver that has no answer yet."""
    return NotYet(
        "name-not-resolved",
        f"the resolver does not answer for {host} yet: {said}",
        hint="see /etc/resolv.conf and `resolvectl status`",
        retry=True,
    )


def _certificate(exc: ssl.SSLCertVerificationError, host: str) -> SourceError:
    if exc.verify_code == _NOT_YET_VALID:
        return NotYet(
            "clock-not-set",
            f"the certificate of {host} is not valid yet by this machine's clock",
            hint="see `timedatectl`; kboot waits for the clock to be set",
            retry=True,
        )
    return SourceError(
        "certificate-refused",
        f"the certificate of {host} is not trusted: {exc.verify_message}",
        hint=_CERTIFICATE_HINTS.get(exc.verify_code, _ROOTS),
    )


def _unresolved(exc: socket.gaierror, host: str) -> SourceError:
    if exc.errno in _RESOLVER_FAILED:
        return unresolved(host, exc.strerror or str(exc))
    return SourceError(
        "host-unknown",
        f"there is no host {host}: {exc.strerror}",
        hint="check the endpoint's spelling (HF_ENDPOINT) and the resolver",
    )
