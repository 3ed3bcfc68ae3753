"""What of an image was only compared with its manifest? Hashed in the background, once the node can spare the disk."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from kboot.apply.answering import engine_answers
from kboot.apply.behind import Behind
from kboot.apply.first_boot import image_of, pinned
from kboot.apply.pace import Pace
from kboot.errors import KbootError
from kboot.events import Emit, Notice
from kboot.host.files import remove
from kboot.host.paths import Paths
from kboot.host.types import Host
from kboot.profile.types import Profile
from kboot.report.types import BootReport
from kboot.store.store import Store
from kboot.verification import verify_checkpoint

SERVING_MIB_S = 200
"""How much is read beside an engine that serves; beside one that starts there is no limit but the idle priority."""


def unproven(profile: Profile, paths: Paths) -> int:
    """Return how many files of the checkpoint were compared with the image by samples, and hashed by nobody here."""
    store = Store(paths)
    ask_ = profile.checkpoint
    listing = store.known_listing(ask_.repo, ask_.revision)
    return sum(local.of_image == "samples" for local in store.local(listing)) if listing else 0


class Proof:
    """Works in a thread of its own, at idle priority, beside whoever prepares or serves.

    answers: whether the engine of the record serves; asked every few seconds where the hash waits for that.
    """

    def __init__(self, host: Host, paths: Paths, emit: Emit, answers: Callable[[], bool] | None = None) -> None:
        self._host, self._paths, self._emit = host, paths, emit
        self._lock = threading.Lock()
        self._profile: Profile | None = None
        self._behind = Behind("proof", self._work, answers or partial(engine_answers, host, paths))

    def begin(self) -> None:
        """Wait for an offer."""
        self._behind.begin()

    def offer(self, profile: Profile) -> None:
        """Look whether something of this profile's checkpoint is to be hashed, now that its hand-off is there."""
        with self._lock:
            self._profile = pinned(profile, image_of(self._paths, self._emit))
        self._behind.offer()

    def after(self, profile: Profile, prepare: Callable[[Profile], BootReport]) -> BootReport:
        """Prepare the node, then offer what is left to be hashed; return the report."""
        report = prepare(profile)
        if report.status in ("done", "degraded"):
            self.offer(profile)
        return report

    def end(self) -> None:
        """Stop; what was hashed until now is known, the next boot goes on from there."""
        self._behind.end()

    def _work(self) -> None:
        with self._lock:
            profile = self._profile
        if profile is None or profile.verify.image != "bake":
            return
        try:
            self._prove(profile)
        except KbootError as exc:
            self._emit(Notice("image.not_proven", f"{exc.code}: {exc.message}; the next boot tries again"))

    def _prove(self, profile: Profile) -> None:
        files = unproven(profile, self._paths)
        if not files or (profile.verify.image_hash == "after" and not self._behind.is_time()):
            return
        self._emit(Notice("image.proving", f"{files} files of the image are hashed in the background"))
        rate_mib_s = SERVING_MIB_S if profile.verify.image_hash == "after" else 0
        asked = replace(profile, verify=replace(profile.verify, image="full"))
        found = verify_checkpoint(
            asked,
            self._host,
            self._paths,
            "full",
            repair=False,
            offline=True,
            emit=self._emit,
            stop=self._behind.stop,
            pace=Pace(rate_mib_s, background=True),
            min_age_s=math.inf,  # those that were hashed at any time are left
        )
        wrong = [o for o in found.outcomes if o.status == "failed"]
        if wrong:
            self._refuse(wrong[0].error)
        elif not self._behind.stop.is_set():
            self._emit(Notice("image.proven", found.claim))

    def _refuse(self, error: KbootError | None) -> None:
        """Let no engine be started from these files again; what one has loaded already only a person can judge."""
        said = error.message if error else "a file of the image is wrong"
        remove(self._paths.handoff)
        self._emit(
            Notice(
                "image.damaged",
                f"{said}; the engine may have loaded it. It is not started again from this record: `kboot boot` mends "
                "the file where a source has it",
            )
        )
