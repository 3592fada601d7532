"""What holds of a service now, by the names of conditions: said alike by its status object and by the metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scaler.decide.world import GroupPlan, Plan, Service


class Conditions(NamedTuple):
    """Of one service that names a rule."""

    available: bool
    """Every group runs at least what the smallest ratio names."""
    complete: bool
    """It runs the largest ratio that its jobs allow."""
    rule_valid: bool
    """Its rule exists and has no error. An invalid one leaves the last valid one in force."""


def conditions(service: Service, plan: Plan) -> Conditions:
    return Conditions(plan.serves, plan.complete, service.rule is not None and service.problem is None)


def running_index(service: Service, groups: Mapping[str, GroupPlan]) -> int:
    """Index of the largest ratio of which every group runs what it names, 0 = the rule's largest; -1 for none."""
    for index, ratio in enumerate(service.rule.ratios if service.rule else ()):
        if all(name in groups and groups[name].running >= number for name, number in ratio.counts.items() if number):
            return index
    return -1
