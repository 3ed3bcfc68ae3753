"""Do the certificates that the environment names exist?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """An empty variable counts as unset; one that names no certificates ends every connection with an error."""
    trust = facts.asked.trust
    if trust is None:
        if unread(facts, "asked.trust"):
            return Finding("unknown", f"the certificates could not be looked at ({gap_reason(facts, 'asked.trust')})")
        return Finding("skip", "a recording has no environment")
    if not trust:
        return Finding("ok", "certificates can be checked")
    return Finding(
        "fail",
        trust,
        wanted="a PEM file with the certificate authorities, or the variable unset",
        why="every https source refuses before its first byte; kboot does not turn checking off instead",
        hint="put the file there, or unset SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE",
    )


CHECK = Check(
    id="net.ca_file",
    asks="Do the certificates that the environment names exist?",
    source="SSL_CERT_FILE, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE of this environment",
    modes=EVERYWHERE,
    run=run,
)
