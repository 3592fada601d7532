"""Any labels, annotations and owners of pods: the controller lives, others are served, nothing
bound is touched."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaler.kube.api import PODS, Object
from scaler.kube.errors import NotFoundError
from scaler.names import GATE, INSTANCE, INSTANCE_SIZE, POD_GROUP
from scaler.sim.loop import run
from tests.jobs import NAMESPACE, held, node, rule_config_map, rule_document
from tests.rig import Rig, rig
from tests.test_fuzz import LABEL, try_to_apply

LABEL_NAMES = (
    "mind-cluster/scaling-rule",
    "mind-cluster/group-name",
    "jobID",
    "pod-template-hash",
    "leaderworkerset.sigs.k8s.io/name",
    "leaderworkerset.sigs.k8s.io/group-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "storm-service-name",
    "roleset-name",
    "role-name",
    "stormservice.orchestration.aibrix.ai/podset-name",
    "stormservice.orchestration.aibrix.ai/role-replica-index",
    "infer.huawei.com/ascend-infer-operator",
    "infer.huawei.com/inferservice-name",
    "infer.huawei.com/instanceset-name",
    "infer.huawei.com/instanceset-index",
    "rbg.workloads.x-k8s.io/group-name",
)
ANNOTATION_NAMES = (
    INSTANCE,
    INSTANCE_SIZE,
    POD_GROUP,
    "leaderworkerset.sigs.k8s.io/size",
    "hccl/rankIndex",
)
OWNERS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("mindxdl.gitee.com/v1", "AscendJob"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("orchestration.aibrix.ai/v1alpha1", "PodSet"),
    ("orchestration.aibrix.ai/v1alpha1", "RoleSet"),
    ("workloads.x-k8s.io/v1alpha2", "RoleInstance"),
    ("a/v1", "B"),
)
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@st.composite
def odd_pods(draw: st.DrawFn) -> Object:
    pod = held(draw(NAME) + "-odd", draw(st.sampled_from(["group0", "group1", "nobody"])))
    pod["metadata"]["labels"] |= draw(
        st.dictionaries(st.sampled_from(LABEL_NAMES), LABEL, max_size=6)
    )
    pod["metadata"]["annotations"] = draw(
        st.dictionaries(
            st.sampled_from(ANNOTATION_NAMES), st.text(max_size=12) | st.just("2"), max_size=4
        )
    )
    version, kind = draw(st.sampled_from(OWNERS))
    owner = {
        "apiVersion": version,
        "kind": kind,
        "name": draw(NAME),
        "uid": draw(NAME),
        "controller": draw(st.booleans()),
    }
    pod["metadata"]["ownerReferences"] = [owner] if draw(st.booleans()) else []
    pod["spec"]["schedulerName"] = draw(st.sampled_from(["volcano", "default-scheduler"]))
    pod["spec"]["schedulingGates"] = draw(
        st.sampled_from([[], [{"name": GATE}], [{"name": "x/y"}, {"name": GATE}]])
    )
    return pod


def bound(on: Rig) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in on.cluster.peek(PODS, NAMESPACE)
        if pod["spec"].get("nodeName")
    }


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pods=st.lists(odd_pods(), min_size=1, max_size=5), binds=st.lists(st.integers(0, 4), max_size=3)
)
def test_any_pod_gets_a_reason_and_harms_nobody(pods: list[Any], binds: list[int]) -> None:
    async def story() -> None:
        async with rig(node("roomy", roomy=True), rule_config_map()) as on:
            await try_to_apply(on, *pods)
            for number in binds:
                found = on.cluster.peek(PODS, NAMESPACE)
                if number < len(found) and not (
                    found[number]["spec"].get("schedulingGates")
                    or found[number]["spec"].get("nodeName")
                ):
                    with suppress(NotFoundError):  # it was revoked at this moment
                        await on.bind(found[number])
            before = bound(on)
            await on.settle(200)
            assert before <= bound(on)
            on.apply(rule_config_map(rule_document({"group0": 1}), name="good"))
            on.apply(held("q0", "group0", rule="good", job_id="other"))
            await on.settle()
            (neighbour,) = [
                pod for pod in on.cluster.peek(PODS, NAMESPACE) if pod["metadata"]["name"] == "q0"
            ]
            assert not neighbour["spec"].get("schedulingGates")

    run(story())
