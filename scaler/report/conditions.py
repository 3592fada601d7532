"""What holds of a service now, by the names of conditions: said alike by its status object and by the metrics. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from scaler.decide.world import GroupPlan, Plan, Service
from scaler.rules.rule import Ratio


class Conditions(NamedTuple):
    """Of one service that names a rule."""

    available: bool
    """Every group runs at least what the smallest ratio names, or the service rests."""
    complete: bool
    """It runs the largest ratio that its jobs, and the number of instances that are wanted, allow."""
    rule_valid: bool
    """Its rule exists and has no error. An invalid one leaves the last valid one in force."""


def conditions(service: Service, plan: Plan) -> Conditions:
    return Conditions(plan.serves, plan.complete, service.rule is not None and service.problem is None)


def running_index(service: Service, groups: Mapping[str, GroupPlan]) -> int:
    """Index of the largest ratio of which every group runs what it names, 0 = the rule's largest; -1 for none."""
    ratios = service.rule.ratios if service.rule else ()
    running = {name: group.running for name, group in groups.items()}

    def runs(ratio: Ratio) -> bool:
        return all(running.get(name, 0) >= number for name, number in ratio.counts.items())

    index = bisect_left(ratios, True, key=runs)  # ratios never rise from first to last, and a rule may have 10,000
    return index if index < len(ratios) else -1
