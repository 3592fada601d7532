"""The status of one service's ElasticService: what `kubectl get`, `scaler status` and the page
show. Pure.

The same decision gives the same status: a time is copied from the status before until its subject
changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from scaler.decide.decision import Note, Plan, State, Verdict
from scaler.decide.explain import counts_in_words, words
from scaler.decide.world import Service, ServiceKey
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.names import JOB_ID_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.reasons.row import Tone
from scaler.reasons.warnings import Warning
from scaler.report.losses import in_words as losses_in_words
from scaler.report.losses import losses
from scaler.report.service_reports import ServiceReport, rule_is_valid, running_index
from scaler.rules.rule import ALL
from scaler.rules.short import in_short
from scaler.workloads.ascendjob import JOB_LABEL

MAX_INSTANCES = 1600
MAX_GROUPS = 200
MAX_RATIOS = 64
MAX_WARNINGS = 100
MAX_NODES = 8
MAX_WORDS = 500
MAX_NAME = 253
MAX_SELECTOR = 16_384
"""Characters; a job's name has 63 at most."""
MAX_BYTES = 900 * 1024
"""The API server accepts about 1 MiB per object, and also stores the owner of each field in it."""
_QUIET = frozenset({State.RUNNING, State.FINISHED})
"""States that are left out first when not all instances fit."""
AVAILABLE = "Available"
COMPLETE = "Complete"
DEGRADED = "Degraded"
RULE_VALID = "RuleValid"
SCALING_LIMITED = "ScalingLimited"
RESTING = "Resting"
INSTANCE_LOST = "InstanceLost"
_ALSO_NAMED = 3
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Statement(NamedTuple):
    """Why a condition holds, or what has happened: a reason word of our API, and a sentence for
    people."""

    reason: str
    message: str


def status_of(report: ServiceReport, before: Object, now: str, *, generation: int = 0) -> Object:
    """The next `status` (docs/reference/status.md). `before` is the present one ({} for none),
    `now` a time as Kubernetes writes it, `generation` that of the spec that the decision saw."""
    plan = report.plan
    service = report.service
    ratios = service.rule.ratios if service.rule else ()
    index = running_index(service, plan.groups)
    current = {"index": index, "counts": _counts(ratios[index].counts)} if index >= 0 else None
    target = (
        {"index": plan.target_index, "counts": _counts(plan.target)}
        if plan.target_index >= 0
        else None
    )
    because = _reason(report)
    shown = because
    if because.reason == COMPLETE:
        shown = _what_is_wrong(report) or because
    groups = _groups_in_order(service, plan)
    instances = _instances(report, before, now)
    lost = losses(before, instances, _troubles(service), now) if _may_be_degraded(report) else []
    named = service.rule.groups if service.rule else groups
    running = {name: plan.groups[name].running for name in groups if name in named}
    wanted = {name: plan.target.get(name, 0) for name in running}
    rule: Object = {
        "state": _state_of_rule(service),
        "paused": service.options.paused,
        "ratios": len(ratios),
    }
    if report.last_valid is not None and service.rule is not None:
        rule["inForce"] = report.last_valid.sha256
    status: Object = {
        "observedGeneration": generation,
        "running": in_short(running, report.stages),
        "target": in_short(wanted, report.stages) if target else "-",
        "reason": shown.reason,
        "message": shown.message[:MAX_WORDS],
        "replicas": sum(group.running for group in plan.groups.values()),
        "selector": selector_of(service),
        "wanted": wanted_of(service),
        "rule": rule,
        "ratios": [_counts(ratio.counts) for ratio in ratios[:MAX_RATIOS]],
        "currentRatio": current,
        "targetRatio": target,
        "groups": [_group(name, report) for name in groups],
        "alone": report.alone[:MAX_WORDS],
        "outOfTouch": report.out_of_touch[:MAX_WORDS],
        "lost": lost,
        "warnings": _warnings(report),
        "conditions": _conditions(report, current, because, lost, (before, now)),
    }
    status = {name: value for name, value in status.items() if value not in (None, "", [])}
    same = all(
        before.get(name) == status.get(name)
        for name in ("running", "target", "reason", "currentRatio")
    )
    status["since"] = before.get("since") or now if same else now
    left_out = {
        "groups": len(plan.groups) - len(groups),
        "ratios": max(0, len(ratios) - MAX_RATIOS),
    }
    return _fitting(status, instances, left_out)


