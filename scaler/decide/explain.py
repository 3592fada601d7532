"""Reasons in one table, and verdicts in words: one sentence says why an instance is where it is,
and what a person can do. Events, conditions, ElasticServices and the CLI all speak with these
sentences. They must be the same for the same verdict and plan: writers compare the words to find
out whether there is news."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scaler.decide.decision import NOBODY, Plan, State, Verdict
from scaler.decide.nodes import Requirement, Where
from scaler.decide.world import Reason
from scaler.rules.labels import nearest
from scaler.rules.rule import ALL

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))
_ABOUT_LABELS = (
    Reason.GROUP_UNKNOWN,
    Reason.GROUP_LABEL_MISSING,
    Reason.JOB_ID_MISSING,
    Reason.RULE_MISSING,
    Reason.RULE_INVALID,
)


def words(verdict: Verdict, plan: Plan) -> str:
    """One sentence for people about one instance of `plan`."""
    if verdict.reason in _ABOUT_LABELS and verdict.state is not State.HELD:
        does = "Runs" if verdict.state is State.RUNNING else "Starts"
        return f"{does}, but {_about(verdict, 'its labels are wrong')}."
    sentence = FACTS[verdict.reason].sentence
    if isinstance(sentence, str):
        about = _about(verdict, "not known")
        return sentence.format(
            about=about, colon=_colon(verdict), key=plan.key, group=verdict.group
        )
    return sentence(verdict, plan)


def counts_in_words(counts: Mapping[str, int]) -> str:
    """`2 group0 + 1 group1`; groups with 0 are left out."""
    return (
        " + ".join(f"{number} {group}" for group, number in counts.items() if number) or "nothing"
    )


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
    return f"ratio {plan.target_index} ({counts_in_words(plan.target)}), {standing}"


def room_in_words(
    nodes: Sequence[str], victims: Sequence[str], *, evicted: bool
) -> tuple[str, ...]:
    """The nodes on which room is to come, and what has to go from them."""
    of = _few(nodes)
    if victims:
        return (
            f"{_few(victims)} {'was' if evicted else 'is to be'} evicted"
            + (f" from {of}" if of else ""),
        )
    return (f"room on {of} is to come: pods end there, or the node is away",) if of else ()


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def amount_in_words(resource: str, amount: int) -> str:
    """`8 free huawei.com/Ascend910`, `0.5 free cpu`, `128Gi free memory`."""
    if resource == "cpu":
        return f"{amount / 1000:g} free cpu"
    if resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-"):
        suffix, size = next(((s, n) for s, n in _BINARY if amount and amount % n == 0), ("", 1))
        return f"{amount // size}{suffix} free {resource}"
    return f"{amount} free {resource}"


def where_in_words(where: Where) -> str:
    """The selector and required affinity in parentheses, after a space; "" where any node would
    do."""
    parts = [f"{key}={value}" for key, value in where.selector]
    if where.affinity:
        parts.append(
            " or ".join(
                " and ".join(map(_requirement, term)) or "no node" for term in where.affinity
            )
        )
    return f" ({', '.join(parts)})" if parts else ""


def _requirement(requirement: Requirement) -> str:
    values = f" {', '.join(requirement.values)}" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def _awaited(plan: Plan, names: tuple[str, ...]) -> str:
    """`group0 (1 of 2 running) and group1 (0 of 1 running)`."""
    return " and ".join(
        (
            f"{name} ({plan.groups[name].running} of {plan.groups[name].target} running)"
            if name in plan.groups
            else name
        )
        for name in names
    )


def _waiting_for_ratio(verdict: Verdict, plan: Plan) -> str:
    target = f"ratio {plan.target_index} ({counts_in_words(plan.target)})"
    group = plan.groups.get(verdict.group or "")
    if group is not None and group.running + group.in_flight + group.admit < group.target:
        return f"Another instance of {verdict.group} goes first; then this one's turn comes."
    if verdict.about:
        return (
            f"{verdict.group} has as many admitted as {target} asks for; waits for"
            f" {_awaited(plan, verdict.about)}."
        )
    more = "a larger ratio needs more jobs of another group, apply them to use it"
    return f"The service is complete at {target}; {more}."


def _scaled_down(verdict: Verdict, plan: Plan) -> str:
    goes = "Its pods are deleted" if verdict.state is State.TERMINATING else "Not wanted now"
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
    names = tuple(
        name for part in verdict.about for name in part.split(", ") if name in plan.groups
    )
    if verdict.about == (NOBODY,):
        why = "fewer are to run now"
    else:
        why = (
            f"{_awaited(plan, names)} comes first"
            if names
            else _about(verdict, "its room is needed")
        )
    return (
        f"Its admission was revoked before any pod was bound: {why}; it is admitted again when its"
        " turn comes."
    )


def _surplus(verdict: Verdict, plan: Plan) -> str:
    why = f" because {'; '.join(verdict.about[1:])}" if verdict.about[1:] else ""
    return (
        f"Runs, but {_limit(verdict, plan)}; it is left alone{why}, delete its job if you do not"
        " want it."
    )


def _waiting_for_scheduler(verdict: Verdict, _: Plan) -> str:
    if verdict.state is State.HELD:
        return f"Its turn has come{_colon(verdict)}; it is released as soon as they are there."
    return f"Admitted; waits for the scheduler to bind its pods{_colon(verdict)}."


def _about(verdict: Verdict, default: str) -> str:
    return "; ".join(part for part in verdict.about if part) or default


def _colon(verdict: Verdict) -> str:
    about = _about(verdict, "")
    return f": {about}" if about else ""


class ReasonFacts(NamedTuple):
    """All that holds of a reason wherever it is shown."""

    sentence: str | Callable[[Verdict, Plan], str]
    """Why, and what to do. In a text `{about}` and `{colon}` stand for what the verdict refers
    to."""
    warns: bool = False
    """A person has to act: its events are of type Warning."""
    about_room: bool = False
    """It may end when more is free or when some pod is bound."""
    has_room: bool = False
    follows: bool = False
    """From the reason of another instance: the reason of a service only where there is no other."""


FACTS: dict[Reason, ReasonFacts] = {
    Reason.WAITING_FOR_RATIO: ReasonFacts(_waiting_for_ratio, follows=True),
    Reason.NOT_IN_RATIO: ReasonFacts(
        "Even the largest ratio has place for only {about} of {group}; this one is a spare that"
        " starts when another is lost, raise group_num to run it too.",
        follows=True,
    ),
    Reason.SCALED_DOWN: ReasonFacts(_scaled_down, follows=True),
    Reason.GROUP_UNKNOWN: ReasonFacts(_group_unknown, warns=True),
    Reason.GROUP_LABEL_MISSING: ReasonFacts(
        "The label mind-cluster/group-name is missing or empty; "
        "set it to the group of rule {key.rule} this job belongs to.",
        warns=True,
    ),
    Reason.JOB_ID_MISSING: ReasonFacts(
        "The label jobID is missing or empty; set it to the id of the inference service.",
        warns=True,
    ),
    Reason.RULE_MISSING: ReasonFacts(_rule_missing, warns=True),
    Reason.RULE_INVALID: ReasonFacts(
        "ConfigMap {key.namespace}/{key.rule} has never held a valid rule{colon}; mend it, 'scaler"
        " lint' says where.",
        warns=True,
    ),
    Reason.MINIMUM_DOES_NOT_FIT: ReasonFacts(
        "The smallest ratio of the service does not fit on the free nodes{colon}.", about_room=True
    ),
    Reason.MINIMUM_INCOMPLETE: ReasonFacts(
        "Jobs of the smallest ratio are missing or spoilt{colon}; the others wait."
    ),
    Reason.MINIMUM_TOO_LARGE: ReasonFacts(
        "The smallest ratio would not fit even on empty nodes{colon}; use a smaller one.",
        warns=True,
        about_room=True,
    ),
    Reason.MINIMUM_NOT_SCHEDULED: ReasonFacts(
        "The scheduler bound nothing of the smallest ratio in time{colon}; tried again.",
        warns=True,
        about_room=True,
    ),
    Reason.WAITING_FOR_ROOM: ReasonFacts(
        "Room for the smallest ratio is reserved and not free yet{colon}.",
        about_room=True,
        has_room=True,
    ),
    Reason.PREEMPTED: ReasonFacts(
        "Evicted, so that {about} can start what it misses; it starts again when there is room.",
        about_room=True,
    ),
    Reason.WAITING_FOR_CAPACITY: ReasonFacts("Waits for free nodes{colon}.", about_room=True),
    Reason.REVOKED: ReasonFacts(_revoked, about_room=True),
    Reason.NAME_TAKEN: ReasonFacts(
        "{about} already exists and belongs to another owner; it has to go first.", warns=True
    ),
    Reason.CREATE_REFUSED: ReasonFacts(
        "Its creation was refused: {about}; tried again on change and with pauses.", warns=True
    ),
    Reason.JOB_INVALID: ReasonFacts(
        "No pods can be made of the job: {about}. Mend the job.", warns=True
    ),
    Reason.PAUSED: ReasonFacts(
        'Rule {key.rule} says mind-cluster/paused: "true"; remove the annotation to go on.'
    ),
    Reason.TERMINATING: ReasonFacts(
        "Its pods are going away{colon}; it can start again when they are gone."
    ),
    Reason.WAITING_FOR_SCHEDULER: ReasonFacts(
        _waiting_for_scheduler, about_room=True, has_room=True
    ),
    Reason.STARTING: ReasonFacts("All its pods are bound and starting{colon}."),
    Reason.RUNNING: ReasonFacts("Runs."),
    Reason.BROKEN: ReasonFacts(
        "Was running or starting and is not whole any more{colon}.", warns=True
    ),
    Reason.FINISHED: ReasonFacts(
        "Its job has finished for good{colon}; delete and apply the job to start it again."
    ),
    Reason.SURPLUS_RUNNING: ReasonFacts(_surplus),
    Reason.REVOKE_WOULD_COST_RESTARTS: ReasonFacts(
        "Should give its place back, but each revocation costs its job a restart{colon}; it keeps "
        "its place, raise the limit of the job or delete it.",
        warns=True,
    ),
    Reason.NOT_SERVED: ReasonFacts("Not an inference server of a service: it is left alone."),
}
"""Of every reason. Who adds one, adds a row."""
ABOUT_ROOM = frozenset(reason for reason, facts in FACTS.items() if facts.about_room)
