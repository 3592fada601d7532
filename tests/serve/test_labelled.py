"""Warnings about labels, for every kind that makes pods."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from scaler.kube.api import Object
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, MOVED_RULE, RULE_LABEL
from scaler.serve.reviews import answer_to, review_labels
from tests.serve.reviewing import request

GOOD = {RULE_LABEL: "rule", GROUP_LABEL: "group0", JOB_ID_LABEL: "mindie"}


def template(**labels: str) -> Object:
    return {"metadata": {"labels": labels}, "spec": {"containers": []}}


def of(kind: str, labels: Object, own: Object | None = None) -> Object:
    """An object of that kind whose pods get these labels."""
    made = template(**labels)
    spec: dict[str, Any] = {
        "Deployment": {"template": made},
        "LeaderWorkerSet": {
            "leaderWorkerTemplate": {"leaderTemplate": made, "workerTemplate": made}
        },
        "StormService": {
            "template": {"spec": {"roles": [{"name": "p", "template": made}, {"name": "router"}]}}
        },
        "Job": {"tasks": [{"name": "server", "template": made}]},
        "AscendJob": {"replicaSpecs": {"Master": {"template": template()}}},
        "Pod": {"containers": []},
    }
    own = labels if kind in ("AscendJob", "Pod") else own or {}
    return {"kind": kind, "metadata": {"name": "x", "labels": own}, "spec": spec[kind]}


def warnings(obj: Object) -> list[str]:
    def groups(namespace: str, rule: str) -> tuple[str, ...] | None:
        return ("group0", "group1") if (namespace, rule) == ("mindie", "rule") else None

    return list(answer_to(request(obj), partial(review_labels, groups_of=groups)).warnings)


KINDS = ("Pod", "AscendJob", "Deployment", "LeaderWorkerSet", "StormService", "Job")


@pytest.mark.parametrize("kind", KINDS)
def test_complete_labels_of_a_known_group_are_not_mentioned(kind: str) -> None:
    assert warnings(of(kind, GOOD)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_labels_of_ours_are_not_mentioned(kind: str) -> None:
    assert warnings(of(kind, {"app": "web", JOB_ID_LABEL: "mindie"})) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_that_the_rule_has_not_is_mentioned_with_those_that_it_has(kind: str) -> None:
    found = warnings(of(kind, GOOD | {GROUP_LABEL: "prefill"}))
    assert (
        'the rule has no group "prefill"; it has group0, group1; write one of group0, group1'
        in found[0]
    )


@pytest.mark.parametrize("missing", [GROUP_LABEL, JOB_ID_LABEL])
@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_label_is_mentioned(kind: str, missing: str) -> None:
    labels = {key: value for key, value in GOOD.items() if key != missing}
    assert f"label {missing} is missing; " in warnings(of(kind, labels))[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_without_a_rule_is_mentioned(kind: str) -> None:
    assert "no rule decides about" in warnings(of(kind, {GROUP_LABEL: "group0"}))[0]


def test_a_rule_that_is_not_known_yet_is_not_mentioned() -> None:
    assert warnings(of("Deployment", GOOD | {RULE_LABEL: "later", GROUP_LABEL: "any"})) == []


def test_labels_that_do_not_reach_the_pods_are_mentioned() -> None:
    (found,) = warnings(of("Deployment", {}, own=GOOD))
    assert "does not reach its pods" in found


def test_an_instance_of_which_only_some_pods_are_labelled_is_mentioned() -> None:
    obj = of("LeaderWorkerSet", GOOD)
    obj["spec"]["leaderWorkerTemplate"]["workerTemplate"] = template(app="web")
    (found,) = warnings(obj)
    assert found.startswith("pod template workerTemplate: no label mind-cluster/scaling-rule")


def test_a_moved_job_is_judged_by_the_rule_that_it_named() -> None:
    moved = of("AscendJob", {GROUP_LABEL: "prefill", JOB_ID_LABEL: "mindie"})
    moved["metadata"]["annotations"] = {MOVED_RULE: "rule"}
    (found,) = warnings(moved)
    assert 'the rule has no group "prefill"' in found


def test_warnings_fit_into_a_header() -> None:
    roles = [
        {"name": f"role-{n}", "template": template(**{GROUP_LABEL: "x" * 60, RULE_LABEL: "rule"})}
        for n in range(20)
    ]
    obj = {
        "kind": "StormService",
        "metadata": {"name": "x\n"},
        "spec": {"template": {"spec": {"roles": roles}}},
    }
    found = warnings(obj)
    assert len(found) == 11
    assert all(len(words) < 256 and words.isprintable() for words in found)
