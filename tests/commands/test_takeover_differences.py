"""What differs between objects that exist and those that the scaler would write, and what that
means."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.kube.api import Object
from scaler.tools.takeover.comparison import Consequence, Found, Weight, compare, differences
from scaler.workloads import ascendjob_objects
from scaler.workloads.ascendjob import read_job
from tests.jobs import job
from tests.workloads.test_ascendjob import JSON

CLUSTERD = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
POD = "p0-master-0"


def as_written(obj: Object) -> Found:
    """All objects of the job just as the scaler writes them."""
    read = read_job(obj)
    return Found(
        pods=ascendjob_objects.pods(read, obj, CLUSTERD),
        pod_group=ascendjob_objects.pod_group(read, obj),
        service=ascendjob_objects.service(read, obj),
    )


def consequences(obj: Object, found: Found) -> list[Consequence]:
    return compare(read_job(obj), obj, found, CLUSTERD)


def changed(change: Callable[[Object], Any], *, pods: int = 1) -> list[Consequence]:
    """Remarks when the leader's pod is changed like this."""
    obj = job("p0", pods=pods, uid="u")
    found = copy.deepcopy(as_written(obj))
    change(found.pods[POD])
    return consequences(obj, found)


def env(pod: Object) -> list[Object]:
    variables: list[Object] = pod["spec"]["containers"][0]["env"]
    return variables


def set_env(name: str, value: str) -> Callable[[Object], None]:
    def change(pod: Object) -> None:
        next(variable for variable in env(pod) if variable["name"] == name)["value"] = value

    return change


@pytest.mark.parametrize("pods", [1, 4])
def test_what_the_scaler_writes_itself_differs_in_nothing(pods: int) -> None:
    obj = job("p0", pods=pods, uid="u")
    assert consequences(obj, as_written(obj)) == []


def test_what_ascend_operator_made_of_six_services_is_only_expected_to_differ(
    real_data: Path,
) -> None:
    def listed(file: Path) -> dict[str, Object]:
        return {item["metadata"]["name"]: item for item in json.loads(file.read_text())}

    compared = 0
    for folder in sorted((real_data / "ao_objects").iterdir()):
        there = {
            kind: listed(folder / f"{kind}.json")
            for kind in ("ascendjobs", "pods", "podgroups", "services")
        }
        for obj in there["ascendjobs"].values():
            read = read_job(obj)
            pods = {name: there["pods"][name] for name in read.pods}
            found = Found(pods, there["podgroups"][read.pod_group], there["services"][read.pods[0]])
            assert [
                consequence
                for consequence in compare(read, obj, found, CLUSTERD)
                if consequence.weight != "expected"
            ] == []
            compared += len(pods)
    assert compared == 33


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["spec"].update(
            nodeName="node-0", tolerations=[{"operator": "Exists"}], priority=0
        ),
        lambda pod: pod["metadata"]["annotations"].update({"huawei.com/AscendReal": "Ascend910-0"}),
        lambda pod: pod.update(status={"phase": "Running"}),
        lambda pod: pod["spec"].update(
            volumes=[{"name": "kube-api-access-x2x4x", "projected": {}}]
        ),
        lambda pod: pod["spec"]["containers"][0]["resources"].update(
            limits={"huawei.com/Ascend910": 8}
        ),
        lambda pod: env(pod).insert(0, {"name": "APP_TYPE", "value": "hidden by the later one"}),
    ],
    ids=["bound", "chips", "status", "token", "number for text", "variable given twice"],
)
def test_what_others_add_is_no_difference(change: Callable[[Object], Any]) -> None:
    assert changed(change) == []


def test_a_pod_of_another_owner_or_of_none_blocks() -> None:
    for change in (
        lambda pod: pod["metadata"]["ownerReferences"][0].update(uid="of the job before"),
        lambda pod: pod["metadata"].pop("ownerReferences"),
        lambda pod: pod["metadata"]["ownerReferences"][0].update(controller=False),
    ):
        (consequence,) = changed(change)
        assert (consequence.weight, "nobody adopts it" in consequence.text) == (Weight.BLOCKS, True)


def test_a_pod_in_another_gang_blocks() -> None:
    (consequence,) = changed(
        lambda pod: pod["metadata"]["annotations"].update({"scheduling.k8s.io/group-name": "other"})
    )
    assert (consequence.weight, "another gang" in consequence.text) == (Weight.BLOCKS, True)


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["metadata"]["labels"].update(version="3"),
        set_env("MINDX_SERVER_IP", "10.96.0.10"),
    ],
    ids=["round", "address of ClusterD"],
)
def test_wanted_differences_are_expected(change: Callable[[Object], Any]) -> None:
    assert [consequence.weight for consequence in changed(change)] == [Weight.EXPECTED]


def test_a_template_that_was_edited_since_differs_with_both_values_and_blocks_nothing() -> None:
    (consequence,) = changed(lambda pod: pod["spec"]["containers"][0].update(image="mindie:0"))
    assert consequence == Consequence(
        Weight.DIFFERS,
        f"Pod {POD}: spec.containers[ascend].image is mindie:0, the scaler writes mindie:1",
    )


def test_a_variable_that_the_template_has_no_more_differs() -> None:
    (consequence,) = changed(lambda pod: env(pod).append({"name": "OLD", "value": "1"}))
    assert "env[OLD]" in consequence.text
    assert consequence.text.endswith("the scaler writes nothing")


def test_the_same_difference_of_many_pods_is_told_once() -> None:
    obj = job("p0", pods=4, uid="u")
    found = copy.deepcopy(as_written(obj))
    for pod in found.pods.values():
        pod["spec"]["containers"][0]["image"] = "mindie:0"
    (consequence,) = consequences(obj, found)
    assert consequence.text.startswith(f"Pod {POD} and 3 more: ")


def test_a_pod_group_of_another_size_differs() -> None:
    obj = job("p0", pods=2, uid="u")
    found = copy.deepcopy(as_written(obj))
    assert found.pod_group is not None
    found.pod_group["spec"]["minMember"] = 5
    (consequence,) = consequences(obj, found)
    assert consequence == Consequence(
        Weight.DIFFERS, "PodGroup: spec.minMember is 5, the scaler writes 2"
    )


def test_of_a_job_without_objects_or_without_shape_nothing_is_compared() -> None:
    obj = job("p0", uid="u")
    assert consequences(obj, Found()) == []
    obj["spec"]["replicaSpecs"] = {}
    assert consequences(obj, Found()) == []


@given(JSON, JSON)
def test_no_two_values_raise_and_equal_ones_never_differ(wanted: Any, found: Any) -> None:
    assert list(differences(wanted, copy.deepcopy(wanted))) == []
    assert all(len(told) == 3 for told in differences(wanted, found))


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), JSON))
def test_no_object_raises(found: Object) -> None:
    obj = job("p0", uid="u")
    for consequence in consequences(obj, Found({POD: found}, found, found)):
        assert consequence.weight is Weight.BLOCKS  # nothing owns it
