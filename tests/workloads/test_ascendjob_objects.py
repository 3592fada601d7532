"""The objects of an instance, compared field by field with what Ascend Operator itself created."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.workloads import ascendjob_objects
from scaler.workloads.ascendjob import read_job
from tests.jobs import job

CLUSTERD = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"

NOT_OURS = {
    r"/metadata/(creationTimestamp|generation|resourceVersion|uid)": "given by the API server",
    r"/status": "written by the scheduler and the kubelet",
    r"/metadata/annotations/ascend\.kubectl\.kubernetes\.io~ascend-910-configuration": (
        "written by the device plugin"
    ),
    r"/metadata/annotations/huawei\.com~AscendReal": "written by the device plugin",
    r"/spec/(nodeName|tolerations|priority|preemptionPolicy|dnsPolicy|enableServiceLinks)": (
        "set at admission or bind"
    ),
    r"/spec/containers/0/(terminationMessagePath|terminationMessagePolicy)": (
        "defaults of the API server"
    ),
    r"/spec/containers/0/(env/\d+/valueFrom/fieldRef/apiVersion|ports/\d+/protocol)": (
        "defaults of the API server"
    ),
    r"/spec/volumes/\d+/hostPath/type": "default of the API server",
    r"/spec/(clusterIPs?|ipFamil\w+|internalTrafficPolicy|sessionAffinity|ports/\d+/protocol)": (
        "given to a Service"
    ),
}
"""Fields that Ascend Operator did not write either; no other difference is accepted."""


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            yield from differences(
                ours.get(key), theirs.get(key), f"{path}/{key.replace('/', '~')}"
            )
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{path}/{index}")
    elif str(ours) != str(theirs):  # quantities: 8 and "8" are the same to the API server
        yield path, ours, theirs


def unexpected(ours: Any, theirs: Any) -> list[tuple[str, Any, Any]]:
    known = re.compile("|".join(NOT_OURS))
    lists_leave_out = ("/apiVersion", "/kind")
    return [
        (path, mine, other)
        for path, mine, other in differences(ours, theirs)
        if path not in lists_leave_out and not (mine is None and known.fullmatch(path))
    ]


def listed(file: Path) -> dict[str, Any]:
    return {item["metadata"]["name"]: item for item in json.loads(file.read_text())}


def test_every_recorded_object_is_made_field_by_field(real_data: Path) -> None:
    compared = 0
    for folder in sorted((real_data / "ao_objects").iterdir()):
        theirs = {
            kind: listed(folder / f"{kind}.json")
            for kind in ("ascendjobs", "pods", "podgroups", "services")
        }
        for obj in theirs["ascendjobs"].values():
            read = read_job(obj)
            for name, pod in ascendjob_objects.pods(read, obj, CLUSTERD).items():
                assert unexpected(pod, theirs["pods"][name]) == []
                compared += 1
            assert (
                unexpected(
                    ascendjob_objects.pod_group(read, obj), theirs["podgroups"][read.pod_group]
                )
                == []
            )
            assert (
                unexpected(ascendjob_objects.service(read, obj), theirs["services"][read.pods[0]])
                == []
            )
    assert compared == 33


def test_workers_are_ranked_behind_a_leader_that_computes() -> None:
    obj = job("p0", pods=3, uid="u")
    made = ascendjob_objects.pods(read_job(obj), obj, CLUSTERD)
    ranks = {name: pod["metadata"]["annotations"]["hccl/rankIndex"] for name, pod in made.items()}
    assert ranks == {"p0-master-0": "0", "p0-worker-0": "1", "p0-worker-1": "2"}


def test_a_leader_without_npus_leaves_rank_0_to_the_first_worker() -> None:
    obj = job("p0", pods=2, uid="u")
    obj["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["resources"] = {}
    made = ascendjob_objects.pods(read_job(obj), obj, CLUSTERD)
    assert made["p0-worker-0"]["metadata"]["annotations"]["hccl/rankIndex"] == "0"


def test_exit_code_is_no_restart_policy_of_a_pod() -> None:
    obj = job("p0", uid="u")
    obj["spec"]["replicaSpecs"]["Master"]["restartPolicy"] = "ExitCode"
    made = ascendjob_objects.pods(read_job(obj), obj, CLUSTERD)
    assert made["p0-master-0"]["spec"]["restartPolicy"] == "Never"


def test_environment_that_the_user_set_is_not_set_twice() -> None:
    obj = job("p0", uid="u")
    container = obj["spec"]["replicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "APP_TYPE", "value": "mine"}]
    made = ascendjob_objects.pods(read_job(obj), obj, CLUSTERD)
    values = [
        v["value"]
        for v in made["p0-master-0"]["spec"]["containers"][0]["env"]
        if v["name"] == "APP_TYPE"
    ]
    assert values == ["mine"]


def test_kubectls_copy_of_the_manifest_is_not_copied_to_the_pod_group() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "sp-block": "16"}
    obj = job("p0", uid="u", annotations=annotations)
    assert ascendjob_objects.pod_group(read_job(obj), obj)["metadata"]["annotations"] == {
        "sp-block": "16"
    }


@pytest.mark.parametrize(("members", "npus"), [(None, "24"), (1, "8"), (2, "16")])
def test_min_resources_cover_the_pods_that_the_gang_needs(members: int | None, npus: str) -> None:
    obj = job("p0", pods=3, uid="u")
    obj["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": members} if members else {}}
    spec = ascendjob_objects.pod_group(read_job(obj), obj)["spec"]
    assert spec["minResources"] == {"huawei.com/Ascend910": npus}
    assert spec["minTaskMember"] == {"master": 1, "worker": 2}
