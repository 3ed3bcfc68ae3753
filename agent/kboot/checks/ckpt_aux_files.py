"""Are tokenizer, configuration, chat template and code those of the pinned commit?"""

from __future__ import annotations

from kboot.checkpoint import CheckpointFacts
from kboot.checks.asked import gap_reason
from kboot.checks.ckpt_complete import asked
from kboot.checks.types import EVERYWHERE, Check, Finding
from kboot.checks.words import count, some
from kboot.facts.types import NodeFacts
from kboot.profile.types import Profile


def run(facts: NodeFacts, profile: Profile | None, checkpoint: CheckpointFacts | None) -> Finding:
    """They are small, so they are hashed at every look; a wrong one makes wrong answers and no error."""
    if checkpoint is None:
        return Finding("skip", "no commit is known on this disk: see ckpt.complete")
    small = facts.kept.small
    if small is None:
        return Finding("unknown", f"they could not be looked at ({gap_reason(facts, 'kept')})")
    wrong = [file for file in small if file.state == "wrong"]
    dangling = facts.kept.dangling
    if wrong or dangling:
        words = [f"{file.path} ({file.why})" for file in wrong] + [f"{path} is a link to nothing" for path in dangling]
        return Finding(
            "fail",
            some(words),
            wanted="the files of the pinned commit",
            why="the engine ends while it starts, or answers with a wrong template, tokenizer or code",
            hint=f"`kboot verify{asked(profile)} --repair`"
            if wrong
            else f"`kboot fetch{asked(profile)}`; a folder copied with its links leaves the blobs behind: `cp -rL`",
        )
    absent = [file.path for file in small if file.state == "absent"]
    if absent:
        return Finding(
            "warn",
            f"{len(absent)} of {count(len(small), 'small file')} not here: {some(absent)}",
            wanted="all of them",
            why="boot fetches them first, so it needs the network",
            hint=f"`kboot fetch{asked(profile)}`",
        )
    late = [file for file in small if file.state == "not-looked-at"]
    if late:
        named = some(f"{f.path} ({f.why})" for f in late)
        return Finding(
            "unknown",
            f"{len(late)} of {count(len(small), 'small file')} not hashed now: {named}",
            wanted="all of them hashed",
            hint=f"`kboot verify{asked(profile)} --mode full`",
        )
    needed = [name for name in ("config.json",) if not any(file.path == name for file in small)]
    note = f"; the commit has no {needed[0]}" if needed else ""
    return Finding("ok", f"{count(len(small), 'small file')} hashed just now, all right{note}")


CHECK = Check(
    id="ckpt.aux_files",
    asks="Are tokenizer, configuration, chat template and code those of the pinned commit?",
    source="the small files of the commit, hashed now; links of the snapshot",
    modes=EVERYWHERE,
    run=run,
)
