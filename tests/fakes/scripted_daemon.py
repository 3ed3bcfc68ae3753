"""A daemon whose boots follow a script: each word of the last argument is one boot.

done, degraded: the boot leaves a record. refused: a permanent error. away: a transient one. crash: an exception.
slow: ends well once the file FOLDER/go exists. warming: so does it, and is prepared before.
files: forever reports new files, until stopped. stuck: reports the same byte over and over, until stopped. bare: ends
well but leaves no record. The last word repeats.

The node stands by while FOLDER/hold exists. FOLDER/notice announces its end; its engine has stopped when FOLDER/drained
exists.

Usage: scripted_daemon.py FOLDER STALL_S GIVE_UP_S WORD...
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from kboot.apply.reclaim import NoticeWatch
from kboot.daemon import Daemon
from kboot.errors import KbootError, ProfileError, SourceError
from kboot.events import Emit, Event, FileDone, FileProgress, PhaseStarted
from kboot.host.inbox import Inbox
from kboot.host.notify import own_notifier
from kboot.options import Timing
from kboot.report.types import BootReport, BootStatus


def report(status: BootStatus) -> BootReport:
    return BootReport("b", "p", "c", status, 0.0, 1.0, None, None, "ledger", "", "k", (), (), (), None)


class Script:
    def __init__(self, words: list[str], record: Path) -> None:
        self.words = words
        self.record = record
        self.release = lambda: None

    def __call__(self, emit: Emit, stop: threading.Event) -> BootReport:
        word = self.words.pop(0) if len(self.words) > 1 else self.words[0]
        emit(PhaseStarted("fetch", 3, 3_000_000))
        match word:
            case "done" | "degraded":
                emit(FileDone("fetch", "a", 1_000_000, 0.1, "hub"))
                self.record.write_text("{}")
            case "warming":
                self.record.write_text("{}")
                self.release()
                while not (self.record.parent / "go").exists():
                    stop.wait(0.02)
                word = "done"
            case "slow":
                while not (self.record.parent / "go").exists():
                    stop.wait(0.02)
                self.record.write_text("{}")
                word = "done"
            case "bare":
                word = "done"
            case "refused":
                raise ProfileError("unknown-profile", "there is no profile x")
            case "away":
                raise SourceError("source-unreachable", "no answer from the hub", retry=True)
            case "crash":
                raise RuntimeError("a bug")
            case "files" | "stuck":
                count = 0
                while not stop.wait(0.02):
                    count += word == "files"
                    emit(FileProgress("fetch", "a", count, 3_000_000))
                word = "interrupted"
        return report(word)


def quiet(_event: Event) -> None:
    """Tell nobody."""


def main(folder: Path, stall_s: float, give_up_s: float, words: list[str]) -> int:
    inbox = Inbox(folder / "kboot.sock")
    timing = Timing(stall_s=stall_s, retry_s=0.01, retry_max_s=0.05, give_up_s=give_up_s, tick_s=0.05)
    record = folder / "handoff.json"

    def drain(timeout_s: float) -> str:
        end_s = time.monotonic() + timeout_s
        while not (folder / "drained").exists() and time.monotonic() < end_s:
            time.sleep(0.02)
        return "drained"

    stands_by = (folder / "hold").exists
    script = Script(words, record)
    daemon = Daemon("p", script, record, inbox, own_notifier(), quiet, timing, drain=drain, stands_by=stands_by)
    script.release = daemon.release
    NoticeWatch((f"file:{folder}/notice",), quiet, daemon.leave, poll_s=0.05).begin()
    try:
        return daemon.serve()
    except KbootError as error:
        print(f"error: {error.code}", file=sys.stderr)
        return error.status
    finally:
        inbox.close()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
