"""Which files does a ticket need, and how are they packed? One tar, the same bytes for the same findings. Pure."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping

from kboot.report.redact import redact, redact_document

FOLDER = "kboot-doctor"


def evidence(documents: Mapping[str, object], texts: Mapping[str, str], names: tuple[str, ...], unix_s: float) -> bytes:
    """Return a .tar.gz of documents (as JSON) and texts, all without secrets, addresses and `names`.

    unix_s: the time that all files get.
    """
    files = {name: redact(text, names) for name, text in texts.items()}
    for name, document in documents.items():
        files[name] = json.dumps(redact_document(document, names), indent=1, sort_keys=True) + "\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(unix_s), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)
