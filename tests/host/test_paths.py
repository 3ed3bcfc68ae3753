"""Where kboot keeps things: who decides, in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.errors import UsageError
from kboot.host.paths import Paths, find_paths

ROOT = Paths(Path("/var/lib/kboot"), Path("/run/kboot"), Path("/etc/kboot"))
UNIT = {
    "STATE_DIRECTORY": "/var/lib/kboot",
    "RUNTIME_DIRECTORY": "/run/kboot",
    "CONFIGURATION_DIRECTORY": "/etc/kboot",
    "HOME": "/home/kboot",
}


@pytest.mark.parametrize(
    ("env", "uid", "paths"),
    [
        ({"HOME": "/root"}, 0, ROOT),
        (UNIT, 995, ROOT),
        (
            {"HOME": "/home/ann"},
            1000,
            Paths(
                Path("/home/ann/.local/state/kboot"), Path("/home/ann/.cache/kboot"), Path("/home/ann/.config/kboot")
            ),
        ),
        (
            {"HOME": "/h", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c"},
            1000,
            Paths(Path("/s/kboot"), Path("/r/kboot"), Path("/c/kboot")),
        ),
        (
            {**UNIT, "KBOOT_STATE_DIR": "/a", "KBOOT_RUNTIME_DIR": "/b", "KBOOT_CONFIG_DIR": "/c"},
            0,
            Paths(Path("/a"), Path("/b"), Path("/c")),
        ),
    ],
)
def test_the_nearest_word_counts(env: dict[str, str], uid: int, paths: Paths, tmp_path: Path) -> None:
    """kboot's own variables come first, then systemd's, then the user's folders; root has the system's."""
    system = Path("/") if uid == 0 else tmp_path  # where the user's kboot is the only one

    assert paths == find_paths(None, env, uid, system=system)


def test_the_configuration_outweighs_the_unit_but_not_the_variables() -> None:
    """A node that keeps its state elsewhere says so in kboot.toml, for daemon and engine alike."""
    assert Path("/nvme/kboot") == find_paths(None, UNIT, 995, state="/nvme/kboot").state
    assert Path("/a") == find_paths(None, {"KBOOT_STATE_DIR": "/a"}, 0, state="/nvme/kboot").state


def test_below_root_nothing_else_counts(tmp_path: Path) -> None:
    """With --root every path lies below it."""
    paths = find_paths(tmp_path, {**UNIT, "KBOOT_STATE_DIR": "/a"}, 0, state="/nvme/kboot")

    assert Paths(tmp_path / "var/lib/kboot", tmp_path / "run/kboot", tmp_path / "etc/kboot") == paths


def test_a_user_asks_about_the_node_that_root_has_booted(tmp_path: Path) -> None:
    """Where the node has kboot's folders and the user none, `kboot status` of that user reads the node's."""
    env = {"HOME": str(tmp_path / "ann")}
    mine = tmp_path / "ann/.local/state/kboot"
    node = Paths(tmp_path / "var/lib/kboot", tmp_path / "run/kboot", tmp_path / "etc/kboot")
    assert mine == find_paths(None, env, 1000, system=tmp_path).state

    node.state.mkdir(parents=True)

    assert node == find_paths(None, env, 1000, system=tmp_path)
    assert Path("/nvme/kboot") == find_paths(None, env, 1000, state="/nvme/kboot", system=tmp_path).state
    assert node.runtime == find_paths(None, env, 1000, state="/nvme/kboot", system=tmp_path).runtime


def test_a_configuration_alone_makes_a_node_too(tmp_path: Path) -> None:
    """An installed node that keeps its state elsewhere has /etc/kboot/kboot.toml."""
    (tmp_path / "etc/kboot").mkdir(parents=True)
    (tmp_path / "etc/kboot/kboot.toml").touch()

    assert tmp_path / "etc/kboot" == find_paths(None, {"HOME": "/home/ann"}, 1000, system=tmp_path).config


def test_a_users_own_folders_are_never_left(tmp_path: Path) -> None:
    """State of their own, or any variable that names a folder, keeps a user out of the node's."""
    env = {"HOME": str(tmp_path / "ann")}
    (tmp_path / "var/lib/kboot").mkdir(parents=True)
    assert Path("/r") == find_paths(None, {**env, "KBOOT_RUNTIME_DIR": "/r"}, 1000, system=tmp_path).runtime
    assert (
        tmp_path / "ann/.local/state/kboot"
        == find_paths(None, {**env, "KBOOT_RUNTIME_DIR": "/r"}, 1000, system=tmp_path).state
    )

    (tmp_path / "ann/.local/state/kboot").mkdir(parents=True)

    assert tmp_path / "ann/.local/state/kboot" == find_paths(None, env, 1000, system=tmp_path).state


@pytest.mark.parametrize("value", ["~/kboot", "$HOME/kboot"])
def test_a_path_that_no_shell_expanded_is_refused(value: str) -> None:
    """huggingface_hub#4292: the checkpoint lands in a folder named `~` below wherever the program was started."""
    with pytest.raises(UsageError) as caught:
        find_paths(None, {"KBOOT_STATE_DIR": value, "HOME": "/root"}, 0)

    assert f"KBOOT_STATE_DIR is {value!r}, which nobody expanded; wanted: an absolute path" == caught.value.message
