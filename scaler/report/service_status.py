"""The status of one service's ElasticService: what `kubectl get`, `scaler status` and the page show. Pure.

The same decision gives the same status, but for the times in it, and those move only when what they are about does:
they are carried over from the status that was written before. Must not write anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scaler.decide.explain import FACTS, counts_in_words, words
from scaler.decide.world import GroupPlan, Instance, Plan, Service, ServiceKey, State, Verdict
from scaler.kube.api import Object
from scaler.report.conditions import Statement, conditions, running_index, scaling_limited, selector_of, wanted_of
from scaler.report.service_reports import ServiceReport
from scaler.rules.rule import ALL

MAX_INSTANCES = 1600
MAX_GROUPS = 200
MAX_RATIOS = 64
MAX_WARNINGS = 100
MAX_NODES = 8
"""Of one instance."""
MAX_WORDS = 500
MAX_NAME = 253
MAX_BYTES = 900 * 1024
"""The API server takes about 1 MiB per object, and keeps who owns which field in it, too."""
_QUIET = frozenset({State.RUNNING, State.FINISHED})
"""Left out first when not all instances fit."""
AVAILABLE, COMPLETE, DEGRADED, RULE_VALID = "Available", "Complete", "Degraded", "RuleValid"
SCALING_LIMITED = "ScalingLimited"
RESTING = "Resting"


def status_of(report: ServiceReport, before: Object, now: str, *, generation: int = 0) -> Object:
    """The next `status`. `before` is the present one ({} for none), `now` a time as Kubernetes writes it, `generation`
    that of the spec that was decided by.

    See docs/reference/status.md and the schema in manifests/base/elasticservices.yaml for every field.
    """
    plan = report.plan
    current, because = current_ratio(report), reason_of(report)
    groups = _groups_to_show(plan)
    status: Object = {
        "observedGeneration": generation,
        "running": _columns(groups, {name: group.running for name, group in plan.groups.items()}),
        "target": _columns(groups, plan.target) if plan.target_index >= 0 else "-",
        "reason": because.reason,
        "message": because.message[:MAX_WORDS],
        "replicas": sum(group.running for group in plan.groups.values()),
        "selector": selector_of(report.service),
        "wanted": wanted_of(report.service),
        "rule": _rule(report),
        "ratios": [_counts(ratio.counts) for ratio in _ratios(report)[:MAX_RATIOS]],
        "currentRatio": current,
        "targetRatio": _ratio(plan.target_index, plan.target) if plan.target_index >= 0 else None,
        "groups": [_group(name, plan.groups[name]) for name in groups],
        "alone": report.alone[:MAX_WORDS],
        "outOfTouch": report.out_of_touch[:MAX_WORDS],
        "warnings": _warnings(plan),
        "conditions": _conditions(report, current, because, before, now),
    }
    status = {name: value for name, value in status.items() if value not in (None, "", [])}
    status["since"] = before.get("since") or now if _is_unchanged(before, status) else now
    return _fitting(status, _instances(report, before, now), len(_ratios(report)), len(plan.groups) - len(groups))


def without_jobs(key: ServiceKey, replicas: int) -> ServiceReport:
    """Of a service without jobs whose ElasticService stays, because its `spec.replicas` is set."""
    return ServiceReport(Service(key, (), replicas=replicas), Plan(key, -1, {}, complete=False, groups={}, verdicts=()))


def _fitting(status: Object, instances: Sequence[Object], ratios: int, groups: int) -> Object:
    """With as many instances as there is room for, those that need attention first; `groups` are left out already."""
    most = min(MAX_INSTANCES, len(instances))
    while True:
        ranked = sorted(range(len(instances)), key=lambda index: (instances[index]["state"] in _QUIET, index))
        status["instances"] = [instances[index] for index in sorted(ranked[:most])]
        left_out = {"instances": len(instances) - most, "groups": groups, "ratios": max(0, ratios - MAX_RATIOS)}
        status["leftOut"] = {what: number for what, number in left_out.items() if number}
        if not status["leftOut"]:
            del status["leftOut"]
        if not most or len(msgspec.json.encode(status)) <= MAX_BYTES:
            return status
        most //= 2


def current_ratio(report: ServiceReport) -> Object | None:
    """The largest ratio of which every group runs what it names; None while not even the smallest does."""
    index = running_index(report.service, report.plan.groups)
    return _ratio(index, _ratios(report)[index].counts) if index >= 0 else None


def reason_of(report: ServiceReport) -> Statement:
    """Why the service is not complete: the first reason that does not follow from another."""
    plan, problem = report.plan, report.service.problem
    if report.out_of_touch:
        return Statement("OutOfTouch", f"nothing is decided: {report.out_of_touch}")
    if not report.service.instances:
        return Statement("NoJobs", "no job names this rule and this jobID")
    if report.service.rule is None and problem is not None:
        return Statement(problem.kind.value, problem.message)
    if not plan.replicas and report.service.rule is not None:
        return Statement(RESTING, _resting(plan))
    if plan.complete:
        return Statement("Complete", _complete(report))
    waiting = [verdict for verdict in plan.verdicts if verdict.state not in _QUIET]
    for verdict in sorted(waiting, key=lambda verdict: _rank(verdict, plan)):
        return Statement(verdict.reason.value, f"{verdict.name}: {words(verdict, plan)}")
    for note in plan.notes:
        return Statement(note.warning.value, note.message)
    return Statement("Incomplete", "it works towards a larger ratio")


def _resting(plan: Plan) -> str:
    left = sum(verdict.state not in (State.HELD, State.FINISHED) for verdict in plan.verdicts)
    return "nothing is to run: spec.replicas is 0" + (f"; {left} have not ended yet" if left else "")


def _complete(report: ServiceReport) -> str:
    plan = report.plan
    if report.service.replicas < ALL and sum(plan.target.values()) == plan.replicas:
        return f"{scaling_limited(report.service, plan)[1].message}, which runs"
    return "the largest ratio that its jobs allow runs"


def _rank(verdict: Verdict, plan: Plan) -> tuple[bool, bool, bool]:
    """Instances of a group that lacks one go first, and among them those that do not just wait for others."""
    group = plan.groups.get(verdict.group or "")
    satisfied = group is None or group.running >= group.target
    return FACTS[verdict.reason].follows, satisfied, verdict.state is State.HELD


def _is_unchanged(before: Object, now: Object) -> bool:
    return all(before.get(name) == now.get(name) for name in ("running", "target", "reason", "currentRatio"))


def _ratios(report: ServiceReport) -> Sequence[Any]:
    return report.service.rule.ratios if report.service.rule else ()


def _rule(report: ServiceReport) -> Object:
    rule: Object = {"paused": report.service.options.paused, "ratios": len(_ratios(report))}
    if report.last_valid is not None and report.service.rule is not None:
        rule["inForce"] = report.last_valid.sha256
    return rule


def _columns(groups: Sequence[str], counts: Mapping[str, int]) -> str:
    """`2+1`: one number per group, in the groups' order."""
    return "+".join(str(counts.get(name, 0)) for name in groups[:8]) or "-"


