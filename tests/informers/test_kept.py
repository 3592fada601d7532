"""What is kept of an object has a bound, and what is beyond it is told as a fault of that
object."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import msgspec
import pytest

from scaler.decide.nodes import Where
from scaler.informers.config_maps import (
    MOST_KEYS,
    ConfigMapObject,
    ConfigMapRecord,
    config_map_record,
    content_of,
)
from scaler.informers.jobs import (
    MOST_KEPT,
    JobObject,
    JobRecord,
    look_up,
    read_job_record,
    volcano_job_record,
)
from scaler.informers.pods import LONGEST_CONFIGURATION, read_pod
from scaler.informers.store import Store
from scaler.kube.api import Object, Page, Refused
from scaler.names import LAST_APPLIED
from scaler.rules.limits import MAX_BYTES
from scaler.state.kept_rules import KeptRules
from scaler.state.rules_in_force import RulesInForce
from tests.jobs import job, rule_config_map

LARGE = "x" * 1_300_000
TOO_DEEP = job(
    "p0", pod={"spec": json.loads('{"a":' * 200 + "1" + "}" * 200)}, uid="u", resourceVersion="8"
)
LABELS = {
    "mind-cluster/scaling-rule": "rule",
    "mind-cluster/group-name": "group0",
    "jobID": "mindie",
}


def kept(obj: Object) -> JobRecord:
    obj["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    record = read_job_record(obj)
    assert record is not None
    return record


def config_map(obj: Object) -> ConfigMapRecord:
    return config_map_record(msgspec.convert(obj, ConfigMapObject))


def size(value: Any) -> int:
    return len(msgspec.msgpack.encode(value))


def test_of_a_training_job_only_its_identity_is_kept() -> None:
    record = kept(
        job("train", rule=None, labels={"framework": "pytorch"}, annotations={"a": LARGE})
    )
    assert record.is_foreign
    assert (record.name, record.uid, record.text) == ("train", "u", b"")


def test_a_job_is_ours_by_one_word_of_ours_or_as_a_server_of_mindie() -> None:
    assert not kept(job("p0")).is_foreign
    assert not kept(job("p0", rule=None)).is_foreign
    assert not kept(job("p0", rule=None, labels={"mind-cluster/group-name": "group0"})).is_foreign
    moved = {"mind-cluster/moved-scaling-rule": "rule"}
    assert not kept(job("p0", rule=None, labels={}, annotations=moved)).is_foreign


def test_what_nobody_reads_of_a_job_is_dropped_and_the_rest_is_as_it_was() -> None:
    made = job(
        "p0",
        annotations={LAST_APPLIED: LARGE, "sp-block": "16"},
        managedFields=[{"fieldsV1": {"f": LARGE}}],
    )
    found = kept(made).object
    assert found["spec"] == made["spec"]
    assert found["metadata"]["labels"] == made["metadata"]["labels"]
    assert found["metadata"]["annotations"] == {"sp-block": "16"}
    assert "managedFields" not in found["metadata"]


def test_a_job_that_is_too_large_is_refused_and_keeps_its_place_and_status() -> None:
    made = job("p0") | {"status": {"conditions": [{"type": "Created", "status": "True"}]}}
    made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["args"] = [LARGE]
    record = kept(made)
    assert record.job.key == kept(job("p0")).job.key
    assert record.job.group == "group0"
    (fault,) = record.job.faults
    assert fault.startswith("JobTooLarge: the job has 1300")
    assert str(MOST_KEPT) in fault
    assert record.object["status"] == made["status"]
    assert size(record) < 2_000


def test_a_job_whose_status_is_too_large_is_refused_and_its_status_left_alone() -> None:
    record = kept(job("p0") | {"status": {"conditions": [{"message": LARGE}]}})
    assert (record.job.faults[0].split(":")[0], record.object) == ("JobTooLarge", {})


def test_a_volcano_job_that_is_too_large_is_refused_and_known_by_its_labels() -> None:
    pod = {
        "metadata": {"labels": LABELS, "annotations": None},
        "spec": {"containers": [{"args": [LARGE]}]},
    }
    tasks = [{"name": "t", "replicas": 2, "template": pod}]
    made = {"metadata": {"name": "v", "namespace": "n", "uid": "u"}, "spec": {"tasks": tasks}}
    record = volcano_job_record(msgspec.json.decode(msgspec.json.encode(made), type=JobObject))
    assert record is not None
    assert (record.job.key.rule, record.job.group, record.job.pods) == ("rule", "group0", ())
    assert record.job.faults[0].startswith("JobTooLarge: ")


def test_of_a_config_map_a_few_names_of_keys_are_kept_and_no_value_that_is_no_rule() -> None:
    made = {
        "metadata": {"name": "c", "labels": LABELS},
        "data": {f"k{number}": LARGE for number in range(20)},
    }
    record = config_map(made)
    assert (len(record.keys), record.document, record.own) == (MOST_KEYS, None, None)
    assert size(record) < 1_000


def test_a_rule_that_is_too_large_is_not_kept_and_says_how_large_it_is() -> None:
    large = rule_config_map("x" * (MAX_BYTES + 1))
    record = config_map(
        large | {"metadata": large["metadata"] | {"uid": "u", "resourceVersion": "1"}}
    )
    assert size(record) < 1_000
    rules = RulesInForce(lambda *_: record, lambda *_: None, KeptRules(9))
    problem = rules.follow("mindie", "rule").problem
    assert problem is not None
    assert f"the document has {MAX_BYTES + 1:,} bytes" in problem.message


def test_of_a_rank_table_is_kept_what_it_says_in_short() -> None:
    record = config_map(
        {
            "metadata": {"name": "rings-config-p0"},
            "data": {"hccl.json": '{"status":"completed","a":1}'},
        }
    )
    assert record.table_map is not None
    assert record.table_map.text is None
    assert record.table_map.status == "completed"
    assert record.table_map.said == content_of('{ "a": 1, "status": "completed" }')["said"]


def test_texts_of_a_pod_are_bounded() -> None:
    names = (
        "ascend.kubectl.kubernetes.io/ascend-910-configuration",
        "mind-cluster/instance",
        "huawei.com/AscendReal",
    )
    named = dict.fromkeys((*names, "scheduling.k8s.io/group-name", "super-pod-id"), LARGE)
    record = read_pod(
        {
            "metadata": {"name": "x", "labels": LABELS, "annotations": named},
            "spec": {"nodeSelector": {"a": LARGE}},
        }
    )
    assert record.governed is not None
    assert record.governed.request.where == Where()
    assert record.devices is not None
    assert record.devices.configuration == f"longer than {LONGEST_CONFIGURATION} characters"
    assert size(record) < 10_000


def test_a_too_long_name_of_an_instance_is_not_kept_and_its_pods_are_instances() -> None:
    def place(uid: str) -> str:
        notes = {"mind-cluster/instance": LARGE}
        record = read_pod(
            {"metadata": {"name": "x", "uid": uid, "labels": LABELS, "annotations": notes}}
        )
        assert record.governed is not None
        assert record.governed.membership is not None
        assert size(record) < 10_000
        return record.governed.membership.instance

    assert (place("a"), place("b")) == ("a", "b")


def test_the_text_of_a_job_is_compressed() -> None:
    record = kept(job("p0"))
    assert msgspec.json.decode(zlib.decompress(record.text)) == record.object


@pytest.mark.parametrize(
    "page", [Page([], "9", refused=[Refused("why", "mindie", "p0")]), Page([TOO_DEEP], "9")]
)
def test_a_job_that_is_looked_up_and_cannot_be_read_stays_as_it_was(page: Page[Object]) -> None:
    async def find(*_: object) -> Page[Object]:
        return page

    jobs: Store[JobRecord] = Store(lambda *_: None)
    jobs.add_scope(None)
    record = kept(job("p0"))
    jobs.apply(record)
    assert asyncio.run(look_up(find, jobs, record))
    assert jobs.get("mindie", "p0") == record
