"""Names have addresses, and this machine knows its own."""

from __future__ import annotations

import pytest

from kboot.host.names import addresses_of, interface_of, is_address, own_addresses


def test_localhost_has_an_address_of_this_machine() -> None:
    """A name that every machine knows leads to one of its own addresses."""
    assert set(addresses_of("localhost", 30.0)) & own_addresses()


def test_a_name_that_is_none_is_an_os_error() -> None:
    """Reserved names have no address, and what is no name is not asked for at all."""
    for name in ("nowhere.invalid", "a" * 300):
        with pytest.raises(OSError, match=r"."):
            addresses_of(name, 60.0)


def test_an_interface_has_its_own_addresses() -> None:
    """The loopback interface has the loopback address; one that is not there is an error that names those that are."""
    assert "127.0.0.1" in own_addresses("lo")
    with pytest.raises(OSError, match=r"there is no interface nosuch0; there are .*lo"):
        own_addresses("nosuch0")


def test_an_address_has_its_interface() -> None:
    """Every system has the first; nobody has an address that is for documentation."""
    assert ("lo", "") == (interface_of("127.0.0.1"), interface_of("192.0.2.1"))


def test_addresses_are_told_from_names() -> None:
    """Both families, and nothing else."""
    assert [True, True, False, False] == [is_address(text) for text in ("10.0.0.1", "fd00::1", "node1", "")]