def without_jobs(key: ServiceKey, replicas: int) -> ServiceReport:
    """The report of a service without jobs whose ElasticService stays, because its `spec.replicas`
    is set."""
    return ServiceReport(
        Service(key, (), replicas=replicas),
        Plan(key, -1, {}, complete=False, groups={}, verdicts=()),
    )


def _fitting(status: Object, instances: Sequence[Object], left_out: Mapping[str, int]) -> Object:
    """The status with as many instances as fit, those that need attention first; `left_out` is left
    out in any case."""
    most = min(MAX_INSTANCES, len(instances))
    ranked = sorted(
        range(len(instances)), key=lambda index: (instances[index]["state"] in _QUIET, index)
    )
    while True:
        shown = {"instances": [instances[index] for index in sorted(ranked[:most])]}
        missing = _without_empty(instances=len(instances) - most, **left_out)
        fitted = status | shown | _without_empty(leftOut=missing)
        if not most or len(msgspec.json.encode(fitted)) <= MAX_BYTES:
            return fitted
        most //= 2


def _reason(report: ServiceReport) -> Statement:
    """Why the service is not complete: the first reason that does not follow from another."""
    plan = report.plan
    service = report.service
    if report.out_of_touch:
        return Statement("OutOfTouch", f"nothing is decided: {report.out_of_touch}")
    if not service.instances:
        return Statement("NoJobs", "no job names this rule and this jobID")
    if service.rule is None and service.problem is not None:
        return Statement(service.problem.kind.value, service.problem.message)
    if not plan.replicas and service.rule is not None:
        left = sum(verdict.state not in (State.HELD, State.FINISHED) for verdict in plan.verdicts)
        ending = f"; {left} have not ended yet" if left else ""
        return Statement(RESTING, f"nothing is to run: spec.replicas is 0{ending}")
    if plan.complete:
        limited = service.replicas < ALL and sum(plan.target.values()) == plan.replicas
        runs = f"{scaling_limited(service, plan)[1].message}, which runs" if limited else ""
        runs = runs or "the largest ratio that its jobs allow runs"
        return Statement("Complete", runs + _surplus_in_words(plan))
    waiting = [verdict for verdict in plan.verdicts if verdict.state not in _QUIET]
    wrong = [verdict for verdict in plan.verdicts if verdict.reason.row.counts_for_nothing]
    if wrong and _lacks_jobs(waiting):
        waiting = wrong
    if waiting:
        first = min(waiting, key=lambda verdict: _rank(verdict, plan))
        also = _also([one for one in wrong if one is not first])
        return Statement(first.reason.value, f"{first.name}: {words(first, plan)}{also}")
    for note in plan.notes:
        return Statement(note.warning.value, note.message)
    return Statement("Incomplete", "it works towards a larger ratio")


def _what_is_wrong(report: ServiceReport) -> Statement | None:
    """What somebody has to mend though the largest ratio runs: a rule that is not in force, one
    that is paused, an instance that waits for a person, or a warning; None for nothing."""
    service = report.service
    if report.out_of_touch or not service.instances:
        return None
    wrong = [one for one in report.plan.verdicts if one.reason.row.tone is Tone.PERSON]
    if service.problem is not None:
        message = f"{service.problem.message}.{_also(wrong)}" if wrong else service.problem.message
        return Statement(service.problem.kind.value, message)
    if service.options.paused:
        paused = "the rule holds everything that does not run (mind-cluster/paused)"
        message = f"{paused}.{_also(wrong)}" if wrong else paused
        return Statement(Reason.PAUSED.value, message)
    if wrong:
        first = wrong[0]
        message = f"{first.name}: {words(first, report.plan)}{_also(wrong[1:])}"
        return Statement(first.reason.value, message)
    if report.plan.notes:
        note = report.plan.notes[0]
        return Statement(note.warning.value, note.message)
    return None


