import errno
import socket
import ssl

import pytest

from kboot.sources.failures import at_proxy, explain_network, unresolved
from kboot.sources.types import NotYet


@pytest.mark.parametrize(
    ("exc", "code", "retry"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "host-unknown", False),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "connection-refused", True),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "connection-cut", True),
        (TimeoutError("timed out"), "source-silent", True),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), "tls-failed", True),
    ],
)
def test_each_failure_has_its_code(exc: Exception, code: str, retry: bool) -> None:
    """What a socket raised becomes one of our errors, which names the host."""
    error = explain_network(exc, "hub:443")

    assert error and (code, retry) == (error.code, error.retry)
    assert "hub:443" in error.message


@pytest.mark.parametrize(
    "exc",
    [
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
        socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure in name resolution"),
        OSError(errno.ENETUNREACH, "unreachable"),
    ],
)
def test_a_network_that_is_not_up_yet_is_no_failure(exc: OSError) -> None:
    """B132: EAI_AGAIN and no route are waited for, not counted."""
    assert isinstance(explain_network(exc, "hub:443"), NotYet)


@pytest.mark.parametrize(
    ("code", "says", "hint"),
    [
        (10, "certificate has expired", "timedatectl"),
        (20, "unable to get local issuer certificate", "ca-certificates"),
        (62, "Hostname mismatch", "HF_ENDPOINT"),
    ],
)
def test_a_certificate_that_is_refused_tells_what_to_look_at(code: int, says: str, hint: str) -> None:
    """ai-dynamo/aiconfigurator#1361: a slim image has no roots; a clock that is ahead ends every certificate."""
    refused = ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED")
    refused.verify_code, refused.verify_message = code, says
    error = explain_network(refused, "hub:443")

    assert error and "certificate-refused" == error.code
    assert says in error.message and hint in str(error.hint)


def test_a_server_without_tls_is_told_from_one_whose_tls_is_broken() -> None:
    """https:// in front of an http server is a slip of the operator's; an alert of the server is not."""
    plain, broken = ssl.SSLError(1, "said"), ssl.SSLError(1, "said")
    plain.reason, broken.reason = "WRONG_VERSION_NUMBER", "TLSV1_ALERT_INTERNAL_ERROR"
    hints = [error.hint for error in (explain_network(exc, "hub:443") for exc in (plain, broken)) if error]

    assert "http://" in str(hints[0])
    assert hints[1] is None


def test_what_a_proxy_waits_for_is_waited_for() -> None:
    """A proxy's name that is not known yet is no more a failed try than the server's own."""
    error = at_proxy(unresolved("proxy", "Temporary failure"), "hub:443")

    assert isinstance(error, NotYet) and error.retry


def test_other_errors_are_somebody_elses() -> None:
    """A full disk or a bug is not explained away as the network."""
    assert None is explain_network(OSError(errno.ENOSPC, "full"), "hub:443")
    assert None is explain_network(KeyError("x"), "hub:443")
