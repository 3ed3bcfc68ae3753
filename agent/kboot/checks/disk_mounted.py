"""Is everything mounted that holds kboot's folders?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """A disk that is attached late leaves an empty mount point, which would be filled on the root disk."""
    if not facts.mounts or not all(m.mount_point for m in facts.mounts):
        return Finding("unknown", f"the mounts could not be read ({gap_reason(facts, 'mounts')})")
    lost = facts.upkeep.lost_mounts
    if not lost:
        return Finding("ok", "nothing that /etc/fstab or a mount unit puts above kboot's folders is missing")
    on = next((m for m in facts.mounts if m.path == lost[0] or m.path.startswith(f"{lost[0]}/")), facts.mounts[0])
    return Finding(
        "fail",
        f"{some(lost)} {'is' if len(lost) == 1 else 'are'} not mounted, as /etc/fstab or a unit asks; {on.path} is on "
        f"{on.mount_point} ({on.device}) instead",
        wanted="a mount there",
        why="the checkpoint would be fetched again, onto a disk that is not meant for it",
        hint=f"`mount {lost[0]}`; RequiresMountsFor={lost[0]} in a drop-in of kboot.service waits for it",
    )


CHECK = Check(
    id="disk.mounted",
    asks="Is everything mounted that holds kboot's folders?",
    source="/etc/fstab; mount units of /etc/systemd/system; /proc/self/mountinfo",
    modes=EVERYWHERE,
    run=run,
)