def _lacks_jobs(waiting: Sequence[Verdict]) -> bool:
    """Whether what waits lacks nothing but other instances: then a wrong label is the cause."""
    for verdict in waiting:
        row = verdict.reason.row
        is_incomplete = verdict.reason is Reason.MINIMUM_INCOMPLETE
        if not (is_incomplete or row.follows or row.counts_for_nothing):
            return False
    return True


def _surplus_in_words(plan: Plan) -> str:
    """`; beyond it 1 group0 runs`, where more runs than the ratio names; else ""."""
    more = {name: max(0, group.running - group.target) for name, group in plan.groups.items()}
    return f"; beyond it {counts_in_words(more)} runs" if any(more.values()) else ""


def _troubles(service: Service) -> dict[str, str]:
    """Uid of an instance -> what is wrong with its pods."""
    return {one.uid: one.trouble for one in service.instances if one.trouble}


def _may_be_degraded(report: ServiceReport) -> bool:
    """Whether what it lost counts: it is not complete, and something is wanted of it."""
    plan = report.plan
    return bool(not plan.complete and plan.replicas and report.service.instances)


def _also(verdicts: Sequence[Verdict]) -> str:
    """` Also GroupUnknown: p7.` of the first three of these instances; "" for none."""
    named = [f" Also {one.reason}: {one.name}." for one in verdicts[:_ALSO_NAMED]]
    more = len(verdicts) - len(named)
    return "".join(named) + (f" And {more} more." if more else "")


def _state_of_rule(service: Service) -> str:
    """`ok`, `invalid`, `paused`, or "" for a service without jobs, which names no rule."""
    if not service.instances:
        return ""
    if not rule_is_valid(service):
        return "invalid"
    return "paused" if service.options.paused else "ok"


def _groups_in_order(service: Service, plan: Plan) -> list[str]:
    """The groups as the rule names them, then others by name; at most `MAX_GROUPS`, those with
    instances first."""
    of_rule = list(service.rule.largest.counts) if service.rule else []
    named = [name for name in of_rule if name in plan.groups]
    ordered = named + sorted(set(plan.groups) - set(named))
    live_first = sorted(ordered, key=lambda name: not plan.groups[name].live)
    kept = set(live_first[:MAX_GROUPS])
    return [name for name in ordered if name in kept]


def _rank(verdict: Verdict, plan: Plan) -> tuple[bool, bool, bool]:
    """Sort key: first instances of a group that lacks one, and among them those that do not only
    wait for others."""
    group = plan.groups.get(verdict.group or "")
    satisfied = group is None or group.running >= group.target
    return verdict.reason.row.follows, satisfied, verdict.state is State.HELD


def _counts(counts: Mapping[str, int]) -> Object:
    return {name[:MAX_NAME]: counts[name] for name in list(counts)[:MAX_GROUPS]}


def _group(name: str, report: ServiceReport) -> Object:
    """The counts of a group. `admit` and `revoke` are not shown: they are plans, not the present
    state."""
    group = report.plan.groups[name]
    stage = report.stages.get(name, "")
    counted = {
        "target": group.target,
        "running": group.running,
        "inFlight": group.in_flight,
        "held": group.held,
    }
    found = {"name": name[:MAX_NAME], **counted, "live": group.live, "paired": group.paired}
    return {**found, "stage": stage} if stage else found


def _warnings(report: ServiceReport) -> list[Object]:
    plan = report.plan
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    notes = list(plan.notes)
    if report.not_kept:
        notes.insert(0, Note(Warning.NOT_KEPT, report.not_kept))
    return [
        _without_empty(
            type=note.warning.value, instance=names.get(note.uid), message=note.message[:MAX_WORDS]
        )
        for note in notes[:MAX_WARNINGS]
    ]


