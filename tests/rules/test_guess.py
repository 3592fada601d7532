"""What lint says of texts that are not what it was asked about: what they seem to be."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scaler.tools.lint.files import Report, lint
from scaler.tools.lint.repair import repair
from scaler.tools.lint.source import Source
from tests.rules.documents import TWO_TO_ONE, config_map, job

STATUS = """apiVersion: v1
kind: ConfigMap
metadata:
  name: scaling-rule-scaler-status
  namespace: mindie
  labels:
    {app.kubernetes.io/managed-by: mind-cluster-scaler, mind-cluster/scaler-rule: scaling-rule}
  annotations: {mind-cluster/scaler-rule-name: scaling-rule}
data: {status.txt: words}
"""
RANK_TABLE = """apiVersion: v1
kind: ConfigMap
metadata:
  name: rings-config-server-p0
  namespace: mindie
  labels: {mind-cluster/scaling-rule: scaling-rule, mind-cluster/group-name: gruop0}
data: {hccl.json: '{"status":"initializing"}'}
"""
LAST_VALID = STATUS.replace("-status", "-last-valid").replace(
    "data: {status.txt: words}", "binaryData: {elastic_scaling.json.gz: eA==}"
)
OTHERS = """apiVersion: v1
kind: PodGroup
metadata:
  name: x
  labels: {mind-cluster/scaling-rule: scaling-rule, mind-cluster/group-name: gruop0}
"""


def said(text: str) -> Report:
    return lint([Source("f", text.encode())])


def codes(text: str) -> list[str]:
    return [finding.code for finding in said(text).findings]


def flat(text: str) -> str:
    """The text as it comes out of a chat: no line begins with a blank."""
    return "".join(f"{line.lstrip()}\n" for line in text.splitlines())


def as_list(*texts: str) -> str:
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(text) for text in texts]}
    )


def test_a_list_of_kubectl_with_objects_of_our_own_in_it_is_judged_by_what_users_write() -> None:
    report = said(as_list(config_map(TWO_TO_ONE), STATUS, LAST_VALID, RANK_TABLE, OTHERS, job()))
    assert [one.code for one in report.findings if one.level == "error"] == []
    assert report.checked == {"rule": 1, "AscendJob": 1}
    assert report.left_out == {
        "ConfigMap of the scaler itself": 2,
        "ConfigMap without a rule": 1,
        "PodGroup": 1,
    }


def test_the_bare_items_of_a_list_are_objects_too() -> None:
    items = json.dumps([yaml.safe_load(config_map(TWO_TO_ONE)), yaml.safe_load(job())])
    assert said(items).checked == {"rule": 1, "AscendJob": 1}


@pytest.mark.parametrize(
    ("text", "hint"), [(STATUS, "the rule is ConfigMap scaling-rule"), (RANK_TABLE, "the rule's")]
)
def test_what_the_scaler_or_the_deployer_keeps_is_no_rule_even_alone(text: str, hint: str) -> None:
    (found,) = said(text).findings
    assert (found.code, found.level) == ("NothingToCheck", "warning")
    assert hint in found.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [(config_map(TWO_TO_ONE), "ConfigMap"), (job(), "AscendJob"), (STATUS, "ConfigMap")],
)
def test_a_manifest_that_has_lost_its_indentation_is_known_as_such(text: str, kind: str) -> None:
    report = said(flat(text))
    assert [one.code for one in report.findings] == ["IndentationLost"]
    assert f"a {kind} that has lost its indentation" in report.findings[0].message
    assert not report.checked


def test_each_manifest_of_a_flat_text_is_named_and_faults_of_a_rule_in_it_are_in_their_lines() -> (
    None
):
    broken = TWO_TO_ONE.replace('"1.0",', '"1.0", # words')
    found = said(flat(job() + "---\n" + config_map(broken))).findings
    assert [one.code for one in found] == ["IndentationLost", "IndentationLost", "CommentInJson"]
    line = (
        flat(job() + "---\n" + config_map(broken)).splitlines().index('"version": "1.0", # words')
        + 1
    )
    assert found[2].line == line


def test_a_flat_text_is_left_as_it_is_by_fix() -> None:
    text = flat(config_map(TWO_TO_ONE.replace('"1.0",', '"1.0", # words')))
    assert repair(Source("f", text.encode())).text == text


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (json.dumps({"server_list": [], "status": "completed"}), "NotARule", "a rank table"),
        ("server_list: []\nstatus: completed\n", "NotARule", "a rank table"),
        ("title: a story\nnodes: []\nexpect: []\n", "NotARule", "a scenario"),
        ("replicaSpecs: {}\nschedulerName: volcano\n", "NotARule", "the spec of an AscendJob"),
        ("one: 1\ntwo: 2\n", "NotARule", "a text with one, two"),
        ("elastic_scaling_list:\n- group_list: []\n", "RuleIsYaml", "in YAML"),
        (config_map(job()), "NotARule", "a manifest of kind AscendJob"),
        (config_map('{"server_list": []}'), "NotARule", "a rank table"),
        (
            job() + "data: {elastic_scaling.json: '{}'}\n",
            "KindDoesNotFit",
            "a ConfigMap with a rule",
        ),
        (job().replace("kind: AscendJob", "kind: ConfigMap"), "KindDoesNotFit", "an AscendJob"),
        (job().replace("kind: AscendJob\n", ""), "KindMissing", "the spec of an AscendJob"),
    ],
)
def test_something_else_where_a_rule_is_expected_is_called_what_it_seems_to_be(
    text: str, code: str, words: str
) -> None:
    found = said(text).findings
    assert code in [one.code for one in found]
    assert any(words in one.message for one in found)
    assert not said(text).ok


@pytest.mark.parametrize(
    "head", ["data:\n  elastic_scaling.json: |-\n", "elastic_scaling.json: |-\n"]
)
def test_the_data_of_a_config_map_without_its_head_is_checked_all_the_same(head: str) -> None:
    indented = "".join(
        f"    {line}\n" for line in TWO_TO_ONE.replace('"1.0",', '"1.0", # words').splitlines()
    )
    report = said(head + indented)
    assert [one.code for one in report.findings] == ["KindMissing", "CommentInJson"]
    assert report.rules == 1


def test_a_rule_with_comments_in_front_is_still_read_as_json() -> None:
    assert codes("# the rule\n// of us\n" + TWO_TO_ONE) == ["CommentInJson", "CommentInJson"]


@given(st.text(max_size=80), st.booleans())
def test_guessing_never_raises(text: str, manifest: bool) -> None:
    source = Source(
        "f",
        (f"kind: {text}\nmetadata:\n{text}" if manifest else text).encode("utf-8", "surrogatepass"),
    )
    assert lint([source]).findings != [] or manifest
    assert repair(source).changed >= 0


def test_whatever_is_cut_out_of_a_manifest_never_raises() -> None:
    whole = job() + "---\n" + config_map(TWO_TO_ONE) + "---\n" + STATUS
    for start in range(0, len(whole), 37):
        for end in range(start, len(whole), 211):
            assert lint([Source("f", whole[start:end].encode())]).findings is not None
