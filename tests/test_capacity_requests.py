"""A minimum that does not fit asks a pool of nodes to grow: 3b.9b of the contract, on the simulated
cluster."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import pytest

from scaler.decide.nodes import PodRequest, Requirement, Toleration, Where
from scaler.decide.world import ServiceKey
from scaler.execute.capacity_requests import IMAGE, KEPT, pod_template, request, request_name
from scaler.kube.api import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUESTS,
    Object,
)
from scaler.names import CONSUMES, NAMESPACE_LABEL
from scaler.settings import Settings
from scaler.sim.actors import objects
from scaler.sim.actors.collector import GarbageCollector
from scaler.sim.actors.owners import owners
from scaler.sim.apiserver.crds import workload_definition
from scaler.sim.loop import run
from scaler.sim.stories.play import ADMISSION
from tests.jobs import NAMESPACE, job, manifest, rule_config_map
from tests.rig import Rig, at_work, controller
from tests.sim.manifests import NPU

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
LABELS = {"mind-cluster/scaling-rule": "rule"}


def deployment(name: str, group: str, service: str = "mindie") -> Object:
    """One pod of eight NPUs."""
    container = {"name": "server", "image": "i", "resources": {"limits": {NPU: 8}}}
    labels = {**LABELS, "jobID": service, "mind-cluster/group-name": group, "app": name}
    pod = {"schedulerName": "volcano", "containers": [container]}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return manifest(DEPLOYMENTS, name, NAMESPACE, spec=spec)


def a_service(on: Rig) -> None:
    """1P1D, each of one pod that takes a node; and another service that may use these nodes, and
    is paused."""
    on.cluster.apply([workload_definition(PROVISIONING_REQUESTS)])
    opted_in = manifest(NAMESPACES, NAMESPACE, labels={NAMESPACE_LABEL: "enabled"})
    on.apply(opted_in, rule_config_map(), deployment("p", "group0"), deployment("d", "group1"))
    paused = rule_config_map(name="paused", paused="true")
    other = deployment("o", "group0", "other")
    other["spec"]["template"]["metadata"]["labels"]["mind-cluster/scaling-rule"] = "paused"
    on.apply(paused, other)


def at_work_on(on: Rig) -> list[Coroutine[Any, Any, None]]:
    """Owners of pods, and the garbage collector."""
    return [*[actor.run() for actor in owners(on.cluster)], GarbageCollector(on.cluster).run()]


def requests(on: Rig) -> list[str]:
    return [objects.name(one) for one in on.cluster.peek(PROVISIONING_REQUESTS)]


def named(on: Rig) -> set[str]:
    """What the pods of the service name in their annotation; "" for a pod that names none."""
    pods = [pod for pod in on.cluster.peek(PODS) if objects.labels_of(pod)["app"] != "o"]
    return {objects.annotations_of(pod).get(CONSUMES, "") for pod in pods}


def test_a_minimum_asks_after_fit_patience_its_pods_name_it_and_room_ends_it() -> None:
    """3b.9b: "a minimum that has not fitted for fit_patience, MinimumTooLarge included, asks for
    its room by one; its pods name it, and it is withdrawn when the minimum has room"."""

    async def story() -> None:
        on = Rig(*ADMISSION)
        on.nodes("n0")
        a_service(on)
        work = at_work_on(on)
        async with at_work(*work), controller(on, provisioning_request=CLASS):
            await on.settle(50)
            assert requests(on) == []
            await on.settle(20)
            (asked,) = on.cluster.peek(PROVISIONING_REQUESTS)
            assert asked["spec"]["provisioningClassName"] == CLASS
            assert [one["count"] for one in asked["spec"]["podSets"]] == [2]
            (template,) = on.cluster.peek(POD_TEMPLATES)
            assert template["metadata"]["ownerReferences"][0]["uid"] == objects.uid(asked)
            assert named(on) == {objects.name(asked)}
            writes = len(on.writes())
            await on.settle(200)
            assert len(on.writes()) == writes, "at rest nothing is written"
            on.nodes("n1")
            await on.settle(5)
            assert requests(on) == []

    run(story())


def test_it_is_withdrawn_when_the_service_is_gone() -> None:
    async def story() -> None:
        on = Rig(*ADMISSION)
        on.nodes("n0")
        a_service(on)
        work = at_work_on(on)
        async with at_work(*work), controller(on, provisioning_request=CLASS):
            await on.settle(70)
            assert len(requests(on)) == 1
            for name in ("p", "d"):
                await on.cluster.delete(DEPLOYMENTS, NAMESPACE, name)
            await on.settle(60)
            assert requests(on) == []

    run(story())


def test_the_next_leader_knows_what_was_asked_and_withdraws_what_is_of_no_use() -> None:
    async def story() -> None:
        on = Rig(*ADMISSION)
        on.nodes("n0")
        a_service(on)
        work = at_work_on(on)
        async with at_work(*work):
            async with controller(on, provisioning_request=CLASS):
                await on.settle(70)
                before = requests(on)
            async with controller(on, provisioning_request=CLASS):
                await on.settle(70)
                assert requests(on) == before
            on.nodes("n1")
            async with controller(on, provisioning_request=CLASS):
                await on.settle(10)
                assert requests(on) == []

    run(story())


