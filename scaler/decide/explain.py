"""Verdicts in words: one sentence says why an instance is where it is, and what a person can do.

Events, conditions, ElasticServices and the commands all speak with these sentences, most of which
stand in the rows of the reasons. The sentence must be the same for the same verdict and plan:
writers compare the words to find out whether there is news."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import UNSET

from scaler.decide.decision import NOBODY, Plan, State, Verdict
from scaler.decide.nodes import COUNTED_IN, Node, Requirement, Where
from scaler.decide.world import Instance, KubeletRefusal, Size
from scaler.reasons.reasons import Reason
from scaler.rules.labels import nearest
from scaler.rules.rule import ALL
from scaler.timestamps import in_minutes

REPLACED = "its owner has replaced it"
DOES_NOT_START = "a container does not start:"
NOT_RUNNING_YET = "not running yet:"
"""How the words begin about a bound pod with which nothing is wrong."""
_KUBELET = "the kubelet of "
_EXPECTED_ROOM = "room on"
_LACKS_ROOM = ("needs ", _EXPECTED_ROOM)
"""How the words begin about what the nodes lack for its pods."""
_NODES_NAMED = 3
"""Nodes that are away, which one sentence names."""
NEVER_PLACED = "JobValidateFailed"
"""How the scheduler's words begin that it never binds a pod of a job."""
_RULES_OF_NPUS = {
    "chips": "by MindCluster's device data",
    "cards": "in whole cards",
    "super-pod": "in whole cards of a super-pod",
    "linked": "with network",
    "well": "on nodes that are not sub-healthy",
}
"""The words for kinds of NPUs, as `workloads.npu_rules` names them."""
_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def words(verdict: Verdict, plan: Plan) -> str:
    """One sentence for people about one instance of `plan`."""
    row = verdict.reason.row
    if row.counts_for_nothing and verdict.state is not State.HELD:
        does = "Runs" if verdict.state is State.RUNNING else "Starts"
        return f"{does}, but {_about(verdict, 'its labels are wrong')}."
    if REPLACED in verdict.about:  # a pod that ended is no job that ended
        return f"It has ended{_colon(verdict)}."
    if verdict.reason in _SENTENCES:
        return _SENTENCES[verdict.reason](verdict, plan)
    return row.en.sentence.format(
        about=_about(verdict, "not known"),
        colon=_colon(verdict),
        key=plan.key,
        group=verdict.group,
    )


def counts_in_words(counts: Mapping[str, int]) -> str:
    """`2 group0 + 1 group1`; groups with 0 are left out."""
    words = []
    for group, number in counts.items():
        if number:
            words.append(f"{number} {group}")
    return " + ".join(words) or "nothing"


def target_in_words(plan: Plan) -> str:
    """What the service works towards, and how far it is."""
    if not plan.replicas:
        return "no ratio: it rests, spec.replicas of its ElasticService is 0"
    if plan.target_index < 0:
        return (
            "no ratio: it names no rule"
            if plan.complete
            else "no ratio: no valid rule has been seen"
        )
    missing = tuple(name for name, group in plan.groups.items() if group.running < group.target)
    standing = "complete" if plan.complete else f"waits for {_awaited(plan, missing)}"
    return f"{counts_in_words(plan.target)}, {standing}"


def room_in_words(
    nodes: Sequence[Node], victims: Sequence[str], *, evicted: bool
) -> tuple[str, ...]:
    """The nodes on which room is expected, and what has to go from them or which are away."""
    of = _few([node.name for node in nodes])
    away = away_in_words([node for node in nodes if not node.schedulable])
    if victims:
        return (
            f"{_few(victims)} {'was' if evicted else 'is to be'} evicted"
            + (f" from {of}" if of else ""),
        )
    why = away or "pods end there, or chips are away"
    return (f"{_EXPECTED_ROOM} {of} is expected: {why}",) if of else ()


def away_in_words(nodes: Sequence[Node]) -> str:
    """`npu-0 NotReady since 2026-01-01 20:13 UTC, npu-1 cordoned`, the first three of these nodes;
    "" for none."""
    words = []
    for node in nodes[:_NODES_NAMED]:
        since = f" since {in_minutes(node.not_ready_since)}" if node.not_ready_since else ""
        if node.not_ready_since or not (node.ready or node.cordoned):
            words.append(f"{node.name} NotReady{since}")
        elif not node.ready:
            words.append(f"{node.name} reported as faulty")
        else:
            words.append(f"{node.name} cordoned")
    more = f" and {len(nodes) - _NODES_NAMED} more" if len(nodes) > _NODES_NAMED else ""
    return ", ".join(words) + more