def _instances(report: ServiceReport, before: Object, now: str) -> list[Object]:
    known = {
        (found["uid"], found["state"], found["reason"]): found["since"]
        for found in before.get("instances") or ()
    }
    instances = {instance.uid: instance for instance in report.service.instances}
    shown: list[Object] = []
    for verdict in report.plan.verdicts:
        instance = instances[verdict.uid]
        nodes = sorted({node for node, _ in instance.bound_pods})
        found = _without_empty(
            name=verdict.name,
            uid=verdict.uid,
            kind=instance.kind,
            group=verdict.group,
            state=verdict.state.value,
            reason=verdict.reason.value,
            message=words(verdict, report.plan)[:MAX_WORDS],
            since=known.get((verdict.uid, verdict.state.value, verdict.reason.value), now),
            nodes=nodes[:MAX_NODES],
            nodesLeftOut=max(0, len(nodes) - MAX_NODES),
        )
        shown.append(found)
    return shown


def _without_empty(**fields: object) -> Object:
    return {name: value for name, value in fields.items() if value}


# Conditions


def _conditions(
    report: ServiceReport,
    current: Object | None,
    because: Statement,
    lost: Sequence[Object],
    times: tuple[Object, str],
) -> list[Object]:
    """`times`: the status before, and now."""
    service = report.service
    plan = report.plan
    before, now = times
    problem = report.service.problem
    runs = plan.serves and plan.replicas > 0
    valid = Statement(problem.kind.value, problem.message) if problem else Statement("Valid", "")
    running = {name: plan.groups[name].running for name in _groups_in_order(service, plan)}
    found = {
        AVAILABLE: (
            plan.serves,
            Statement("MinimumRuns", f"runs {counts_in_words(running)}") if runs else because,
        ),
        COMPLETE: _complete(report, because),
        DEGRADED: _degraded(report, current, because, lost, before),
        SCALING_LIMITED: scaling_limited(service, plan),
        RULE_VALID: (rule_is_valid(service), valid),
    }
    if not service.instances:
        del found[RULE_VALID]  # the service names no rule
    known = {was["type"]: was for was in before.get("conditions") or ()}
    shown: list[Object] = []
    for kind, (holds, (reason, message)) in found.items():
        was = known.get(kind, {})
        status = "True" if holds else "False"
        since = was.get("lastTransitionTime", now) if was.get("status") == status else now
        what = {"type": kind, "status": status, "reason": reason, "message": message[:MAX_WORDS]}
        shown.append({**what, "lastTransitionTime": since})
    return shown


def _complete(report: ServiceReport, because: Statement) -> tuple[bool, Statement]:
    """Not while another rule is in force than the one that is written, nor while the rule is
    paused: who waits for this condition after an edit would believe that the edit holds."""
    if not report.plan.complete:
        return False, because
    if report.service.problem is not None or report.service.options.paused:
        return False, _what_is_wrong(report) or because
    return True, because


def runs_all(status: Object) -> bool:
    """Whether the largest ratio that its jobs allow runs, also where the condition Complete is
    False for the rule alone."""
    for found in status.get("conditions") or ():
        if found["type"] == COMPLETE and found["status"] == "True":
            return bool(status["reason"] != RESTING)
    is_rule = status.get("rule", {}).get("state", "ok") != "ok"
    current = status.get("currentRatio")
    return is_rule and current is not None and current == status.get("targetRatio")


def running_of(status: Object) -> dict[str, int]:
    """Running instances of each group, in the order of the rule."""
    return {group["name"]: group["running"] for group in status.get("groups") or ()}


