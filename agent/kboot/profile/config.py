"""What does `kboot.toml` say this node does at boot?"""

from __future__ import annotations

from pathlib import Path

from kboot.host.paths import Paths
from kboot.profile.document import is_missing, read_document
from kboot.profile.merge import merge_documents
from kboot.profile.node_config import NodeConfig
from kboot.profile.validate import validate


def load_config(path: Path | None, paths: Paths) -> NodeConfig:
    """Return the node's configuration.

    path: of `--config`; None = `<config>/kboot.toml`, whose absence means all defaults.

    Raises:
        ProfileError: config-not-found (only for a path that was asked for), config-not-readable, config-broken-toml,
            config-not-valid.
    """
    file = path or paths.config / "kboot.toml"
    if path is None and is_missing(file):
        return NodeConfig()
    documents = (read_document(file, str(file), "config"),)
    return validate(NodeConfig, merge_documents(documents), documents, "the configuration", {}, "config")