def size_in_words(size: Size) -> str:
    """What is said of a training job that gives its admission back for another size."""
    return f"it starts at size {size.amount}, a larger one has no room or is not bound"


def preempted_size_in_words(job: Instance, size: int) -> str:
    """What is said of a training job that gives room to a minimum."""
    if job.training is UNSET:
        return ""
    return f"{job.training.sizes[size].amount} of {job.training.sizes[0].amount}"


def refusal_in_words(refusals: Sequence[KubeletRefusal]) -> str:
    """What the kubelet did for which an instance pauses the longest."""
    last = max(refusals, key=lambda refusal: refusal.over_at)
    times = f" {last.times} times in a row" if last.times > 1 else ""
    return f"{_KUBELET}{last.node} refused a pod of it{times}, so it pauses for {last.pause:g} s"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def amount_in_words(resource: str, amount: int) -> str:
    """`8 free huawei.com/Ascend910`, `0.5 free cpu`, `128Gi free memory`."""
    if resource == "cpu":
        return f"{amount / 1000:g} free cpu"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        for suffix, size in _BINARY:
            if amount and amount % size == 0:
                return f"{amount // size}{suffix} free {resource}"
    name, _, kinds = resource.partition(COUNTED_IN)
    rules = [_RULES_OF_NPUS[kind] for kind in kinds.split("+") if kind in _RULES_OF_NPUS]
    return f"{amount} free {' '.join([name, *rules])}"


def where_in_words(where: Where) -> str:
    """The selector and required affinity in parentheses, after a space; "" where any node would
    do."""
    parts = [f"{key}={value}" for key, value in where.selector]
    if where.affinity:
        terms = []
        for term in where.affinity:
            terms.append(" and ".join(map(_requirement, term)) or "no node")
        parts.append(" or ".join(terms))
    return f" ({', '.join(parts)})" if parts else ""


def _requirement(requirement: Requirement) -> str:
    values = f" {', '.join(requirement.values)}" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def _awaited(plan: Plan, names: Sequence[str]) -> str:
    """`group0 (1 of 2 running) and group1 (0 of 1 running)`."""
    words = []
    for name in names:
        if name in plan.groups:
            group = plan.groups[name]
            words.append(f"{name} ({group.running} of {group.target} running)")
        else:
            words.append(name)
    return " and ".join(words)


def _waiting_for_ratio(verdict: Verdict, plan: Plan) -> str:
    target = counts_in_words(plan.target)
    group = plan.groups.get(verdict.group or "")
    if group is not None and group.running + group.in_flight + group.admit < group.target:
        return f"Another instance of {verdict.group} is admitted before this one."
    if not plan.complete and verdict.about:
        return (
            f"{verdict.group} has all that {target} names of it; waits for"
            f" {_awaited(plan, verdict.about)}."
        )
    more = _about(verdict, "a larger ratio needs more jobs")
    return f"The service is complete at {target}; {more}. Apply them to use it."


def _starting(verdict: Verdict, _: Plan) -> str:
    about = _about(verdict, "")
    if about.startswith(DOES_NOT_START):
        return f"{about[:1].upper()}{about[1:]}."
    return f"All its pods are bound and starting{_colon(verdict)}."


def _broken(verdict: Verdict, _: Plan) -> str:
    about = _about(verdict, "")
    if about.startswith(DOES_NOT_START):
        return f"{about[:1].upper()}{about[1:]}."
    if about.startswith(NOT_RUNNING_YET):
        pod = about.removeprefix(NOT_RUNNING_YET).strip()
        return f"Its pods are bound and do not all run in time: {pod}."
    return f"A pod of it is lost or does not run{_colon(verdict)}."


def _scaled_down(verdict: Verdict, plan: Plan) -> str:
    goes = "Its pods are deleted" if verdict.state is State.TERMINATING else "Not needed now"
    return f"{goes}: {_limit(verdict, plan)}; raise that to run more."


