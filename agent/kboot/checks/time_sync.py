"""Is this machine's clock kept right?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason, unread
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile
from kboot.quantities import show_roughly

BACK_S = 120.0


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """Certificates, signed links and the order of a fleet's logs rest on it."""
    newest_s = facts.kept.newest_unix_s
    if newest_s is not None and facts.collected_unix_s < newest_s - BACK_S:
        return Finding(
            "fail",
            f"the clock is {show_roughly(newest_s - facts.collected_unix_s)} behind what this node itself wrote down",
            wanted="a clock that does not go back",
            why="certificates are not valid yet, and links are signed for another time: every source refuses",
            hint="`chronyc makestep`, or `timedatectl set-ntp true`",
        )
    clock = facts.upkeep.clock
    if clock is None:
        if unread(facts, "upkeep.clock"):
            return Finding("unknown", f"the kernel's clock may not be asked ({gap_reason(facts, 'upkeep.clock')})")
        return Finding("skip", "this recording has no state of the clock")
    if clock.synchronised:
        return Finding("ok", f"kept right, to within {clock.error_s * 1000:.0f} ms")
    if facts.os.container:
        return Finding("skip", f"the clock is the host's ({facts.os.container}), and nothing in here can set it")
    if "microsoft" in facts.os.kernel_release.lower():
        return Finding("skip", "Windows sets the clock of WSL, and no program in it needs to")
    return Finding(
        "warn",
        f"nothing keeps the clock right: it may be {clock.error_s:.0f} s off, and more each day",
        wanted="chrony, systemd-timesyncd, ntpd or PTP at work",
        why="a few minutes off, links and certificates are refused; logs of several nodes do not fit together",
        hint="`timedatectl set-ntp true`, or install chrony; on a virtual machine /dev/ptp0 is a source",
    )


CHECK = Check(
    id="time.sync",
    asks="Is this machine's clock kept right?",
    source="adjtimex; the newest record in the state folder",
    modes=EVERYWHERE,
    run=run,
)
