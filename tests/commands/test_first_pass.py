"""What the planner would do first, as consequences with the right weight."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.decide.decision import (
    Action,
    Admit,
    Complete,
    Ending,
    Expire,
    Finish,
    Record,
    Remove,
    Resize,
    Revoke,
    State,
    Verdict,
)
from scaler.informers.config_maps import RankTableMap, content_of
from scaler.ranktables.table import RankTable, Status
from scaler.reasons.reasons import Reason
from scaler.tools.takeover.comparison import Consequence, Found, Weight
from scaler.tools.takeover.first_pass import foresee, rank_table_consequences
from scaler.workloads.ascendjob import read_job
from tests.jobs import job

BOUND = {"spec": {"nodeName": "node-0"}, "status": {"phase": "Running"}}
WAITING = {"spec": {}, "status": {"phase": "Pending"}}
ENDED = {"spec": {"nodeName": "node-0"}, "status": {"phase": "Failed"}}
COMPLETED = RankTable.of(Status.COMPLETED, '{"status":"completed","server_list":[1]}')
INITIALIZING = RankTable.of(
    Status.INITIALIZING, '{"status":"initializing"}', "pod p0-master-0: no chips"
)


def seen(
    *actions: Action,
    pods: dict[str, Any] | None = None,
    reason: Reason = Reason.RUNNING,
    group: str = "group0",
) -> list[Consequence]:
    obj = job("p0", uid="u")
    obj["metadata"]["labels"]["mind-cluster/group-name"] = group
    verdict = Verdict("u", "p0", "group0", State.RUNNING, reason)
    return foresee(read_job(obj), Found(pods or {}), verdict, actions)


@pytest.mark.parametrize(
    ("action", "pods", "weight", "words"),
    [
        (Admit("u"), {}, Weight.DOES, "starts"),
        (Complete("u"), {"p0-master-0": BOUND}, Weight.DOES, "Service p0-master-0"),
        (Complete("u"), {}, Weight.DOES, "Pod p0-master-0"),
        (Revoke("u"), {"p0-master-0": WAITING}, Weight.DOES, "revoked: p0-master-0"),
        (Revoke("u"), {}, Weight.DOES, "without a PodGroup"),
        (Record("u", 2), {"p0-master-0": BOUND}, Weight.EXPECTED, "round 2"),
        (Resize("u"), {"p0-master-0": BOUND}, Weight.DOES, "number of pods"),
        (Remove("u", ("p0-worker-3",)), {"p0-worker-3": BOUND}, Weight.BLOCKS, "p0-worker-3"),
        (Remove("u", ("p0-worker-3",)), {"p0-worker-3": WAITING}, Weight.DOES, "p0-worker-3"),
        (Remove("u", ("p0-worker-3",)), {"p0-worker-3": ENDED}, Weight.DOES, "p0-worker-3"),
        (Remove("u", (), pod_group=True), {}, Weight.DOES, "finished job"),
        (Finish("u", Ending.DEADLINE_EXCEEDED, "30 s"), {}, Weight.BLOCKS, "30 s"),
        (Expire("u"), {}, Weight.BLOCKS, "deleted"),
    ],
)
def test_every_action_has_words_and_a_weight(
    action: Action, pods: dict[str, Any], weight: Weight, words: str
) -> None:
    (consequence,) = seen(action, pods=pods)
    assert (consequence.weight, words in consequence.text) == (weight, True)


def test_a_job_that_runs_and_needs_nothing_is_not_spoken_of() -> None:
    assert seen(pods={"p0-master-0": BOUND}) == []


@pytest.mark.parametrize("reason", [Reason.GROUP_UNKNOWN, Reason.RULE_MISSING, Reason.RULE_INVALID])
def test_a_running_job_that_its_rule_does_not_cover_blocks_and_a_waiting_one_does_not(
    reason: Reason,
) -> None:
    assert [
        consequence.weight for consequence in seen(pods={"p0-master-0": BOUND}, reason=reason)
    ] == [Weight.BLOCKS]
    assert seen(reason=reason) == []


def test_a_running_job_without_a_group_blocks_and_the_label_is_named() -> None:
    (consequence,) = seen(pods={"p0-master-0": BOUND}, group="")
    assert (consequence.weight, "label mind-cluster/group-name" in consequence.text) == (
        Weight.BLOCKS,
        True,
    )


def test_a_job_that_is_no_inference_server_blocks_until_it_has_finished() -> None:
    obj = job("train", rule=None, uid="u", labels={"framework": "pytorch"})
    verdict = Verdict("u", "train", None, State.RUNNING, Reason.NOT_SERVED)
    assert [consequence.weight for consequence in foresee(read_job(obj), Found(), verdict, [])] == [
        Weight.BLOCKS
    ]
    obj["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    assert foresee(read_job(obj), Found(), verdict, []) == []


def test_a_rank_table_that_says_the_same_is_not_spoken_of() -> None:
    spaced = '{ "server_list": [1], "status": "completed" }'
    assert rank_table_consequences(COMPLETED, rings(spaced), "") == []
    assert rank_table_consequences(COMPLETED, None, "") == []


def test_a_completed_rank_table_that_would_be_withdrawn_blocks_and_says_why() -> None:
    (consequence,) = rank_table_consequences(INITIALIZING, rings(COMPLETED.text), "")
    assert (consequence.weight, "no chips" in consequence.text) == (Weight.BLOCKS, True)


@pytest.mark.parametrize("text", ['{"status":"initializing"}', "not JSON", None])
def test_a_rank_table_that_would_be_completed_is_a_deed(text: str | None) -> None:
    assert [
        consequence.weight for consequence in rank_table_consequences(COMPLETED, rings(text), "")
    ] == [Weight.DOES]


def test_what_is_wrong_with_a_rank_table_differs() -> None:
    (consequence,) = rank_table_consequences(
        COMPLETED, None, "ConfigMap rings-config-p0 does not exist"
    )
    assert consequence == Consequence(
        Weight.DIFFERS, "rank table: ConfigMap rings-config-p0 does not exist"
    )


def rings(text: str | None) -> RankTableMap:
    return RankTableMap("mindie", "rings-config-p0", "uid", "1", text, **content_of(text))
