"""What can go wrong, said once: a code, what was seen and wanted, where, and what to do next."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses of every kboot command; a contract, documented in each `--help`."""

    DONE = 0
    BUG = 1
    USAGE = 2
    DEGRADED = 3
    DOCTOR_FAILED = 4
    PROFILE = 10
    FACT_MISSING = 11
    VERIFICATION = 12
    ACTION_FAILED = 13
    NOT_READY = 14
    DOES_NOT_FIT = 15
    LICENSE = 16
    SOURCE = 17
    INTERRUPTED = 130


class KbootError(Exception):
    """An error a person can act on.

    code: kebab-case, stable, greppable ("shard-hash-mismatch").
    message: one sentence of what was seen and what was wanted.
    where: further lines that say where (file, URL, key), most important first.
    hint: the next step, a command if there is one.

    A subclass exists only where someone catches it or it has its own exit status.
    """

    status = ExitStatus.ACTION_FAILED

    def __init__(self, code: str, message: str, *, where: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.hint = hint

    def to_json(self) -> dict[str, object]:
        """Return the error as it stands in every `--json` document."""
        return {
            "code": self.code,
            "message": self.message,
            "where": list(self.where),
            "hint": self.hint,
            "status": int(self.status),
        }


class UsageError(KbootError):
    """The command line asks for something that does not exist or does not go together."""

    status = ExitStatus.USAGE


class ProfileError(KbootError):
    """A profile or configuration file is missing or not valid."""

    status = ExitStatus.PROFILE


class FactMissing(KbootError):
    """A decision needs a fact that this machine did not give."""

    status = ExitStatus.FACT_MISSING


class VerificationFailed(KbootError):
    """Bytes on disk are not the bytes of the pinned commit."""

    status = ExitStatus.VERIFICATION


class ActionFailed(KbootError):
    """A change to the machine could not be made."""

    status = ExitStatus.ACTION_FAILED


class NotReady(KbootError):
    """The engine did not answer in time, or died before it did."""

    status = ExitStatus.NOT_READY


class DoesNotFit(KbootError):
    """GPU memory, RAM or disk is too small for what is asked."""

    status = ExitStatus.DOES_NOT_FIT


class LicenseNotAccepted(KbootError):
    """The model's terms were not accepted, or changed since."""

    status = ExitStatus.LICENSE


class SourceError(KbootError):
    """A source of bytes cannot be reached or refuses.

    retry: True where the same request may succeed later or elsewhere (5xx, silence, reset);
    False where it will not (401, 403, 404).
    """

    status = ExitStatus.SOURCE

    def __init__(
        self,
        code: str,
        message: str,
        *,
        where: tuple[str, ...] = (),
        hint: str | None = None,
        retry: bool = False,
    ) -> None:
        super().__init__(code, message, where=where, hint=hint)
        self.retry = retry