def in_order(status: Object, counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by group of a status, in the order of the rule: an API server sorts them by name."""
    ordered = {}
    for group in status.get("groups") or ():
        if group["name"] in counts:
            ordered[group["name"]] = counts[group["name"]]
    return ordered | {name: number for name, number in counts.items() if name not in ordered}


def runs_in_words(status: Object) -> str:
    """`runs 2 group0 + 1 group1`: what runs, also where no ratio names just that."""
    if not status.get("currentRatio"):
        return "the smallest ratio does not run"
    return f"runs {counts_in_words(running_of(status))}"


def runs_more(status: Object) -> bool:
    """Whether some group runs more instances than the ratio worked towards names."""
    for group in status.get("groups") or ():
        if group["running"] > group["target"]:
            return True
    return False


def _degraded(
    report: ServiceReport,
    current: Object | None,
    because: Statement,
    lost: Sequence[Object],
    before: Object,
) -> tuple[bool, Statement]:
    """True from when something that ran is lost until all of it runs again or the service is
    complete. What is not wanted is not lost."""
    if not _may_be_degraded(report):
        return False, because
    if lost:
        return True, Statement(INSTANCE_LOST, losses_in_words(lost))
    ran = _size(before.get("currentRatio"))
    was_degraded = _was_degraded(before) and not before.get("lost")
    if was_degraded or _size(current) < ran:
        return True, because
    return False, Statement("NothingLost", "")


def _was_degraded(before: Object) -> bool:
    for found in before.get("conditions") or ():
        if found["type"] == DEGRADED and found["status"] == "True":
            return True
    return False


def _size(ratio: Object | None) -> int:
    """Instances of a ratio of the status; 0 for none."""
    return sum(ratio["counts"].values()) if ratio else 0


# Scaling


def wanted_of(service: Service) -> str:
    """`all`, or the number as it stands in `spec.replicas`."""
    return "all" if service.replicas >= ALL else str(service.replicas)


def number_in_words(wanted: str) -> str:
    """`3 instances are wanted`."""
    special = {
        "all": "as many instances as the rule allows are wanted",
        "0": "no instance is wanted",
        "1": "1 instance is wanted",
    }
    return special.get(wanted, f"{wanted} instances are wanted")


def scaling_limited(service: Service, plan: Plan) -> tuple[bool, Statement]:
    """The condition ScalingLimited: `spec.replicas` is below the smallest ratio, so that ratio
    counts instead."""
    said = f"{number_in_words(wanted_of(service))}; {_what_follows(service, plan)}"
    if not service.replicas:
        return False, Statement("NoneWanted", said)
    if service.rule is None:
        return False, Statement("NoRule", said)
    if service.replicas < service.rule.smallest.total:
        return True, Statement("BelowMinimum", said)
    reason = "AllWanted" if service.replicas >= service.rule.largest.total else "WithinRule"
    return False, Statement(reason, said)


def _what_follows(service: Service, plan: Plan) -> str:
    """`works up to 2 group0 + 1 group1`."""
    rule = service.rule
    number = service.replicas
    if rule is None:
        return "no valid rule has been seen"
    allowed = rule.limited(number).largest
    aims = rule.limited(plan.replicas).largest
    works = f"works up to {counts_in_words(aims.counts)}"
    if allowed.total < aims.total:
        return f"{works} until mind-cluster/scale-down-delay is over"
    if not number:
        return "the service rests"
    if number in (allowed.total, ALL):
        return works
    if number < rule.smallest.total:
        which = "smallest"
    elif number > allowed.total:
        which = "largest"
    else:
        which = "next"
    return f"the {which} ratio has {allowed.total}: {works}"


def selector_of(service: Service) -> str:
    """A label selector of the pods, of none for a service that cannot exist; an empty one would
    stop any autoscaler."""
    key = service.key
    job_id = (
        f"{JOB_ID_LABEL}={key.job_id}" if _LABEL_VALUE.fullmatch(key.job_id) else f"!{JOB_ID_LABEL}"
    )
    kinds = {instance.kind for instance in service.instances}
    if kinds == {ASCEND_JOBS.kind}:
        names = [instance.name for instance in service.instances]
        names = sorted(name for name in names if _LABEL_VALUE.fullmatch(name))
        chosen = f"{JOB_LABEL} in ({','.join(names)})"
        return chosen if names and len(chosen) <= MAX_SELECTOR else f"{JOB_LABEL},{job_id}"
    return (
        f"{RULE_LABEL}={key.rule},{job_id}"
        if _LABEL_VALUE.fullmatch(key.rule)
        else f"{RULE_LABEL},!{RULE_LABEL}"
    )