def _counts(counts: Mapping[str, int]) -> Object:
    return {name[:MAX_NAME]: counts[name] for name in list(counts)[:MAX_GROUPS]}


def _ratio(index: int, counts: Mapping[str, int]) -> Object:
    return {"index": index, "counts": _counts(counts)}


def _groups_to_show(plan: Plan) -> list[str]:
    """By name; when there are too many, those that have jobs first."""
    groups = plan.groups
    if len(groups) <= MAX_GROUPS:
        return sorted(groups)
    return sorted(sorted(groups, key=lambda name: (not groups[name].live, name))[:MAX_GROUPS])


def _group(name: str, group: GroupPlan) -> Object:
    """Without `admit` and `revoke`: they say what is about to happen, not what is."""
    counted = {"target": group.target, "running": group.running, "inFlight": group.in_flight, "held": group.held}
    return {"name": name[:MAX_NAME], **counted, "live": group.live, "paired": group.paired}


def _warnings(plan: Plan) -> list[Object]:
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    return [
        _without_empty(
            {"type": note.warning.value, "instance": names.get(note.uid), "message": note.message[:MAX_WORDS]}
        )
        for note in plan.notes[:MAX_WARNINGS]
    ]


def _instances(report: ServiceReport, before: Object, now: str) -> list[Object]:
    known = {(found["uid"], found["state"], found["reason"]): found["since"] for found in before.get("instances") or ()}
    instances = {instance.uid: instance for instance in report.service.instances}
    found = []
    for verdict in report.plan.verdicts:
        since = known.get((verdict.uid, verdict.state.value, verdict.reason.value), now)
        found.append(_instance(verdict, instances.get(verdict.uid), words(verdict, report.plan), since))
    return found


def _instance(verdict: Verdict, instance: Instance | None, why: str, since: str) -> Object:
    nodes = sorted({node for node, _ in instance.seats}) if instance is not None else []
    found = {
        "name": verdict.name,
        "uid": verdict.uid,
        "kind": instance.kind if instance is not None else "",
        "group": verdict.group or "",
        "state": verdict.state.value,
        "reason": verdict.reason.value,
        "message": why[:MAX_WORDS],
        "since": since,
        "nodes": nodes[:MAX_NODES],
        "nodesLeftOut": max(0, len(nodes) - MAX_NODES),
    }
    return _without_empty(found)


def _without_empty(found: Object) -> Object:
    return {name: value for name, value in found.items() if value}


# Conditions


def _conditions(
    report: ServiceReport, current: Object | None, because: Statement, before: Object, now: str
) -> list[Object]:
    problem, held = report.service.problem, conditions(report.service, report.plan)
    runs = f"runs {counts_in_words(current['counts'])}" if current else "the smallest ratio does not run"
    serves = held.available and report.plan.replicas > 0
    found = {
        AVAILABLE: (held.available, Statement("MinimumRuns", runs) if serves else because),
        COMPLETE: (held.complete, because),
        DEGRADED: _degraded(report, current, because, before),
        SCALING_LIMITED: scaling_limited(report.service, report.plan),
        RULE_VALID: (
            held.rule_valid,
            Statement(problem.kind.value, problem.message) if problem else Statement("Valid", ""),
        ),
    }
    if not report.service.instances:
        del found[RULE_VALID]  # no rule is read for it
    known = {found["type"]: found for found in before.get("conditions") or ()}
    return [_condition(kind, *found[kind], known.get(kind, {}), now) for kind in found]


def _degraded(
    report: ServiceReport, current: Object | None, because: Statement, before: Object
) -> tuple[bool, Statement]:
    """Since a ratio that ran is not reached any more, until the service is complete. What is not wanted is not lost."""
    if report.plan.complete or not report.plan.replicas or not report.service.instances:
        return False, because
    was = any(found["type"] == DEGRADED and found["status"] == "True" for found in before.get("conditions") or ())
    ran, runs = (sum(ratio["counts"].values()) if ratio else 0 for ratio in (before.get("currentRatio"), current))
    return (was or runs < ran), because if was or runs < ran else Statement("NothingLost", "")


def _condition(kind: str, holds: bool, because: Statement, before: Object, now: str) -> Object:
    status = "True" if holds else "False"
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    return {
        "type": kind, "status": status, "reason": because.reason, "message": because.message[:MAX_WORDS],
        "lastTransitionTime": since,
    }  # fmt: skip