def consumers(on: Rig, *jobs: str) -> set[str]:
    """What the pods of these AscendJobs name in their annotation; "" for a pod that names none."""
    pods = [pod for name in jobs for pod in on.pods_of(name)]
    return {objects.annotations_of(pod).get(CONSUMES, "") for pod in pods}


def jobs_of_a_service(on: Rig) -> None:
    """1P1D of AscendJobs, each of one pod that takes a node, and another service of one job that
    may use these nodes, and is paused."""
    on.cluster.apply([workload_definition(PROVISIONING_REQUESTS)])
    on.apply(rule_config_map(), job("p0"), job("d0"))
    paused = rule_config_map(name="paused", paused="true")
    on.apply(paused, job("o0", "group0", rule="paused", job_id="other"))


def test_pods_that_the_scaler_makes_name_the_request_too() -> None:
    """3b.9b: "its pods name it". In create mode they come when the room is there, and the request
    is withdrawn; what is made long after that names nothing."""

    async def story() -> None:
        on = Rig()
        on.nodes("n0")
        jobs_of_a_service(on)
        async with controller(on, provisioning_request=CLASS):
            await on.settle(70)
            (asked,) = requests(on)
            assert consumers(on, "p0", "d0") == set()
            on.nodes("n1")
            await on.settle(10)
            assert consumers(on, "p0", "d0") == {asked}
            assert requests(on) == []
            await on.settle(KEPT)
            await on.cluster.delete(PODS, NAMESPACE, "d0-master-0")
            await on.settle(30)
            assert consumers(on, "d0") == {""}

    run(story())


def test_pods_of_other_services_do_not_name_it() -> None:
    async def story() -> None:
        on = Rig()
        on.nodes("n0")
        jobs_of_a_service(on)
        async with controller(on, provisioning_request=CLASS):
            await on.settle(70)
            on.apply(rule_config_map(name="small"))
            on.nodes("n1", "n2", "n3")
            on.apply(*[job(name, rule="small", job_id="small") for name in ("p1", "d1")])
            await on.settle(10)
            assert consumers(on, "p1", "d1") == {""}
            assert len(consumers(on, "p0", "d0")) == 1

    run(story())


def test_without_the_definition_the_decision_is_the_same() -> None:
    """3b.9b: "A failed or slow request changes no decision"."""

    async def story() -> None:
        on = Rig(*ADMISSION)
        on.nodes("n0")
        a_service(on)
        definition = "provisioningrequests.autoscaling.x-k8s.io"
        await on.cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, definition)
        work = at_work_on(on)
        async with at_work(*work), controller(on, provisioning_request=CLASS):
            await on.settle(70)
            on.nodes("n1")
            await on.settle(10)
            gated = [pod for pod in on.cluster.peek(PODS) if pod["spec"].get("schedulingGates")]
            assert [objects.labels_of(pod)["app"] for pod in gated] == ["o"]

    run(story())


def test_the_setting_is_off_by_default() -> None:
    assert Settings().provisioning_request == ""


KEY = ServiceKey("ns", "rule", "job")
WHERE = Where(
    selector=(("pool", "npu"),),
    affinity=((Requirement("zone", "In", ("a", "b")), Requirement("metadata.name", "In", ("n",))),),
    tolerations=(Toleration("npu", "Exists"),),
)
ASKED = PodRequest(((NPU, 8), ("cpu", 500), ("memory", 1 << 30), ("pods", 1)), WHERE)


def test_a_template_requests_what_the_pods_do() -> None:
    owner = {"metadata": {"name": "scaler-x", "uid": "u"}}
    spec = pod_template("scaler-x-0", ASKED, owner)["template"]["spec"]
    amounts = {NPU: "8", "cpu": "500m", "memory": str(1 << 30)}
    (container,) = spec["containers"]
    assert (container["image"], container["resources"]["requests"]) == (IMAGE, amounts)
    assert container["resources"]["limits"] == amounts
    assert spec["nodeSelector"] == {"pool": "npu"}
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
    }
    assert spec["tolerations"] == [{"key": "npu", "operator": "Exists"}]


@pytest.mark.parametrize("number", [1, 2])
def test_a_request_has_one_name_for_what_is_lacking(number: int) -> None:
    name = request_name(KEY, ((ASKED, number),))
    made = request(KEY, name, CLASS, ((ASKED, number),))
    assert name == request_name(KEY, ((ASKED, number),))
    assert name != request_name(KEY, ((ASKED, 3),))
    assert made["metadata"]["annotations"] == {"mind-cluster/service": "ns/rule/job"}
    assert made["spec"]["podSets"] == [{"podTemplateRef": {"name": f"{name}-0"}, "count": number}]
