"""Server-side apply as the scaler uses it, for the status of an ElasticService, and as `scaler
deploy` does."""

from __future__ import annotations

from scaler.kube.api import CONFIG_MAPS, ELASTIC_SERVICES, Apply, Object, PatchType
from scaler.kube.errors import BadRequestError, ConflictError, InvalidError, NotFoundError
from tests.conformance.harness import Cluster, case, refused
from tests.jobs import manifest

THEN = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:10:00Z"
SPEC = {"rule": "rule", "jobID": "chat"}


def condition(kind: str, status: str = "True", since: str = THEN) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": "Said",
        "message": "",
        "lastTransitionTime": since,
    }


async def _made(cluster: Cluster) -> Object:
    return await cluster.create(ELASTIC_SERVICES, manifest(ELASTIC_SERVICES, "e", spec=SPEC))


async def _applied(cluster: Cluster, **status: object) -> Object:
    body = {**manifest(ELASTIC_SERVICES, "e"), "status": status}
    return await cluster.kube.patch(
        ELASTIC_SERVICES,
        cluster.namespace,
        "e",
        body,
        patch_type=PatchType.APPLY,
        subresource="status",
    )


async def _patched(cluster: Cluster, **status: object) -> Object:
    """As somebody else does it."""
    return await cluster.kube.patch(
        ELASTIC_SERVICES,
        cluster.namespace,
        "e",
        {"status": status},
        patch_type=PatchType.MERGE,
        subresource="status",
    )


@case
async def status_of_an_elastic_service_is_applied(cluster: Cluster) -> None:
    made = await _made(cluster)
    applied = await _applied(cluster, running="1+1", conditions=[condition("Available")])
    assert applied["status"] == {"running": "1+1", "conditions": [condition("Available")]}
    assert (applied["spec"], applied["metadata"]["generation"]) == (
        {**SPEC, "replicas": 1_000_000},
        1,
    )
    assert applied["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


@case
async def what_is_applied_again_changes_nothing(cluster: Cluster) -> None:
    await _made(cluster)
    first = await _applied(cluster, running="1+1", ratios=[{"p": 1}])
    again = await _applied(cluster, running="1+1", ratios=[{"p": 1}])
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@case
async def what_is_applied_no_more_goes(cluster: Cluster) -> None:
    await _made(cluster)
    await _applied(
        cluster,
        running="1+1",
        currentRatio={"index": 0, "counts": {"p": 2, "d": 1}},
        message="words",
    )
    smaller = await _applied(cluster, running="1+0", currentRatio={"index": 1, "counts": {"p": 1}})
    assert smaller["status"] == {"running": "1+0", "currentRatio": {"index": 1, "counts": {"p": 1}}}
    assert (await _applied(cluster, running="0+0"))["status"] == {"running": "0+0"}


@case
async def what_another_wrote_stays_unless_it_is_applied(cluster: Cluster) -> None:
    await _made(cluster)
    await _applied(cluster, running="1+1")
    await _patched(cluster, message="theirs", running="9+9")
    assert (await _applied(cluster, running="1+0"))["status"] == {
        "running": "1+0",
        "message": "theirs",
    }


@case
async def atomic_lists_are_applied_whole_and_conditions_by_type(cluster: Cluster) -> None:
    await _made(cluster)
    both = [condition("Available"), condition("Complete")]
    await _applied(
        cluster, instances=[{"name": "a", "reason": "x"}, {"name": "b"}], conditions=both
    )
    await _patched(cluster, conditions=[*both, condition("Theirs")])
    changed = condition("Available", "False", LATER)
    status = (await _applied(cluster, instances=[{"name": "b"}], conditions=[changed]))["status"]
    assert status["instances"] == [{"name": "b"}]
    assert {found["type"]: found["status"] for found in status["conditions"]} == {
        "Available": "False",
        "Theirs": "True",
    }


@case
async def status_of_nothing_is_not_applied(cluster: Cluster) -> None:
    await refused(NotFoundError, _applied(cluster, running="1+1"))


@case
async def what_is_applied_must_fit(cluster: Cluster) -> None:
    await _made(cluster)
    await refused(InvalidError, _applied(cluster, replicas=-1))
    body = {"status": {"running": "1"}}
    nameless = cluster.kube.patch(
        ELASTIC_SERVICES,
        cluster.namespace,
        "e",
        body,
        patch_type=PatchType.APPLY,
        subresource="status",
    )
    await refused(BadRequestError, nameless)


@case
async def apply_makes_what_is_not_there(cluster: Cluster) -> None:
    body = cluster.config_map("a", key="1")
    made = await cluster.kube.patch(
        CONFIG_MAPS, cluster.namespace, "a", body, patch_type=PatchType.APPLY
    )
    assert made["data"] == {"key": "1"}


@case
async def which_service_it_is_about_must_be_said(cluster: Cluster) -> None:
    nothing = manifest(ELASTIC_SERVICES, "e", spec={"rule": "rule"})
    await refused(InvalidError, cluster.create(ELASTIC_SERVICES, nothing), "jobID")


async def _tuned(cluster: Cluster, how: Apply, key: str) -> Object:
    body = cluster.config_map("a", key=key)
    return await cluster.kube.patch(
        CONFIG_MAPS, cluster.namespace, "a", body, patch_type=PatchType.APPLY, apply=how
    )


@case
async def a_dry_run_says_what_would_be_and_changes_nothing(cluster: Cluster) -> None:
    dry = Apply("one", force=False, dry_run=True)
    wet = Apply("one", force=False)
    assert (await _tuned(cluster, dry, key="1"))["data"] == {"key": "1"}
    await refused(NotFoundError, cluster.kube.get(CONFIG_MAPS, cluster.namespace, "a"))
    before = await _tuned(cluster, wet, key="1")
    assert (await _tuned(cluster, dry, key="2"))["data"] == {"key": "2"}
    assert await cluster.kube.get(CONFIG_MAPS, cluster.namespace, "a") == before


@case
async def what_another_manager_applied_is_a_conflict_unless_forced_or_the_same(
    cluster: Cluster,
) -> None:
    await _tuned(cluster, Apply("one", force=False), key="1")
    assert (await _tuned(cluster, Apply("two", force=False), key="1"))["data"] == {"key": "1"}
    await refused(
        ConflictError,
        _tuned(cluster, Apply("three", force=False), key="3"),
        r'"one"[^$]*\.data\.key',
    )
    assert (await _tuned(cluster, Apply("three", force=True), key="3"))["data"] == {"key": "3"}


@case
async def applying_the_same_again_changes_nothing(cluster: Cluster) -> None:
    before = await _tuned(cluster, Apply("one", force=False), key="1")
    assert await _tuned(cluster, Apply("one", force=False), key="1") == before
