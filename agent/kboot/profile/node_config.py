"""What is asked of a node apart from any model? Apart from profiles, since every command reads it."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from kboot.values import dataclass

# A bound is a pair as the validator of kboot.profile.schema has it: ("ge", 0) is at least 0.
NotNegative = Annotated[int, ("ge", 0)]
NotNegativeUsd = Annotated[float, ("ge", 0.0)]

OperatorUse = Literal["", "internal", "product", "sells-access"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAsk:
    """`[operator]` of kboot.toml: what the operator declares, for terms that depend on it. Nothing is sent anywhere.

    use: internal = nobody outside is served; product = inside a product; sells-access = inference or fine-tuning
    access is sold. group_revenue_usd_12_months: highest of any 12 months, of the whole group. None = not declared.
    """

    use: OperatorUse = ""
    group_revenue_usd_12_months: NotNegativeUsd | None = None
    monthly_revenue_usd: NotNegativeUsd | None = None
    monthly_users: NotNegative | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """`/etc/kboot/kboot.toml`: what this node does at boot, apart from any model.

    profile: name of the profile to boot. state_dir, runtime_dir: empty = the defaults.
    token_file: Hub token, mode 0600. operator: facts that a model's terms depend on.
    metrics_port: where the daemon answers on 127.0.0.1; 0 = nowhere. metrics_file: for node_exporter; empty = none.
    reclaim: who announces the end of this machine (see kboot.apply.reclaim).
    standby: prepare everything and start no engine until `kboot live`.
    """

    schema: Literal[1] = 1
    profile: str = ""
    state_dir: str = ""
    runtime_dir: str = ""
    token_file: str = ""
    metrics_port: Annotated[int, ("ge", 0), ("le", 65535)] = 0
    metrics_file: str = ""
    reclaim: tuple[str, ...] = ()
    standby: bool = False
    operator: OperatorAsk = field(default_factory=OperatorAsk)
