"""What holds of a service now, by the names of its conditions, and what its ElasticService says about being scaled: the
same in the status, in the events and in the metrics. Pure; which ratio is aimed at is decided in `decide`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from scaler.decide.explain import counts_in_words
from scaler.decide.world import GroupPlan, Plan, Service
from scaler.kube.api import ASCEND_JOBS
from scaler.names import JOB_ID_LABEL, RULE_LABEL
from scaler.rules.rule import ALL, Ratio

JOB_LABEL = "training.kubeflow.org/job-name"
"""Of every pod of an AscendJob, of ours or of Ascend Operator; the labels of the job itself do not reach its pods."""
MAX_SELECTOR = 16_384
"""Characters; a job's name has 63 at most."""
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NO_POD = f"{RULE_LABEL},!{RULE_LABEL}"
"""For an object of a user about a service that cannot be."""


class Statement(NamedTuple):
    """Why something holds of a service, or what has happened to it: a word of our API, and a sentence for people."""

    reason: str
    message: str


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


def wanted_of(service: Service) -> str:
    """`all`, or the number as it stands in `spec.replicas`."""
    return "all" if service.replicas >= ALL else str(service.replicas)


def number_in_words(wanted: str) -> str:
    """`3 instances are wanted`."""
    match wanted:
        case "all":
            return "as many instances as the rule allows are wanted"
        case "0":
            return "no instance is wanted"
        case "1":
            return "1 instance is wanted"
    return f"{wanted} instances are wanted"


def scaling_limited(service: Service, plan: Plan) -> tuple[bool, Statement]:
    """The condition of that name: fewer are wanted than can serve, so that the smallest ratio counts instead."""
    words = f"{number_in_words(wanted_of(service))}; {_what_follows(service, plan)}"
    if not service.replicas:
        return False, Statement("NoneWanted", words)
    if service.rule is None:
        return False, Statement("NoRule", words)
    if service.replicas < service.rule.smallest.total:
        return True, Statement("BelowMinimum", words)
    reason = "AllWanted" if service.replicas >= service.rule.largest.total else "WithinRule"
    return False, Statement(reason, words)


def _what_follows(service: Service, plan: Plan) -> str:
    """`works up to 2 group0 + 1 group1`."""
    rule, number = service.rule, service.replicas
    if rule is None:
        return "no valid rule has been seen"
    allowed, aims = rule.limited(number).largest, rule.limited(plan.replicas).largest
    words = f"works up to {counts_in_words(aims.counts)}"
    if allowed.total < aims.total:
        return f"{words} until mind-cluster/scale-down-delay is over"
    if not number:
        return "the service rests"
    if number in (allowed.total, ALL):
        return words
    which = "smallest" if number < rule.smallest.total else "largest" if number > allowed.total else "next"
    return f"the {which} ratio has {allowed.total}: {words}"


def selector_of(service: Service) -> str:
    """A label selector of its pods, never empty: an empty one stops every autoscaler."""
    key = service.key
    job_id = f"{JOB_ID_LABEL}={key.job_id}" if _LABEL_VALUE.fullmatch(key.job_id) else f"!{JOB_ID_LABEL}"
    if service.instances and all(instance.kind == ASCEND_JOBS.kind for instance in service.instances):
        names = sorted(instance.name for instance in service.instances if _LABEL_VALUE.fullmatch(instance.name))
        chosen = f"{JOB_LABEL} in ({','.join(names)})"
        return chosen if names and len(chosen) <= MAX_SELECTOR else f"{JOB_LABEL},{job_id}"
    return f"{RULE_LABEL}={key.rule},{job_id}" if _LABEL_VALUE.fullmatch(key.rule) else _NO_POD
