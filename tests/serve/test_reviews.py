"""What admission answers: pods are held, jobs are moved, rules are refused in the linter's
words."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import Object
from scaler.names import (
    DELETION_COST,
    GATE,
    GROUP_LABEL,
    HELD_COST,
    JOB_ID_LABEL,
    MOVED_RULE,
    RULE_LABEL,
)
from scaler.serve import reviews
from scaler.serve.reviews import Response, answer_to, review_labels
from scaler.tools.lint.document import read_document
from scaler.tools.lint.files import lint
from scaler.tools.lint.source import Source
from tests.jobs import job, rule_config_map
from tests.rules.documents import config_map
from tests.serve.reviewing import UID, patched, request, response

LABELS = {RULE_LABEL: "rule", GROUP_LABEL: "group0", JOB_ID_LABEL: "mindie"}
review_pod, review_ascend_job, review_rule = (
    partial(answer_to, review=review)
    for review in (reviews.review_pod, reviews.review_ascend_job, reviews.review_rule)
)
DEEP = (
    b'{"request":{"uid":"' + UID.encode() + b'","object":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
)


def pod(labels: Object | None = LABELS, annotations: Object | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": "p"}
    metadata |= {"labels": labels} if labels is not None else {}
    metadata |= {"annotations": annotations} if annotations is not None else {}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}


def groups(namespace: str, rule: str) -> tuple[str, ...] | None:
    return ("group0", "group1") if (namespace, rule) == ("mindie", "rule") else None


def all_answers(body: bytes) -> list[Response]:
    plain = [review(body) for review in (review_pod, review_ascend_job, review_rule)]
    return [*plain, answer_to(body, partial(review_labels, groups_of=groups))]


# pods


def test_a_pod_that_names_a_rule_is_held_and_goes_first_when_replicas_are_lowered() -> None:
    after = patched(pod(), review_pod(request(pod())))
    assert after["spec"]["schedulingGates"] == [{"name": GATE}]
    assert after["metadata"]["annotations"] == {DELETION_COST: HELD_COST}
    assert after["metadata"]["labels"] == LABELS


def test_foreign_gates_and_a_deletion_cost_of_the_users_stay() -> None:
    before = pod(
        annotations={DELETION_COST: "5", "a": "b"}, schedulingGates=[{"name": "other/gate"}]
    )
    after = patched(before, review_pod(request(before)))
    assert after["spec"]["schedulingGates"] == [{"name": "other/gate"}, {"name": GATE}]
    assert after["metadata"] == before["metadata"]


@pytest.mark.parametrize(
    "untouched",
    [
        pod(labels=None),
        pod(labels={"app": "web"}),
        pod(labels={GROUP_LABEL: "group0"}),
        pod(nodeName="node-1"),
        pod(schedulingGates=[{"name": GATE}]),
        pod(schedulingGates=[{"name": "other/gate"}, {"name": GATE}]),
    ],
    ids=["no labels", "other labels", "no rule", "bound", "gated", "gated among others"],
)
def test_pods_that_are_not_ours_to_hold_stay_as_they_are(untouched: Object) -> None:
    assert review_pod(request(untouched)) == Response(UID)


def test_a_pod_that_exists_is_never_changed() -> None:
    assert review_pod(request(pod(), operation="UPDATE", old=pod())) == Response(UID)
    assert review_pod(request(pod(), subResource="binding")) == Response(UID)
    assert review_pod(request(None, operation="DELETE", old=pod())) == Response(UID)


_PODS = st.builds(
    pod,
    labels=st.none() | st.dictionaries(st.sampled_from([*LABELS, "app"]), st.text(max_size=3)),
    annotations=st.none()
    | st.dictionaries(st.sampled_from([DELETION_COST, "a/b", "a~b"]), st.text(max_size=3)),
    schedulingGates=st.lists(
        st.builds(lambda name: {"name": name}, st.sampled_from([GATE, "x", "y"])), max_size=3
    ),
    nodeName=st.sampled_from(["", "node-1"]),
)


@given(_PODS)
def test_holding_a_pod_adds_one_gate_and_perhaps_a_cost_and_is_done_once(before: Object) -> None:
    after = patched(before, review_pod(request(before)))
    assert review_pod(request(after)) == Response(UID)
    expected = copy.deepcopy(before)
    if after != before:
        assert RULE_LABEL in before["metadata"]["labels"]
        expected["spec"]["schedulingGates"] = [*before["spec"]["schedulingGates"], {"name": GATE}]
        expected["metadata"]["annotations"] = {DELETION_COST: HELD_COST} | (
            before["metadata"].get("annotations") or {}
        )
    assert after == expected


# AscendJobs


def test_the_labels_of_a_job_move_into_every_template() -> None:
    before = job("p0", pods=3)
    after = patched(before, review_ascend_job(request(before)))
    kept = {key: value for key, value in before["metadata"]["labels"].items() if key != RULE_LABEL}
    assert after["metadata"]["labels"] == kept
    assert after["metadata"]["annotations"] == {MOVED_RULE: "rule"}
    for replica in after["spec"]["replicaSpecs"].values():
        assert replica["template"]["metadata"]["labels"] == {"app": "mindie-ms-server", **LABELS}


def test_a_second_apply_of_the_file_is_moved_again() -> None:
    moved = patched(job("p0"), review_ascend_job(request(job("p0"))))
    applied = copy.deepcopy(moved)
    applied["metadata"]["labels"][RULE_LABEL] = "rule"
    assert (
        patched(applied, review_ascend_job(request(applied, operation="UPDATE", old=moved)))
        == moved
    )


def test_a_rule_of_another_name_replaces_the_old_one_everywhere() -> None:
    moved = patched(job("p0"), review_ascend_job(request(job("p0"))))
    moved["metadata"]["labels"][RULE_LABEL] = "other"
    after = patched(moved, review_ascend_job(request(moved, operation="UPDATE")))
    assert after["metadata"]["annotations"] == {MOVED_RULE: "other"}
    assert (
        after["spec"]["replicaSpecs"]["Master"]["template"]["metadata"]["labels"][RULE_LABEL]
        == "other"
    )


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}, {"annotations": {"a": "b"}}])
def test_a_template_without_labels_gets_them(metadata: Object | None) -> None:
    before = job("p0")
    template = before["spec"]["replicaSpecs"]["Master"]["template"]
    template.pop("metadata")
    if metadata is not None:
        template["metadata"] = metadata
    after = patched(before, review_ascend_job(request(before)))
    assert after["spec"]["replicaSpecs"]["Master"]["template"]["metadata"]["labels"] == LABELS


@pytest.mark.parametrize(
    "untouched",
    [
        job("train", rule=None),
        job("p0", deletionTimestamp="2026-11-21T07:36:00Z"),
        {**job("p0"), "spec": {}},
        {**job("p0"), "spec": {"replicaSpecs": {"Master": {"replicas": 1}}}},
    ],
    ids=["no rule", "in deletion", "no replicas", "no template"],
)
def test_jobs_that_cannot_or_need_not_be_moved_stay_as_they_are(untouched: Object) -> None:
    assert review_ascend_job(request(untouched)) == Response(UID)
    assert review_ascend_job(request(job("p0"), subResource="status")) == Response(UID)


_NAMES = st.sampled_from(["Master", "Worker", "a/b", "a~1b", ""])
_METADATA = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "labels": (
            st.none() | st.dictionaries(st.sampled_from([*LABELS, "x/y"]), st.text(max_size=3))
        )
    },
)
_REPLICA: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {"replicas": st.just(1)},
    optional={
        "template": st.fixed_dictionaries(
            {"spec": st.just({"containers": []})}, optional={"metadata": _METADATA}
        ),
    },
)


@given(
    st.dictionaries(_NAMES, _REPLICA),
    st.dictionaries(st.sampled_from([*LABELS, "app"]), st.text(max_size=3)),
)
def test_a_move_is_done_once_and_changes_nothing_but_labels_and_its_annotation(
    specs: Object, labels: Object
) -> None:
    before = {**job("p0", labels=labels), "spec": {"replicaSpecs": specs}}
    answer = review_ascend_job(request(before))
    after = patched(before, answer)
    assert review_ascend_job(request(after, operation="UPDATE")) == Response(UID)
    for found in (before, after):
        for replica in found["spec"]["replicaSpecs"].values():
            template = replica.get("template") or {}
            labels_there = (template.pop("metadata", None) or {}).get("labels") or {}
            moved = (
                {key: labels[key] for key in LABELS if key in labels}
                if answer.patch and template
                else {}
            )
            assert found is before or labels_there.items() >= moved.items()
        found["metadata"].get("labels", {}).pop(RULE_LABEL, None)
        found["metadata"].get("annotations", {}).pop(MOVED_RULE, None)
        found["metadata"] = {key: value for key, value in found["metadata"].items() if value}
    assert after == before


# rules


def test_a_wrong_rule_is_refused_with_all_that_the_linter_says_of_it() -> None:
    text = (
        '{"version": "1.0", "elastic_scaling_list": [\n {"group_list": [{"group_name": "g",'
        ' "group_num": 2}]}]}'
    )
    said = response(review_rule(request(rule_config_map(text))))
    assert said["allowed"] is False
    status = said["status"]
    assert (status["code"], status["reason"], status["details"]["name"]) == (422, "Invalid", "rule")
    linted = lint([Source("rule.yaml", config_map(text).encode())])
    assert len(linted.findings) > 1
    told = [cause["message"] for cause in status["details"]["causes"]]
    assert [finding.code for finding in linted.findings] == [words.split(":")[0] for words in told]
    for finding, shown in zip(linted.findings, told, strict=True):
        assert finding.message in shown
        assert finding.hint in shown
    assert "line 2, column 18" in told[0]
    assert all(words in status["message"] for words in told)


def test_a_rule_with_very_many_faults_is_answered_shortly() -> None:
    entry = '{"group_list": [{"group_name": "", "group_num": -1, "server_num_per_group": true}]}'
    text = f'{{"version": 1, "elastic_scaling_list": [{",".join([entry] * 500)}]}}'
    answer = review_rule(request(rule_config_map(text)))
    causes = response(answer)["status"]["details"]["causes"]
    assert len(causes) == reviews.MAX_SHOWN + 1
    assert (
        causes[-1]["message"]
        == f"{len(answer.refusal) - reviews.MAX_SHOWN} more; see all: scaler lint"
    )
    assert len(reviews.encode(answer)) < 8_000


def test_a_good_rule_is_let_through_and_what_is_odd_about_it_becomes_warnings() -> None:
    assert review_rule(request(rule_config_map())) == Response(UID)
    odd = {**rule_config_map(trade="perhaps"), "immutable": True}
    answer = review_rule(request(odd))
    assert response(answer)["allowed"] is True
    assert [words.split(" ")[0:2] for words in answer.warnings] == [
        ["annotation", "mind-cluster/trade:"],
        ["the", "rule"],
    ]


def test_a_rule_under_binary_data_is_refused() -> None:
    found = {**rule_config_map(), "data": {}, "binaryData": {"elastic_scaling.json": "//8="}}
    assert [finding.code for finding in review_rule(request(found)).refusal] == ["KeyInBinaryData"]


def test_what_was_broken_before_can_still_be_paused_and_labelled_but_not_broken_otherwise() -> None:
    old = rule_config_map("{")
    new = rule_config_map("{", paused="true")
    answer = review_rule(request(new, operation="UPDATE", old=old))
    assert not answer.refusal
    assert read_document("{")[1][0].message in answer.warnings[0]
    assert review_rule(request(rule_config_map("["), operation="UPDATE", old=old)).refusal


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"other": "{"}},
        {"kind": "ConfigMap", "metadata": {"name": "a"}},
        rule_config_map("{")
        | {"metadata": {"name": "rule", "deletionTimestamp": "2026-11-21T07:36:00Z"}},
    ],
    ids=["another key", "no data", "in deletion"],
)
def test_other_config_maps_are_not_our_business(other: Object) -> None:
    assert review_rule(request(other)) == Response(UID)


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.text(max_size=40) | _VALUES.map(json.dumps))
def test_admission_refuses_exactly_the_documents_that_the_linter_calls_wrong(text: str) -> None:
    refused = [finding.code for finding in review_rule(request(rule_config_map(text))).refusal]
    wrong = [finding.code for finding in read_document(text)[1] if finding.level == "error"]
    assert refused == wrong if is_json(text) else (refused and wrong)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return "NaN" not in text and "Infinity" not in text


# any bytes


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b"\xff", b'{"request":{}}', b'{"request":{"uid":7}}', b"[" * 10_000]
)
def test_what_is_no_request_gets_an_answer_without_a_uid(body: bytes) -> None:
    for answer in all_answers(body):
        assert (response(answer)["uid"], response(answer)["allowed"]) == ("", True)
        assert answer.outcome == "unreadable"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "labels", "data", "template", "name", "roles"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(_JSON, _JSON, st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]))
def test_the_uid_is_echoed_whatever_the_object_is(obj: Any, old: Any, operation: str) -> None:
    for answer in all_answers(request(obj, operation=operation, old=old)):
        assert response(answer)["uid"] == UID


@given(st.data())
def test_a_mangled_request_gets_an_answer(data: st.DataObject) -> None:
    body = bytearray(request(job("p0")))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    for answer in all_answers(bytes(body)):
        assert response(answer)["allowed"] is True


def test_nesting_without_end_gets_an_answer() -> None:
    for answer in all_answers(DEEP):
        assert response(answer)["allowed"] is True