def _limit(verdict: Verdict, plan: Plan) -> str:
    most = verdict.about[0] if verdict.about else "fewer"
    if plan.replicas == ALL:
        return f"the largest ratio has place for only {most} of {verdict.group}"
    if not plan.replicas:
        return "the service rests, spec.replicas of its ElasticService is 0"
    return (
        f"{plan.replicas} instances are to run, {most} of {verdict.group}, by spec.replicas of its"
        " ElasticService"
    )


def _group_unknown(verdict: Verdict, plan: Plan) -> str:
    known = ", ".join(verdict.about) or "none"
    near = nearest(verdict.group or "", verdict.about)
    guess = f", did you mean '{near}'?" if near else ""
    return (
        f"No ratio of rule {plan.key.rule} names group '{verdict.group}' (it names {known}{guess});"
        " correct the label mind-cluster/group-name or the rule."
    )


def _rule_missing(verdict: Verdict, plan: Plan) -> str:
    if not plan.key.rule:
        return (
            "The label mind-cluster/scaling-rule is empty; give it the name of the rule's"
            " ConfigMap."
        )
    return (
        f"ConfigMap {plan.key.namespace}/{plan.key.rule} was never seen with a valid"
        f" rule{_colon(verdict)}; create it, nothing is admitted before."
    )


def _revoked(verdict: Verdict, plan: Plan) -> str:
    names = []
    for part in verdict.about:
        names += [name for name in part.split(", ") if name in plan.groups]
    if verdict.about == (NOBODY,):
        why = "fewer are to run now"
    else:
        why = (
            f"{_awaited(plan, names)} comes first"
            if names
            else _about(verdict, "its room is needed")
        )
    return (
        f"Its admission was revoked before any pod was bound: {why}; it is admitted again when"
        " there is a place for it."
    )


def _surplus(verdict: Verdict, plan: Plan) -> str:
    why = f" because {'; '.join(verdict.about[1:])}" if verdict.about[1:] else ""
    return (
        f"Runs, but {_limit(verdict, plan)}; it is left alone{why}, delete its job if you do not"
        " want it."
    )


def _waiting_for_scheduler(verdict: Verdict, _: Plan) -> str:
    if verdict.state is State.HELD and _about(verdict, "").startswith(_KUBELET):
        return f"Chosen to start{_colon(verdict)} before it is made again."
    if verdict.state is State.HELD:
        return f"Chosen to start{_colon(verdict)}; it is released as soon as they exist."
    about = _about(verdict, "")
    if about.startswith(_LACKS_ROOM):  # lists cut the end
        return f"{about[:1].upper()}{about[1:]}; its pods wait with the scheduler."
    return f"Admitted; waits for the scheduler to bind its pods{_colon(verdict)}."


def _about(verdict: Verdict, default: str) -> str:
    return "; ".join(part for part in verdict.about if part) or default


def _colon(verdict: Verdict) -> str:
    about = _about(verdict, "")
    return f": {about}" if about else ""


def _preempted(verdict: Verdict, _: Plan) -> str:
    beneficiary, *sizes = verdict.about or ("another service",)
    if sizes:
        return (
            f"Started anew at size {sizes[0]}, so that {beneficiary} can start its missing"
            " instances; it grows again when there is room."
        )
    return (
        f"Evicted so that {beneficiary} can start its missing instances; it starts again when there"
        " is room."
    )


def _job_invalid(verdict: Verdict, _: Plan) -> str:
    about = _about(verdict, "not known")
    if about.startswith(NEVER_PLACED):
        return f"The scheduler never starts the job as it is written: {about}. Fix the job."
    return f"No pods can be made of the job: {about}. Fix the job."


_SENTENCES: dict[Reason, Callable[[Verdict, Plan], str]] = {
    Reason.WAITING_FOR_RATIO: _waiting_for_ratio,
    Reason.SCALED_DOWN: _scaled_down,
    Reason.STARTING: _starting,
    Reason.BROKEN: _broken,
    Reason.GROUP_UNKNOWN: _group_unknown,
    Reason.RULE_MISSING: _rule_missing,
    Reason.REVOKED: _revoked,
    Reason.JOB_INVALID: _job_invalid,
    Reason.WAITING_FOR_SCHEDULER: _waiting_for_scheduler,
    Reason.SURPLUS_RUNNING: _surplus,
    Reason.PREEMPTED: _preempted,
}
"""The sentences that depend on the plan. Those of all other reasons stand in their rows."""
