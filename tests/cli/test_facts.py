"""`kboot facts`: what was found on this node?"""

from __future__ import annotations

from cli_run import Kboot


def test_facts_of_this_machine_as_text_and_json(kboot: Kboot) -> None:
    """The text names the node's parts; the document is of kind facts."""
    text, doc = kboot("facts"), kboot("facts", "--json")

    assert (0, 0) == (text.status, doc.status)
    assert "CPUs" in text.out
    assert (1, "facts") == (doc.doc["schema"], doc.doc["kind"])
    assert doc.doc["cpu"]["online"]


def test_a_recorded_node_reads_as_the_node_did(kboot: Kboot) -> None:
    """--record writes a tree from which --root reads the same facts."""
    tree = kboot.folder / "node"
    recorded = kboot("facts", "--record", str(tree), "--json")
    here, there = kboot("facts", "--json").doc, kboot("facts", "--root", str(tree), "--json").doc

    assert ("record", 0) == (recorded.doc["kind"], recorded.status)
    for part in ("os", "cpu", "gpu", "limits"):
        assert here[part] == there[part]
    assert (tree / "sys/module").is_dir()  # what doctor asks beyond facts is in it
    unknown = [gap["fact"] for gap in there["gaps"]]
    assert not any(fact.startswith("mounts.") for fact in unknown)  # where --root looks is in it as well


def test_what_was_recorded_is_told_at_80_columns(kboot: Kboot) -> None:
    """How many files, where, and how they are read."""
    tree = kboot.folder / ("node" + 40 * "e")
    ran = kboot("facts", "--record", str(tree))

    assert 0 == ran.status
    assert f" files written below {tree}" in " ".join(ran.out.split())
    assert f"`kboot facts --root {tree}` reads them back" in " ".join(ran.out.split())
    assert not [line for line in ran.out.splitlines() if len(line) > max(80, len(str(tree)) + 2)]


def test_a_root_that_does_not_exist_is_a_usage_error(kboot: Kboot) -> None:
    """--root names a folder; one that is not there is status 2, not an empty machine."""
    ran = kboot("facts", "--root", "/nowhere/at/all")

    assert 2 == ran.status
    assert "/nowhere/at/all" in ran.err


def test_a_record_that_cannot_be_written_says_why(kboot: Kboot) -> None:
    """A folder that cannot be made is an error with its place, not a traceback."""
    ran = kboot("facts", "--record", "/proc/nowhere")

    assert 13 == ran.status
    assert "/proc/nowhere" in ran.err
    assert "Traceback" not in ran.err


def test_a_configuration_that_is_broken_names_file_and_line(kboot: Kboot) -> None:
    """A broken kboot.toml is status 10 for every command that reads it; a missing --config file too."""
    (kboot.folder / "etc/kboot.toml").write_text("profile = \n")

    assert 10 == kboot("facts").status
    assert "kboot.toml" in kboot("facts").err
    assert 10 == kboot("facts", "--config", "/nowhere.toml").status
