"""What does a server's refusal mean for the person who has to act on it? Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from kboot.checkpoint import is_commit
from kboot.errors import SourceError
from kboot.sources.secrets import mask
from kboot.sources.types import NotYet, RateLimited
from kboot.values import dataclass

_SKEWED = re.compile(r"RequestTimeTooSkewed|not yet valid", re.IGNORECASE)
_SAID = re.compile(r"<(?:Message|Code)>([^<]{1,160})<")
_RESET = re.compile(r"\bt=(\d+)")
_PAGE = re.compile(r"\s*<(?:!doctype html|html|!--)", re.IGNORECASE)
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_MAX_DAYS_S = 7 * 86400.0
_DISABLED = "access to this resource is disabled"
NO_HUB_HINT = (
    "see HF_ENDPOINT: is it a Hub's address, with a mirror's path? A proxy or sign-in page may answer in its place: "
    "`curl -v`"
)
_TERMS = "accept its terms on the repository's page; "


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked. host: with port. path: empty for the listing. token: where it comes from; empty = none sent.

    linked: the host was named by a redirect (a CDN or object store), not by the operator.
    """

    host: str
    repo: str
    revision: str
    path: str = ""
    token: str = ""
    linked: bool = False

    @property
    def what(self) -> str:
        """The file or the repository."""
        return f"{self.repo}/{self.path}" if self.path else self.repo


def refusal(status: int, headers: Mapping[str, str], text: str, asked: Asked, now_unix_s: float) -> SourceError:
    """Return the error for an answer that is neither success nor redirect.

    headers: names in lower case. text: the beginning of the answer's body. now_unix_s: for a Retry-After that names
    a date.
    """
    error_code = headers.get("x-error-code", "")
    said = _said(headers, text)
    match status:
        case 403 if _SKEWED.search(text):
            return NotYet(
                "clock-not-set",
                f"{asked.host} refuses {asked.what}: this machine's clock is wrong",
                where=(said,),
                hint="see `timedatectl`; kboot waits for the clock to be set",
                retry=True,
            )
        case 401 | 403 if asked.linked:
            return SourceError(
                "refused-by-store", f"{asked.host} answers {status} for {asked.what}", where=_lines(said)
            )
        case 401:
            return _unauthorized(error_code, said, asked)
        case 403 if _PAGE.match(text) and not error_code:
            return SourceError(
                "auth-forbidden",
                f"{asked.host} answers 403 for {asked.what} with a web page",
                hint="a proxy or firewall on the way may have written it: read it with `curl -v`",
            )
        case 403:
            return _forbidden(error_code, said, asked)
        case 407:
            return refused_by_proxy(status, "the proxy", asked.host)
        case 404 | 410:
            return _not_found(status, error_code, said, asked)
        case 429:
            return RateLimited(
                "rate-limited",
                f"{asked.host} answers 429: too many requests",
                where=_lines(said),
                retry_after_s=_retry_after_s(headers, now_unix_s),
            )
        case _ if status in (408, 425) or status >= 500:
            wait_s = _retry_after_s(headers, now_unix_s)
            message = f"{asked.host} answers {status} for {asked.what}"
            if wait_s is not None:
                return RateLimited("source-busy", message, where=_lines(said), retry_after_s=wait_s)
            return SourceError("source-failing", message, where=_lines(said), retry=True)
        case _:
            return SourceError(
                "unexpected-status", f"{asked.host} answers {status} for {asked.what}", where=_lines(said)
            )


def refused_by_proxy(status: int, proxy: str, host: str) -> SourceError:
    """Return the error for a proxy that does not let a request for a host pass. proxy: how it is called."""
    hint = f"it has to let {host} pass; or except the host with NO_PROXY"
    if status == 407:
        hint = "the proxy variable must have a name and a password: http://NAME:PASSWORD@HOST:PORT"
    return SourceError(
        "proxy-refused", f"{proxy} answers {status} when asked for {host}", hint=hint, retry=status >= 500
    )


