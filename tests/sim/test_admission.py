"""Admission in the simulated API server: what hooks see, what they may change, and how they
refuse."""

from __future__ import annotations

import pytest

from scaler.clock import Clock
from scaler.kube.api import ASCEND_JOBS, NAMESPACES, PODS, PRIORITY_CLASSES, Object, PatchType
from scaler.kube.errors import ForbiddenError
from scaler.sim.apiserver.server import Hook, Review
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.jobs import job
from tests.rig import START

POD: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}


def cluster(*hooks: Hook) -> SimCluster:
    return SimCluster(Clock(START), admission=hooks)


def gate(review: Review) -> Object:
    if (
        review.operation == "CREATE"
        and review.resource == PODS
        and review.namespace_labels.get("held") == "yes"
    ):
        review.object["spec"]["schedulingGates"] = [{"name": "hold"}]
    return review.object


def test_a_hook_changes_what_is_created_where_the_namespace_asks_for_it() -> None:
    async def main() -> None:
        api = cluster(gate)
        await api.create(NAMESPACES, None, {"metadata": {"name": "in", "labels": {"held": "yes"}}})
        held, free = [await api.create(PODS, namespace, POD) for namespace in ("in", "out")]
        assert held["spec"]["schedulingGates"] == [{"name": "hold"}]
        assert held["status"]["conditions"][0]["reason"] == "SchedulingGated"
        assert "schedulingGates" not in free["spec"]

    run(main())


def test_hooks_see_what_the_one_before_made_and_nothing_that_comes_later() -> None:
    seen: list[Object] = []

    def label(review: Review) -> Object:
        review.object["metadata"]["labels"] = {"a": "b"}
        return review.object

    def look(review: Review) -> Object:
        if review.resource == PODS:
            seen.append(review.object["metadata"])
        return review.object

    async def main() -> None:
        made = await cluster(label, look).create(
            PODS, "default", {**POD, "metadata": {"generateName": "p-"}}
        )
        assert seen == [{"generateName": "p-", "labels": {"a": "b"}}]
        assert made["metadata"]["labels"] == {"a": "b"}

    run(main())


def test_an_update_shows_the_old_object_and_a_status_is_not_reviewed() -> None:
    seen: list[tuple[str, str, str]] = []

    def look(review: Review) -> Object:
        if review.resource == PODS:
            old = (review.old or {}).get("metadata", {}).get("labels", {}).get("a", "")
            seen.append(
                (review.operation, old, review.object["metadata"].get("labels", {}).get("a", ""))
            )
        return review.object

    async def main() -> None:
        api = cluster(look)
        await api.create(PODS, "default", POD)
        for value in ("1", "2"):
            patch = {"metadata": {"labels": {"a": value}}}
            await api.patch(PODS, "default", "p", patch, patch_type=PatchType.MERGE)
        status = {"status": {"phase": "Running"}}
        await api.patch(
            PODS, "default", "p", status, patch_type=PatchType.MERGE, subresource="status"
        )
        assert seen == [("CREATE", "", ""), ("UPDATE", "", "1"), ("UPDATE", "1", "2")]

    run(main())


def test_what_a_hook_adds_is_pruned_like_anything_else() -> None:
    def add_gates(review: Review) -> Object:
        if review.resource == ASCEND_JOBS:
            review.object["spec"]["replicaSpecs"]["Master"]["template"]["spec"][
                "schedulingGates"
            ] = [{"name": "hold"}]
        return review.object

    async def main() -> None:
        made = await cluster(add_gates).create(ASCEND_JOBS, "mindie", job("p0"))
        assert "schedulingGates" not in made["spec"]["replicaSpecs"]["Master"]["template"]["spec"]

    run(main())


def test_a_hook_refuses_by_raising_and_nothing_is_stored() -> None:
    def refuse(review: Review) -> Object:
        if review.resource == PODS:
            raise ForbiddenError(403, "Forbidden", "no")
        return review.object

    async def main() -> None:
        api = cluster(refuse)
        with pytest.raises(ForbiddenError, match="no"):
            await api.create(PODS, "default", POD)
        assert api.peek(PODS) == []

    run(main())


def priority_class(name: str, value: int, **more: object) -> Object:
    return {"metadata": {"name": name}, "value": value, **more}


def of_class(name: str) -> Object:
    return {"metadata": {"name": "p"}, "spec": {**POD["spec"], "priorityClassName": name}}


def test_a_pod_gets_the_priority_of_its_class_or_of_the_default_class() -> None:
    async def main() -> None:
        api = cluster()
        await api.create(PRIORITY_CLASSES, None, priority_class("gold", 1000))
        without = await api.create(PODS, "a", POD)
        assert "priority" not in without["spec"]
        gold = await api.create(PODS, "b", of_class("gold"))
        assert gold["spec"]["priority"] == 1000
        critical = await api.create(PODS, "c", of_class("system-node-critical"))
        assert critical["spec"]["priority"] == 2_000_001_000
        await api.create(PRIORITY_CLASSES, None, priority_class("low", 5, globalDefault=True))
        default = await api.create(PODS, "d", POD)
        assert default["spec"]["priorityClassName"] == "low"
        assert default["spec"]["priority"] == 5

    run(main())


def test_a_pod_of_a_class_that_does_not_exist_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ForbiddenError, match="no PriorityClass with name gold was found"):
            await cluster().create(PODS, "a", of_class("gold"))

    run(main())
