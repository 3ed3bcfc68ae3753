"""Which conditions of a licence apply to what the operator declares? A sum of declared facts, no legal advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kboot.profile.node_config import OperatorAsk
from kboot.profile.types import LicenseAsk, LicenseCondition
from kboot.values import dataclass

Applies = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class ConditionState:
    """One condition for one operator. why: which declared facts decide, or which are missing."""

    needs: str
    applies: Applies
    why: str

    @property
    def text(self) -> str:
        """One line."""
        words = {"yes": "applies", "no": "does not apply", "unknown": "not known to apply or not"}
        return f"{self.needs}: {words[self.applies]} ({self.why})"


def judge(terms: LicenseAsk, operator: OperatorAsk) -> tuple[ConditionState, ...]:
    """Return the state of every condition with a threshold."""
    return tuple(_judge(condition, operator) for condition in terms.condition)


def _judge(condition: LicenseCondition, operator: OperatorAsk) -> ConditionState:
    if condition.uses and operator.use == "":
        use: Applies = "unknown"
    else:
        use = "yes" if not condition.uses or operator.use in condition.uses else "no"
    if use == "no":
        return ConditionState(condition.needs, "no", f"the declared use is {operator.use}")
    bounds = list(_bounds(condition, operator))
    applies = _together([state for state, _ in bounds], any_of=condition.any_of)
    if applies == "no":
        return ConditionState(condition.needs, "no", "; ".join(why for state, why in bounds if state == "no"))
    if use == "unknown":
        missing = "operator.use is not declared"
        return ConditionState(condition.needs, "unknown", "; ".join([missing, *(w for s, w in bounds if s != "no")]))
    decisive = [why for state, why in bounds if state == applies]
    return ConditionState(condition.needs, applies, "; ".join(decisive) or f"the declared use is {operator.use}")


def _together(states: list[Applies], *, any_of: bool) -> Applies:
    decides: Applies = "yes" if any_of else "no"
    if decides in states:
        return decides
    if "unknown" in states:
        return "unknown"
    return "no" if any_of and states else "yes"


def _bounds(condition: LicenseCondition, operator: OperatorAsk) -> Iterator[tuple[Applies, str]]:
    """Return for each bound whether it is passed, and the two numbers."""
    for key, unit, declared, bound in (
        (
            "group_revenue_usd_12_months",
            "$",
            operator.group_revenue_usd_12_months,
            condition.group_revenue_usd_12_months_above,
        ),
        ("monthly_revenue_usd", "$", operator.monthly_revenue_usd, condition.monthly_revenue_usd_above),
        ("monthly_users", "", operator.monthly_users, condition.monthly_users_above),
    ):
        if bound is None:
            continue
        if declared is None:
            yield "unknown", f"operator.{key} is not declared, the bound is {unit}{bound:,.0f}"
        else:
            passed = declared > bound
            yield ("yes" if passed else "no"), f"{key} {unit}{declared:,.0f}, the bound is {unit}{bound:,.0f}"
