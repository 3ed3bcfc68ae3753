from pathlib import Path

import pytest

from kboot.errors import SourceError
from kboot.sources.tls import tls_context

CASES = Path(__file__).parents[1] / "cases" / "B033"
CA = Path(__file__).parents[1] / "fakes" / "tls" / "ca.pem"


def env_of(name: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (CASES / name).read_text().splitlines())


def test_an_empty_variable_is_as_good_as_none() -> None:
    """B033: CURL_CA_BUNDLE= does not turn checking off."""
    context = tls_context(env_of("env_empty"))

    assert context.check_hostname
    assert "CERT_REQUIRED" == context.verify_mode.name


def test_a_missing_file_is_an_error() -> None:
    """B033: a variable that names nothing stops us, and says which variable."""
    with pytest.raises(SourceError) as caught:
        tls_context(env_of("env_missing"))

    assert "ca-file-missing" == caught.value.code
    assert "SSL_CERT_FILE" in caught.value.message


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_each_variable_names_the_roots(variable: str) -> None:
    """B033: the named roots, and only they, are believed."""
    context = tls_context({variable: str(CA)})

    assert 1 == context.cert_store_stats()["x509_ca"]
    assert "CERT_REQUIRED" == context.verify_mode.name


def test_a_file_that_holds_no_certificate_is_an_error(tmp_path: Path) -> None:
    """Garbage is not taken for an empty set of roots."""
    (tmp_path / "ca.pem").write_text("hello")

    with pytest.raises(SourceError) as caught:
        tls_context({"SSL_CERT_FILE": str(tmp_path / "ca.pem")})
    assert "ca-file-not-valid" == caught.value.code
