"""How is a host written with its port?"""

from __future__ import annotations


def host_port(host: str, port: int | str) -> str:
    """Return both as one word; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
