import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

import pytest

from kboot.errors import KbootError
from kboot.store.layout import (
    dangling_links,
    leads_to,
    link_target,
    other_files,
    place,
    repo_folder,
    spelled_on_disk,
)

BLOB = "b" * 64
COMMIT = "c" * 40


def test_a_repository_has_the_folder_that_hub_gives_it(tmp_path: Path) -> None:
    """models--owner--name with blobs, snapshots, refs and trees; the part is not what `hf cache prune` removes."""
    folder = repo_folder(tmp_path, "acme/Tiny-1B")

    assert tmp_path / "models--acme--Tiny-1B" == folder.path
    assert folder.path / "blobs" / BLOB == folder.blob(BLOB)
    assert folder.path / "blobs" / f"{BLOB}.part" == folder.part(BLOB)
    assert folder.path / "snapshots" / COMMIT == folder.snapshot(COMMIT)
    assert folder.path / "refs" / "refs/pr/1" == folder.ref("refs/pr/1")
    assert folder.path / "trees" / f"{COMMIT}.json" == folder.tree(COMMIT)


@pytest.mark.parametrize("repo", ["", "a/b/c", "../x", "a/..", "a b/c", "/etc", "a/", "a/.b", "a\n/b"])
def test_what_is_no_repository_id_never_becomes_a_path(repo: str, tmp_path: Path) -> None:
    """An id with a way out of the hub folder is an error of the profile."""
    with pytest.raises(KbootError) as caught:
        repo_folder(tmp_path, repo)

    assert "repo-not-valid" == caught.value.code


def test_another_letter_case_finds_the_folder_of_this_disk(tmp_path: Path) -> None:
    """B038: the disk has Org/Model-7B, the profile says org/model-7b."""
    (tmp_path / "models--Org--Model-7B").mkdir()

    assert "Org/Model-7B" == spelled_on_disk(tmp_path, "org/model-7b")
    assert "Org/Model-7B" == spelled_on_disk(tmp_path, "Org/Model-7B")
    assert spelled_on_disk(tmp_path, "org/model-8b") is None
    assert spelled_on_disk(tmp_path / "nowhere", "org/model-7b") is None


def test_two_spellings_on_disk_are_an_error_unless_one_is_exact(tmp_path: Path) -> None:
    """B038: kboot does not choose between two folders."""
    (tmp_path / "models--Org--M").mkdir()
    (tmp_path / "models--ORG--M").mkdir()

    assert "ORG/M" == spelled_on_disk(tmp_path, "ORG/M")
    with pytest.raises(KbootError) as caught:
        spelled_on_disk(tmp_path, "org/m")
    assert "repo-ambiguous" == caught.value.code
    assert 2 == len(caught.value.where)


def test_names_with_two_dashes_are_respelled_right(tmp_path: Path) -> None:
    """`--` in a name is not taken for the slash."""
    (tmp_path / "models--A--b--C").mkdir()

    assert "A--b/C" == spelled_on_disk(tmp_path, "a--b/c")
    assert "A/b--C" == spelled_on_disk(tmp_path, "a/b--c")


def test_links_are_relative_at_any_depth() -> None:
    """The hub folder can be moved, copied or baked as a whole."""
    assert f"../../blobs/{BLOB}" == link_target("config.json", BLOB)
    assert f"../../../../blobs/{BLOB}" == link_target("x/y/config.json", BLOB)


def test_a_dangling_link_leads_nowhere_and_is_named(tmp_path: Path) -> None:
    """B046: a tree copied with its links kept has links without blobs."""
    snapshot = repo_folder(tmp_path, "a/b").snapshot(COMMIT)
    (snapshot / "sub").mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/missing")
    (snapshot / "sub/there").write_text("x")

    assert ("config.json",) == dangling_links(snapshot)
    assert not leads_to(snapshot / "config.json", "../../blobs/missing", tmp_path / "missing")
    assert ("sub/there",) == other_files(snapshot, {"config.json"})


def test_a_file_system_without_symbolic_links_gets_hard_links(tmp_path: Path) -> None:
    """B047: symlink() answers EPERM, as on exFAT and some NAS; the snapshot still gets its content."""
    blob, link = tmp_path / "blob", tmp_path / "snapshots/c/config.json"
    blob.write_text("content")

    assert "link" == in_child(lambda: place(blob, link, "../../blob"), deny=("symlink", "symlinkat"))
    assert blob.stat().st_ino == link.stat().st_ino
    assert leads_to(link, "../../blob", blob)


def test_a_file_system_without_any_links_gets_copies(tmp_path: Path) -> None:
    """B047: where link() is refused as well, the content is copied."""
    blob, link = tmp_path / "blob", tmp_path / "snapshots/c/config.json"
    blob.write_text("content")

    answer = in_child(lambda: place(blob, link, "../../blob"), deny=("symlink", "symlinkat", "link", "linkat"))

    assert ("copy", "content", False) == (answer, link.read_text(), leads_to(link, "../../blob", blob))


def test_other_refusals_are_not_taken_for_missing_links(tmp_path: Path) -> None:
    """A full disk is said, not worked around."""
    (tmp_path / "blob").write_text("content")

    answer = in_child(
        lambda: place(tmp_path / "blob", tmp_path / "x/link", "../blob"), ("symlink", "symlinkat"), errno.ENOSPC
    )

    assert "disk-full" == answer


SYSCALLS = {
    "x86_64": (0xC000003E, {"symlink": 88, "symlinkat": 266, "link": 86, "linkat": 265}),
    "aarch64": (0xC00000B7, {"symlinkat": 36, "linkat": 37}),
}


def in_child(work, deny: tuple[str, ...], refusal: int = errno.EPERM) -> str:
    """Return what `work` answers, or the code of its error, in a process whose kernel refuses some system calls."""
    machine, numbers = SYSCALLS[platform.machine()]
    reader, writer = os.pipe()
    if not (pid := os.fork()):
        try:
            refuse([numbers[name] for name in deny if name in numbers], machine, refusal)
            try:
                answer = work()
            except KbootError as exc:
                answer = exc.code
            os.write(writer, answer.encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()


def refuse(numbers: list[int], machine: int, refusal: int) -> None:
    """Make this process's kernel answer `refusal` to system calls (a seccomp filter)."""
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, machine), (0x06, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
    for left, number in zip(range(len(numbers), 0, -1), numbers):
        code.append((0x15, left, 0, number))
    code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | refusal)]
    program = b"".join(struct.pack("<HBBI", *step) for step in code)
    text = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert 0 == libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    assert 0 == libc.prctl(22, 2, filter_, 0, 0), os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP
