"""Which certificates are believed? Always some, never any."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from kboot.errors import SourceError

_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context for every TLS connection.

    The first of SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE that is not empty names the roots (a file, or a
    folder as OpenSSL hashes them); else the system's roots.

    Raises:
        SourceError: code "ca-file-missing" or "ca-file-not-valid"; checking is never turned off instead.
    """
    for variable in _VARIABLES:
        if path := env.get(variable, "").strip():
            return _from_path(variable, path)
    return ssl.create_default_context()


def _from_path(variable: str, path: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if os.path.isdir(path):
            context.load_verify_locations(capath=path)
        else:
            context.load_verify_locations(cafile=path)
    except FileNotFoundError as exc:
        raise SourceError(
            "ca-file-missing",
            f"{variable} names {path}, which does not exist",
            hint=f"put the certificate authority's PEM file there, or unset {variable}",
        ) from exc
    except OSError as exc:
        raise SourceError(
            "ca-file-not-valid",
            f"{variable} names {path}, which cannot be read as certificates: {exc}",
            hint=f"`openssl x509 -in {path} -noout -subject` should print a subject",
        ) from exc
    return context
