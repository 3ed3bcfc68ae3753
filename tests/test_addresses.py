"""How is a host written with its port?"""

from __future__ import annotations

from kboot.addresses import host_port


def test_only_an_ipv6_address_stands_in_brackets() -> None:
    """Its own colons would run into that of the port."""
    assert ["node-1:8000", "10.0.0.1:8000", "[fd00::1]:8000"] == [
        host_port(host, 8000) for host in ("node-1", "10.0.0.1", "fd00::1")
    ]
