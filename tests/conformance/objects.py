"""Names, versions and preconditions of single objects."""

from __future__ import annotations

from scaler.kube.api import CONFIG_MAPS, EVENTS, LEASES, PODS, PRIORITY_CLASSES, SERVICES, Resource
from scaler.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from tests.conformance.harness import Cluster, case, refused
from tests.jobs import manifest


@case
async def created_object_gets_uid_version_and_time(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a", key="value"))
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert made["metadata"]["namespace"] == cluster.namespace
    assert (made["apiVersion"], made["kind"], made["data"]) == ("v1", "ConfigMap", {"key": "value"})
    assert await cluster.get(CONFIG_MAPS, "a") == made


@case
async def taken_name_is_refused(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await refused(
        AlreadyExistsError, cluster.create(CONFIG_MAPS, cluster.config_map("a", other="value"))
    )


@case
async def namespace_must_be_there(cluster: Cluster) -> None:
    creating = cluster.kube.create(CONFIG_MAPS, f"not-{cluster.namespace}", cluster.config_map("a"))
    await refused(NotFoundError, creating, "namespaces")


@case
async def name_can_be_generated(cluster: Cluster) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "part-"}}
    names = {(await cluster.create(CONFIG_MAPS, body))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("part-") and len(name) == 10 for name in names)


@case
async def bad_names_and_labels_are_refused(cluster: Cluster) -> None:
    for name in ("Upper", "under_score", "-dash", "a" * 254):
        await refused(InvalidError, cluster.create(CONFIG_MAPS, cluster.config_map(name)))
    for labels in ({"key": "a b"}, {"key": "v" * 64}, {"a/b/c": ""}, {"-": "x"}):
        await refused(InvalidError, cluster.create(CONFIG_MAPS, cluster.config_map("a", labels)))
    service = manifest(SERVICES, "0-digit-first", spec={"ports": [{"port": 80}]})
    if cluster.minor < 36:  # from then on any DNS label will do
        await refused(InvalidError, cluster.create(SERVICES, service))


@case
async def what_is_not_there_is_not_found(cluster: Cluster) -> None:
    await refused(NotFoundError, cluster.get(CONFIG_MAPS, "a"))
    patch = cluster.kube.replace(CONFIG_MAPS, cluster.namespace, "a", cluster.config_map("a"))
    await refused(NotFoundError, patch)
    await refused(
        NotFoundError,
        cluster.kube.list(Resource("example.org", "v1", "things", "Thing"), cluster.namespace),
    )


@case
async def body_of_another_name_or_kind_is_refused(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    other = cluster.config_map("b")
    await refused(BadRequestError, cluster.kube.replace(CONFIG_MAPS, cluster.namespace, "a", other))
    await refused(BadRequestError, cluster.create(CONFIG_MAPS, manifest(PODS, "c")))


@case
async def every_change_raises_the_version(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    changed = await cluster.kube.replace(
        CONFIG_MAPS, cluster.namespace, "a", {**made, "data": {"key": "value"}}
    )
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]


@case
async def change_of_nothing_keeps_the_version(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a", key="value"))
    again = await cluster.kube.replace(CONFIG_MAPS, cluster.namespace, "a", made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@case
async def replacing_an_old_version_conflicts(cluster: Cluster) -> None:
    old = await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await cluster.kube.replace(CONFIG_MAPS, cluster.namespace, "a", {**old, "data": {"key": "1"}})
    stale = cluster.kube.replace(CONFIG_MAPS, cluster.namespace, "a", {**old, "data": {"key": "2"}})
    await refused(ConflictError, stale, "modified")


@case
async def replacing_without_a_version_is_up_to_the_kind(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    changed = await cluster.kube.replace(
        CONFIG_MAPS, cluster.namespace, "a", cluster.config_map("a", key="value")
    )
    assert changed["data"] == {"key": "value"}
    await cluster.create(LEASES, manifest(LEASES, "lease", spec={"holderIdentity": "a"}))
    lease = manifest(LEASES, "lease", spec={"holderIdentity": "b"})
    await refused(InvalidError, cluster.kube.replace(LEASES, cluster.namespace, "lease", lease))


@case
async def replacing_another_uid_conflicts(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    metadata = {**made["metadata"], "uid": "00000000-0000-4000-8000-000000000000"}
    del metadata["resourceVersion"]
    other = cluster.kube.replace(
        CONFIG_MAPS, cluster.namespace, "a", {**made, "metadata": metadata}
    )
    await refused(ConflictError, other)


@case
async def lease_is_renewed_by_one_holder_at_a_time(cluster: Cluster) -> None:
    spec = {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-11-21T07:36:00.000000Z",
    }
    lease = await cluster.create(LEASES, manifest(LEASES, "leader", spec=spec))
    mine = {**lease, "spec": {**spec, "renewTime": "2026-11-21T07:36:02.000000Z"}}
    theirs = {**lease, "spec": {**spec, "holderIdentity": "b"}}
    renewed = await cluster.kube.replace(LEASES, cluster.namespace, "leader", mine)
    assert renewed["spec"]["renewTime"] == "2026-11-21T07:36:02.000000Z"
    await refused(ConflictError, cluster.kube.replace(LEASES, cluster.namespace, "leader", theirs))


@case
async def lease_is_put_where_there_is_none(cluster: Cluster) -> None:
    lease = manifest(LEASES, "leader", spec={"holderIdentity": "a"})
    made = await cluster.kube.replace(LEASES, cluster.namespace, "leader", lease)
    assert made["metadata"]["uid"]


@case
async def event_must_be_about_its_own_namespace(cluster: Cluster) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": cluster.namespace, "apiVersion": "v1"}
    event = manifest(
        EVENTS, "p.1", involvedObject=about, reason="Held", message="waits", type="Normal", count=1
    )
    assert (await cluster.create(EVENTS, event))["reason"] == "Held"
    elsewhere = {
        **event,
        "metadata": {"name": "p.2"},
        "involvedObject": {**about, "namespace": "elsewhere"},
    }
    await refused(InvalidError, cluster.create(EVENTS, elsewhere))


@case
async def service_gets_an_address_and_keeps_it(cluster: Cluster) -> None:
    service = manifest(SERVICES, "s", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
    made = await cluster.create(SERVICES, service)
    address = made["spec"]["clusterIP"]
    assert address.count(".") == 3
    assert made["spec"]["ports"][0]["targetPort"] == 80
    changed = await cluster.kube.replace(SERVICES, cluster.namespace, "s", service)
    assert changed["spec"]["clusterIP"] == address
    headless = manifest(SERVICES, "h", spec={"clusterIP": "None", "ports": [{"port": 80}]})
    assert (await cluster.create(SERVICES, headless))["spec"]["clusterIP"] == "None"


@case
async def cluster_scoped_objects_have_no_namespace(cluster: Cluster) -> None:
    name = f"class-of-{cluster.namespace}"
    made = await cluster.create(PRIORITY_CLASSES, manifest(PRIORITY_CLASSES, name, value=7))
    cluster.made.append((PRIORITY_CLASSES, name))
    assert "namespace" not in made["metadata"]
    assert (await cluster.kube.get(PRIORITY_CLASSES, None, name))["value"] == 7
