"""Who decides in the month, and with what rights."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.world import Preempt, World
from scaler.settings import Settings
from scaler.sim.stories.play import SIMULATED
from tests.bench.availability.minutes import Numbers
from tests.bench.availability.planner import Bound

Decide = Callable[[World, DecisionCache | None], Decision]
CALM = {"out_of_touch": 100_000, "disruption_budgets": False}
"""Settings that only save time here: nothing is ever out of touch, and nobody drains a node."""


class Arm(Enum):
    """Each with its name in the table."""

    GATE = "Ascend Operator's gate"
    OFF = "each service alone (`arbitration` off)"
    DEFAULT = "this product, by default"
    EQUAL = "this product, `preempt: equal-or-higher`"
    BOUND = "bound that evicts nothing"
    BOUND_DEFAULT = "bound with the rights of the default"
    BOUND_EQUAL = "bound with the rights of `equal-or-higher`"


PRODUCT = (Arm.DEFAULT, Arm.EQUAL)
BOUND_OF = {Arm.DEFAULT: Arm.BOUND_DEFAULT, Arm.EQUAL: Arm.BOUND_EQUAL}
_RIGHTS = {
    Arm.BOUND: None,
    Arm.BOUND_DEFAULT: Preempt.HIGHER_PRIORITY,
    Arm.BOUND_EQUAL: Preempt.EQUAL_OR_HIGHER,
}


class Played(msgspec.Struct):
    """A month of one arm. `cpu` is in seconds."""

    arm: str
    numbers: Numbers
    passes: int
    cpu: float


def decider_of(arm: Arm) -> Decide:
    """A bound decides in place of the product."""
    return Bound(_RIGHTS[arm]) if arm in _RIGHTS else decide


def settings_of(arm: Arm) -> Settings:
    more: dict[str, object] = {**CALM, "arbitration": arm is not Arm.OFF}
    if arm is Arm.EQUAL:
        more["preempt"] = Preempt.EQUAL_OR_HIGHER
    return SIMULATED.model_copy(update=more)
