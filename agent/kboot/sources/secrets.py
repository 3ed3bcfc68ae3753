"""How is what others say made fit to be shown: without secrets, and without what a terminal obeys?"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_TOKEN = re.compile(r"hf_(?!transfer\b)[A-Za-z0-9]{8,}|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}")
# What has no query is taken as well: else every "://" of a text would look to its end for one.
_QUERY = re.compile(r"://([^\s?\"'<>]+)(\?[^\s\"'<>)]+)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")


def mask(text: str) -> str:
    """Return the text without Hub tokens, and URLs in it without user, password and query (a signature).

    Control characters, with which a server could write over a terminal, are replaced.
    """
    text = _TOKEN.sub(lambda found: found[0][:3] + "***", _CONTROL.sub("\ufffd", text))
    return _USER_INFO.sub("***@", _QUERY.sub(lambda url: f"://{url[1]}?***" if url[2] else url[0], text))


def without_query(url: str) -> str:
    """Return scheme, host, port and path of a URL: a signed link's query is as good as a password."""
    try:
        parts = urlsplit(url)
    except ValueError:  # what stands in brackets is no address
        return mask(url.partition("?")[0])
    host = parts.netloc.rsplit("@", 1)[-1]
    return mask(f"{parts.scheme}://{host}{parts.path}")
