"""`kboot license show`: which conditions apply to this operator?"""

from __future__ import annotations

from cli_run import Kboot


def test_conditions_are_judged_by_what_the_configuration_declares(kboot: Kboot) -> None:
    """Nothing declared: not known. Access sold by a group above the bound: the agreement is needed."""
    before = kboot("license", "show", "--profile", "kimi-k3.1-pro", "--json")
    (kboot.folder / "etc" / "kboot.toml").write_text(
        '[operator]\nuse = "sells-access"\ngroup_revenue_usd_12_months = 25_000_000\nmonthly_users = 10\n'
        "monthly_revenue_usd = 1000\n"
    )
    after = kboot("license", "show", "--profile", "kimi-k3.1-pro", "--json")
    text = kboot("license", "show", "--profile", "kimi-k3.1-pro").out

    assert ["unknown", "unknown"] == [c["applies"] for c in before.doc["conditions"]]
    assert ["yes", "no"] == [c["applies"] for c in after.doc["conditions"]]
    assert "sells-access" == after.doc["operator"]["use"]
    assert "a separate agreement with the publisher: applies" in text
    assert "(terms as of 2026-11-11)" in text
    assert "`kboot license accept --profile kimi-k3.1-pro` accepts it" in " ".join(text.split())


def test_what_is_declared_is_no_part_of_the_profile(kboot: Kboot) -> None:
    """The digest that a hand-off is signed with does not move when revenue does."""
    before = kboot("profile", "show", "kimi-k3.1-pro", "--json").doc["digest"]
    (kboot.folder / "etc" / "kboot.toml").write_text('[operator]\nuse = "internal"\n')

    assert before == kboot("profile", "show", "kimi-k3.1-pro", "--json").doc["digest"]


def test_a_declaration_that_cannot_be_is_named(kboot: Kboot) -> None:
    """As every other value of the configuration."""
    (kboot.folder / "etc" / "kboot.toml").write_text('[operator]\nuse = "resale"\n')
    ran = kboot("license", "show", "--profile", "kimi-k3.1-pro")

    assert 10 == ran.status
    assert "operator.use" in ran.err