def _unauthorized(error_code: str, said: str, asked: Asked) -> SourceError:
    if not asked.token and error_code == "RepoNotFound":
        return SourceError(
            "repo-not-found",
            f"{asked.host} answers 401 for {asked.repo}: there is no such repository, or it is private and no token "
            "was given",
            where=_lines(said),
            hint="check the spelling; for a private repository set HF_TOKEN",
        )
    about = f"the token from {asked.token} is not accepted" if asked.token else "no token was given"
    gated = error_code == "GatedRepo"
    return SourceError(
        "auth",
        f"{asked.host} answers 401 for {asked.repo}: {'it is gated, and ' if gated else ''}{about}",
        where=_lines(said),
        hint=(_TERMS if gated else "")
        + "make a token that may read this repository and set HF_TOKEN, or name a token_file in kboot.toml",
    )


def _forbidden(error_code: str, said: str, asked: Asked) -> SourceError:
    if _DISABLED in said.lower():
        return SourceError(
            "repo-disabled",
            f"{asked.host} answers 403: it has disabled {asked.repo} for everybody",
            where=_lines(said),
            hint="its page may say why; another repository, or a copy of your own, must be named",
        )
    who = f"the token from {asked.token}" if asked.token else "a request without a token"
    if error_code == "GatedRepo":
        return SourceError(
            "auth-gated",
            f"{asked.host} answers 403 for {asked.repo}: it is gated, and {who} may not read it",
            where=_lines(said),
            hint=_TERMS
            + (
                "a fine-grained token needs the scope 'read access to public gated repos'"
                if asked.token
                else "then set HF_TOKEN, or name a token_file in kboot.toml"
            ),
        )
    return SourceError(
        "auth-forbidden", f"{asked.host} answers 403 for {asked.what}: {who} may not read it", where=_lines(said)
    )


def _not_found(status: int, error_code: str, said: str, asked: Asked) -> SourceError:
    what = f"{asked.host} answers {status}:"
    match error_code:
        case "RepoNotFound":
            return SourceError(
                "repo-not-found",
                f"{what} there is no repository {asked.repo}",
                where=_lines(said),
                hint="check the spelling; a private repository needs a token",
            )
        case "RevisionNotFound" if is_commit(asked.revision):
            return SourceError(
                "revision-gone",
                f"{what} {asked.repo} has no commit {asked.revision} (any more)",
                where=_lines(said),
                hint="its history may have been rewritten: pin another commit after comparing the two",
            )
        case "RevisionNotFound":
            return SourceError(
                "revision-not-found",
                f"{what} {asked.repo} has no revision {asked.revision}",
                where=_lines(said),
                hint="the repository's page lists its branches, tags and commits",
            )
        case _ if asked.path:
            return SourceError(
                "file-not-found",
                f"{what} {asked.repo} has no {asked.path} at {asked.revision[:12]}",
                where=_lines(said),
            )
        case _:
            return SourceError("not-found", f"{what} nothing at {asked.repo}", where=_lines(said), hint=NO_HUB_HINT)


def _retry_after_s(headers: Mapping[str, str], now_unix_s: float) -> float | None:
    """Read Retry-After (seconds or a date), else the reset of a RateLimit header (`"api";r=0;t=55`)."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), _MAX_DAYS_S)
    if value:
        try:
            return min(max(0.0, parsedate_to_datetime(value).timestamp() - now_unix_s), _MAX_DAYS_S)
        except (ValueError, OverflowError):
            return None
    reset = _RESET.search(headers.get("ratelimit", ""))
    return min(float(reset[1]), _MAX_DAYS_S) if reset else None


def _said(headers: Mapping[str, str], text: str) -> str:
    if message := headers.get("x-error-message"):
        return mask(message[:200])
    if found := _SAID.findall(text):
        return mask(": ".join(dict.fromkeys(found))[:320])
    line = text.strip().partition("\n")[0]
    return "" if not line or line.startswith("<") else mask(line[:160])


def _lines(said: str) -> tuple[str, ...]:
    return (f"it says: {said}",) if said else ()
