import pytest

from kboot.errors import SourceError
from kboot.sources.proxies import Origin, origin_of, proxy_for

HUB = Origin("https", "huggingface.co", 443)
PROXY = Origin("http", "proxy", 3128)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://huggingface.co/org/m", HUB),
        ("https://HuggingFace.co:443", HUB),
        ("http://[::1]:8080/x", Origin("http", "::1", 8080)),
        ("http://u:p@h/x", Origin("http", "h", 80)),
        ("https://b\u00fccher.example/", Origin("https", "xn--bcher-kva.example", 443)),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: Origin) -> None:
    """Default ports are filled in, letter case and user info are not part of it."""
    assert origin == origin_of(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/",
        "huggingface.co",
        "http://",
        "http://h:port/",
        "",
        "http://a b/",
        "http://a\x7f/",
        "http://\u00fc" + "x" * 70,
        "http://[::1",
        "http://[x]/",
    ],
)
def test_what_is_not_a_web_address_is_refused(url: str) -> None:
    """Only http and https with a host are origins."""
    with pytest.raises(SourceError) as caught:
        origin_of(url)
    assert "url-not-valid" == caught.value.code


@pytest.mark.parametrize(
    ("env", "straight"),
    [
        ({}, True),
        ({"HTTPS_PROXY": "http://proxy:3128"}, False),
        ({"https_proxy": "proxy:3128"}, False),
        ({"HTTP_PROXY": "http://proxy:3128"}, True),
        ({"ALL_PROXY": "http://proxy:3128"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "other, .co"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "huggingface.co"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "huggingface.co:8443"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "*"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "gface.co"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "localhost 127.0.0.1\thuggingface.co"}, True),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*.co"}, True),  # request/request#2194
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*gface.co"}, False),
        ({"HTTPS_PROXY": "http://proxy:3128", "ALL_PROXY": "socks://127.0.0.1:7890"}, False),  # pdm-project/pdm#3390
        ({"HTTPS_PROXY": ""}, True),
    ],
)
def test_the_usual_variables_decide(env: dict[str, str], straight: bool) -> None:
    """HTTPS_PROXY for https, NO_PROXY by whole labels of a name, lower case first."""
    found = proxy_for(HUB, env)

    assert straight == (found is None)
    assert found is None or PROXY == found.origin


def test_networks_can_be_excepted() -> None:
    """NO_PROXY takes address ranges."""
    assert None is proxy_for(Origin("http", "10.1.2.3", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"})


@pytest.mark.parametrize(
    ("host", "listed"),
    [
        ("fd00::1", "FD00:0:0::1"),
        ("fd00::1", "[fd00:0::1]"),
        ("hub.example.", "hub.example"),
        ("hub.example", "example."),
    ],
)
def test_one_host_may_be_written_in_several_ways(host: str, listed: str) -> None:
    """As curl takes them: an IPv6 address longer than it must be, a name with the dot of the root."""
    assert None is proxy_for(Origin("https", host, 443), {"HTTPS_PROXY": "http://p:1", "NO_PROXY": listed})


def test_an_address_in_brackets_can_be_excepted() -> None:
    """encode/httpx#2674: `::1`, `[::1]` and ranges stand beside names, and none of them breaks the others."""
    for listed in ("[::1]", "localhost,127.0.0.1,::1/128,[::1]", "::1"):
        assert None is proxy_for(Origin("http", "::1", 80), {"HTTP_PROXY": "http://p:1", "NO_PROXY": listed})


def test_a_password_that_is_no_part_of_a_url_is_not_shown() -> None:
    """`#` ends what a URL says of its host: the port is lost, and the password must not be told instead of it."""
    with pytest.raises(SourceError) as caught:
        proxy_for(HUB, {"HTTPS_PROXY": "http://me:se#cret@proxy:3128"})

    assert "proxy-not-valid" == caught.value.code
    assert "se" not in caught.value.message.replace("has", "")


def test_credentials_go_to_the_proxy_alone() -> None:
    """User and password become its own header."""
    found = proxy_for(HUB, {"HTTPS_PROXY": "http://me:p%40ss@proxy:3128"})

    assert found and {"Proxy-Authorization": "Basic bWU6cEBzcw=="} == found.headers


def test_a_password_of_other_bytes_than_utf8_goes_as_it_is() -> None:
    """An environment may hold any bytes, and the proxy's administrator may have set them in Latin-1."""
    found = proxy_for(origin_of("https://hf.co"), {"https_proxy": "http://me:\udce9@proxy:3128"})

    assert found and {"Proxy-Authorization": "Basic bWU66Q=="} == found.headers


def test_a_socks_proxy_is_an_error_not_a_detour() -> None:
    """A proxy we cannot speak to is named, without its password."""
    with pytest.raises(SourceError) as caught:
        proxy_for(HUB, {"ALL_PROXY": "socks5://me:secret@proxy:1080"})

    assert "proxy-not-supported" == caught.value.code
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("hub.localhost", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("h", False),
    ],
)
def test_loopback_is_this_machine(host: str, loopback: bool) -> None:
    """By address or by the reserved name."""
    assert loopback == Origin("http", host, 80).is_loopback
