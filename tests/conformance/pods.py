"""Pods: scheduling gates, binding, what may change, and their status."""

from __future__ import annotations

from scaler.kube.api import PODS, PRIORITY_CLASSES, Object, PatchType
from scaler.kube.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from tests.conformance.harness import Cluster, case, eventually, refused
from tests.jobs import manifest

_GATES = [{"name": "ours/held"}, {"name": "theirs/held"}]


async def _merge(cluster: Cluster, patch: Object, subresource: str = "") -> Object:
    return await cluster.kube.patch(
        PODS, cluster.namespace, "p", patch, patch_type=PatchType.MERGE, subresource=subresource
    )


def _generation(cluster: Cluster, number: int) -> int | None:
    """Pods are counted since 1.33."""
    return number if cluster.minor >= 33 else None


@case
async def new_pod_is_pending(cluster: Cluster) -> None:
    made = await cluster.create(PODS, {**cluster.pod("p"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert made["spec"]["restartPolicy"] == "Always"
    assert made["metadata"].get("generation") == _generation(cluster, 1)


@case
async def gated_pod_says_so(cluster: Cluster) -> None:
    made = await cluster.create(PODS, cluster.pod("p", schedulingGates=_GATES))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


@case
async def pod_has_the_priority_of_its_class(cluster: Cluster) -> None:
    name = f"pods-of-{cluster.namespace}"
    await refused(
        ForbiddenError,
        cluster.create(PODS, cluster.pod("p", priorityClassName=name)),
        f"no PriorityClass with name {name} was found",
    )
    await cluster.create(PRIORITY_CLASSES, manifest(PRIORITY_CLASSES, name, value=7))
    cluster.made.append((PRIORITY_CLASSES, name))

    async def admitted() -> bool:
        """A real API server's admission learns of the class a moment after it was made."""
        try:
            await cluster.create(PODS, cluster.pod("p", priorityClassName=name))
        except ForbiddenError:
            return False
        return True

    await eventually(admitted, "a pod of the class is admitted")
    assert (await cluster.get(PODS, "p"))["spec"]["priority"] == 7


@case
async def gates_can_only_be_taken_away(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p", schedulingGates=_GATES))
    more = [*_GATES, {"name": "late/gate"}]
    await refused(
        InvalidError,
        _merge(cluster, {"spec": {"schedulingGates": more}}),
        "only deletion is allowed",
    )
    assert (await _merge(cluster, {"spec": {"schedulingGates": _GATES[1:]}}))["spec"][
        "schedulingGates"
    ] == _GATES[1:]
    free = await _merge(cluster, {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in free["spec"]
    await refused(
        InvalidError,
        _merge(cluster, {"spec": {"schedulingGates": _GATES}}),
        "only deletion is allowed",
    )


@case
async def gated_pod_cannot_name_its_node(cluster: Cluster) -> None:
    pod = cluster.pod("p", schedulingGates=_GATES, nodeName="node")
    await refused(InvalidError, cluster.create(PODS, pod), "schedulingGates")


@case
async def gated_pod_cannot_be_bound(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p", schedulingGates=_GATES[:1]))
    node = await cluster.node()
    await refused(ConflictError, cluster.bind("p", node), "schedulingGates")
    await _merge(cluster, {"spec": {"schedulingGates": None}})
    await cluster.bind("p", node)
    assert (await cluster.get(PODS, "p"))["spec"]["nodeName"] == node


@case
async def pod_is_bound_once(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    node = await cluster.node()
    await cluster.bind("p", node)
    bound = await cluster.get(PODS, "p")
    scheduled = {entry["type"]: entry["status"] for entry in bound["status"]["conditions"]}
    assert scheduled["PodScheduled"] == "True"
    await refused(ConflictError, cluster.bind("p", node), "already assigned")
    await refused(NotFoundError, cluster.bind("nobody", node))


@case
async def most_of_a_pod_cannot_change(cluster: Cluster) -> None:
    await cluster.create(PODS, cluster.pod("p"))
    for spec in (
        {"nodeName": "node"},
        {"priority": 7},
        {"nodeSelector": {"a": "b"}},
        {"containers": [{"name": "c", "image": "image:1", "command": ["sh"]}]},
    ):
        await refused(InvalidError, _merge(cluster, {"spec": spec}))
    toleration = {"key": "a", "operator": "Exists", "effect": "NoSchedule"}
    changed = await _merge(
        cluster, {"spec": {"tolerations": [toleration], "activeDeadlineSeconds": 60}}
    )
    assert toleration in changed["spec"]["tolerations"]
    assert changed["metadata"].get("generation") == _generation(cluster, 2)


@case
async def status_changes_through_its_subresource_only(cluster: Cluster) -> None:
    made = await cluster.create(PODS, cluster.pod("p"))
    ignored = await _merge(cluster, {"status": {"phase": "Running"}})
    assert ignored["status"] == made["status"]
    running = await _merge(cluster, {"status": {"phase": "Running", "podIP": "10.0.0.1"}}, "status")
    assert (running["status"]["phase"], running["status"]["podIP"]) == ("Running", "10.0.0.1")
    assert running["metadata"].get("generation") == made["metadata"].get("generation")
    spec = {**running["spec"], "activeDeadlineSeconds": 5}
    replaced = await cluster.kube.replace(
        PODS,
        cluster.namespace,
        "p",
        {**running, "spec": spec, "status": {"phase": "Failed"}},
        subresource="status",
    )
    assert replaced["status"]["phase"] == "Failed"
    assert "activeDeadlineSeconds" not in replaced["spec"]


@case
async def pod_needs_containers_with_names_and_images(cluster: Cluster) -> None:
    for containers in (
        [],
        [{"image": "image:1"}],
        [{"name": "c"}],
        [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}],
    ):
        await refused(InvalidError, cluster.create(PODS, cluster.pod("p", containers=containers)))
