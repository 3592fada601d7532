"""What the scaler would do to one job in its first pass after a takeover, in words and with its
weight. Pure.

The decision itself gives the actions (with an empty memory, as after any start); this module only
describes them. Must not decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from scaler.decide.decision import (
    NOBODY,
    Action,
    Admit,
    Complete,
    Evict,
    Expire,
    Finish,
    LifeAction,
    Record,
    Remove,
    Resize,
    Restart,
    Revoke,
    Verdict,
)
from scaler.informers.config_maps import RankTableMap
from scaler.kube.api import Object
from scaler.names import RULE_LABEL
from scaler.ranktables.table import RankTable, Status
from scaler.ranktables.tables import is_current
from scaler.reasons.reasons import Reason
from scaler.rules.values import as_text, at
from scaler.tools.common.diagnosis import content_of
from scaler.tools.takeover.comparison import Consequence, Found, Weight
from scaler.workloads.membership import Job


def foresee(
    job: Job, found: Found, verdict: Verdict, actions: Sequence[Action]
) -> list[Consequence]:
    """The scaler's actions, and what would no longer be done without the operator."""
    return [*_uncared(job, found, verdict), *(_action(action, job, found) for action in actions)]


def rank_table_consequences(
    table: RankTable, table_map: RankTableMap | None, problem: str
) -> list[Consequence]:
    """Whether the rank table would stay as it is. `problem` = what the scaler would report about
    it, "" for nothing."""
    told = [Consequence(Weight.DIFFERS, f"rank table: {problem}")] if problem else []
    if table_map is None or is_current(table_map, table):
        return told
    before = table_map.status or "without a status"
    if before == Status.COMPLETED and table.status is not Status.COMPLETED:
        why = f": {table.problem}" if table.problem else ""
        text = (
            f"rank table: it is completed and would become {table.status}{why}; the instance would"
            " get no traffic"
        )
        return [Consequence(Weight.BLOCKS, text)]
    return [
        *told,
        Consequence(
            Weight.DOES, f"rank table: written anew ({before} before, {table.status} then)"
        ),
    ]


def _uncared(job: Job, found: Found, verdict: Verdict) -> Iterator[Consequence]:
    """Pods of a job that would not be replaced after a loss; the operator would have replaced
    them."""
    if job.finished or job.deleting:
        return
    if verdict.reason is Reason.NOT_SERVED:
        yield Consequence(
            Weight.BLOCKS,
            "not a job that the scaler serves (labels app and jobID): nobody replaces its pods",
        )
    elif found.pods and job.faults:
        yield Consequence(Weight.BLOCKS, f"pods that it loses are not replaced: {job.faults[0]}")
    elif found.pods and job.label_problem:
        label = job.label_problem.row.missing_label or RULE_LABEL
        yield Consequence(
            Weight.BLOCKS,
            f"pods that it loses are not replaced: it has no value in its label {label}",
        )
    elif found.pods and verdict.reason.row.counts_for_nothing:
        yield Consequence(Weight.BLOCKS, f"pods that it loses are not replaced: {verdict.reason}")


def _action(action: Action, job: Job, found: Found) -> Consequence:
    match action:
        case Admit():
            return Consequence(Weight.DOES, "starts: it has no pods, and its service needs it")
        case Complete():
            return Consequence(
                Weight.DOES, f"gets what it lacks: {', '.join(_lacking(job, found))}"
            )
        case Revoke():
            return Consequence(Weight.DOES, _taking_back(found))
        case Restart():
            return Consequence(Weight.BLOCKS, "is started anew at another size")
        case Evict() if action.beneficiary == NOBODY:
            return Consequence(
                Weight.BLOCKS, "is deleted: spec.replicas of its ElasticService asks for fewer"
            )
        case Evict():
            return Consequence(
                Weight.BLOCKS,
                f"is evicted, so that {action.beneficiary} can start its missing instances",
            )
        case _:
            return _life_action(action, found)


def _lacking(job: Job, found: Found) -> Iterator[str]:
    if found.pod_group is None:
        yield f"PodGroup {job.pod_group}"
    if found.service is None and job.pods:
        yield f"Service {job.pods[0]}"
    for name in job.pods:
        if name not in found.pods:
            yield f"Pod {name}"


def _taking_back(found: Found) -> str:
    unbound = sorted(name for name, pod in found.pods.items() if not _node(pod))
    if unbound:
        return f"its pods, none of which has a node yet, are revoked: {', '.join(unbound)}"
    return (
        "waits without a PodGroup: the one that it has is deleted, so that no room is kept for it"
    )


def _life_action(action: LifeAction, found: Found) -> Consequence:
    match action:
        case Record():
            return Consequence(
                Weight.EXPECTED,
                f"the AscendJob is annotated: its next pods are of round {action.rounds}",
            )
        case Resize():
            return Consequence(
                Weight.DOES, "its PodGroup is changed to the number of pods that the job has by now"
            )
        case Remove():
            return _removal(action, found.pods)
        case Finish():
            return Consequence(
                Weight.BLOCKS,
                f"the job would end at once: {action.reason.outcome} ({action.message})",
            )
        case Expire():
            return Consequence(
                Weight.BLOCKS,
                "the job is deleted: it has finished, and its ttlSecondsAfterFinished is over",
            )
        case _:
            assert_never(action)


def _removal(action: Remove, pods: Mapping[str, Object]) -> Consequence:
    alive = [name for name in action.pods if _is_alive(pods.get(name, {}))]
    if alive:
        why = "the job has fewer replicas by now, or has ended"
        return Consequence(
            Weight.BLOCKS, f"pods that have a node are deleted ({why}): {', '.join(alive)}"
        )
    names = ", ".join(action.pods)
    return Consequence(
        Weight.DOES,
        f"pods are deleted: {names}" if names else "the PodGroup of the finished job is deleted",
    )


def _is_alive(pod: Mapping[str, Any]) -> bool:
    return bool(_node(pod)) and as_text(at(pod, "status").get("phase")) not in (
        "Failed",
        "Succeeded",
    )


def _node(pod: Mapping[str, Any]) -> str:
    return as_text(at(pod, "spec").get("nodeName"))


def status_of(text: str | None) -> str:
    """The status in the document; "" if it has none."""
    return as_text(at(content_of(text)).get("status"))
