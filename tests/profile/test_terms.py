"""Which conditions of a licence apply to what the operator declares?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kboot.host.paths import Paths
from kboot.profile.load import load_profile
from kboot.profile.node_config import OperatorAsk
from kboot.profile.terms import judge
from kboot.profile.types import LicenseAsk, LicenseCondition

TERMS = load_profile(
    "kimi-k3.1-pro", Paths(Path("/nonexistent/s"), Path("/nonexistent/r"), Path("/nonexistent/c"))
).license
"""Kimi K3.1-Pro: a separate agreement above $20M when access is sold; the name shown above 100M users or $20M."""


@pytest.mark.parametrize(
    ("operator", "agreement", "display"),
    [
        (OperatorAsk(), "unknown", "unknown"),
        (OperatorAsk(use="internal"), "no", "no"),
        (OperatorAsk(use="internal", group_revenue_usd_12_months=1e9, monthly_users=10**9), "no", "no"),
        (OperatorAsk(use="sells-access"), "unknown", "unknown"),
        (OperatorAsk(use="sells-access", group_revenue_usd_12_months=20e6), "no", "unknown"),
        (OperatorAsk(use="sells-access", group_revenue_usd_12_months=20e6 + 1), "yes", "unknown"),
        (OperatorAsk(use="product", group_revenue_usd_12_months=1e9), "no", "unknown"),
        (OperatorAsk(use="product", monthly_users=100_000_001), "no", "yes"),
        (OperatorAsk(use="product", monthly_revenue_usd=20e6 + 1, monthly_users=5), "no", "yes"),
        (OperatorAsk(use="product", monthly_revenue_usd=20e6, monthly_users=100_000_000), "no", "no"),
        (OperatorAsk(use="product", monthly_users=5), "no", "unknown"),
        (OperatorAsk(group_revenue_usd_12_months=1e6), "no", "unknown"),
        (OperatorAsk(group_revenue_usd_12_months=1e8), "unknown", "unknown"),
    ],
    ids=str,
)
def test_thresholds_are_compared_with_what_is_declared(operator: OperatorAsk, agreement: str, display: str) -> None:
    """Above, not at, a bound; what is not declared is unknown unless another fact decides; internal use is exempt."""
    assert [agreement, display] == [state.applies for state in judge(TERMS, operator)]


def test_the_deciding_numbers_are_said() -> None:
    """Whoever reads the line can check it."""
    selling = OperatorAsk(use="sells-access", group_revenue_usd_12_months=25_000_000)

    assert [
        "a separate agreement with the publisher: applies (group_revenue_usd_12_months $25,000,000, the bound is "
        "$20,000,000)",
        "the model's name displayed to users: not known to apply or not (operator.monthly_revenue_usd is not declared, "
        "the bound is $20,000,000; operator.monthly_users is not declared, the bound is 100,000,000)",
    ] == [state.text for state in judge(TERMS, selling)]
    assert "a separate agreement with the publisher: does not apply (the declared use is internal)" == (
        judge(TERMS, OperatorAsk(use="internal"))[0].text
    )


def test_terms_without_thresholds_and_conditions_without_bounds() -> None:
    """Nothing to judge gives nothing; a condition for one use applies to that use."""
    always = LicenseAsk(condition=(LicenseCondition(needs="a notice", uses=("product",)),))

    assert () == judge(LicenseAsk(), OperatorAsk())
    assert ["yes", "no", "unknown"] == [
        judge(always, OperatorAsk(use=use))[0].applies  # type: ignore[arg-type]
        for use in ("product", "internal", "")
    ]
    assert "a notice: applies (the declared use is product)" == judge(always, OperatorAsk(use="product"))[0].text
