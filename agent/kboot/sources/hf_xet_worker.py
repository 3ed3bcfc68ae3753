"""What brings one file by hf_xet? A process of its own, which ends when it is told to, whatever the library does.

Reads {"parent", "endpoint", "token", "repo", "commit", "file", "size_bytes", "path"} as JSON from its input. Ends with
0 when the file is there, with 1 and one line of why when it is not. Nothing is hashed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kboot.sources.secrets import mask
from kboot.sources.worker_life import end_with_parent


def main() -> int:
    """Do what the input says."""
    ask = json.load(sys.stdin)
    if not end_with_parent(ask["parent"]):
        return 1
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import xet_get

    token = ask["token"] or False
    try:
        url = hf_hub_url(ask["repo"], ask["file"], revision=ask["commit"], endpoint=ask["endpoint"])
        found = get_hf_file_metadata(url, token=token, endpoint=ask["endpoint"], library_name="kboot").xet_file_data
        if found is None:
            raise ValueError("the Hub keeps it elsewhere")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        xet_get(
            incomplete_path=Path(ask["path"]), xet_file_data=found, headers=headers, expected_size=ask["size_bytes"]
        )
    except Exception as exc:  # noqa: BLE001 - whatever its many layers raise is one line here
        sys.stderr.write(mask((str(exc).strip() or type(exc).__name__).partition("\n")[0][:300]) + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
