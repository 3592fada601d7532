"""Lists: selectors, pages, and versions that are too old or too new."""

from __future__ import annotations

from typing import Any

import msgspec

from scaler.kube.api import ASCEND_JOBS, CONFIG_MAPS, EVENTS, PODS, KubeApi, Resource
from scaler.kube.errors import BadRequestError, ExpiredError, UnknownOutcomeError
from tests.conformance.harness import Cluster, case, refused
from tests.jobs import manifest


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] = {}


async def _names(cluster: Cluster, **how: Any) -> list[str]:
    page = await cluster.kube.list(CONFIG_MAPS, cluster.namespace, decode=_Named, **how)
    return [item.metadata.name for item in page.items if item.metadata.name != "kube-root-ca.crt"]


@case
async def labels_select(cluster: Cluster) -> None:
    for name, labels in (
        ("a", {"x": "1"}),
        ("b", {"x": "2", "y": ""}),
        ("c", {"y": "1"}),
        ("d", None),
    ):
        await cluster.create(CONFIG_MAPS, cluster.config_map(name, labels))
    for selector, wanted in (
        ("x=1", "a"),
        ("x==2", "b"),
        ("x!=1", "bcd"),
        ("x", "ab"),
        ("!x", "cd"),
        ("x in (1,2)", "ab"),
        ("x notin (1)", "bcd"),
        ("x,y", "b"),
        ("y=", "b"),
        ("x in (1, 2),y notin (1)", "ab"),
        ("z", ""),
        ("", "abcd"),
    ):
        assert "".join(await _names(cluster, label_selector=selector)) == wanted, selector
    await refused(BadRequestError, _names(cluster, label_selector="x in"))


@case
async def fields_select(cluster: Cluster) -> None:
    for name in "ab":
        await cluster.create(PODS, cluster.pod(name))
        about = {"kind": "Pod", "name": name, "namespace": cluster.namespace, "apiVersion": "v1"}
        await cluster.create(EVENTS, manifest(EVENTS, f"{name}.1", involvedObject=about))

    async def select(resource: Resource, wanted: dict[str, str]) -> None:
        for selector, names in wanted.items():
            page = await cluster.kube.list(resource, cluster.namespace, field_selector=selector)
            assert "".join(item["metadata"]["name"] for item in page.items) == names, selector

    await select(EVENTS, {"involvedObject.name=a,involvedObject.kind=Pod": "a.1"})
    await select(
        PODS, {"metadata.name=a": "a", "status.phase=Pending": "ab", "status.phase!=Pending": ""}
    )
    node = await cluster.node()
    await cluster.bind("b", node)  # from now on it may run at any moment
    await select(PODS, {f"spec.nodeName={node}": "b", "spec.nodeName=": "a"})
    await refused(
        BadRequestError, cluster.kube.list(PODS, cluster.namespace, field_selector="spec.unknown=a")
    )


@case
async def only_custom_objects_say_in_a_list_what_they_are(cluster: Cluster) -> None:
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a", {"l": "v"}, key="value"))
    job = await cluster.create(ASCEND_JOBS, cluster.job("j"))
    page = await cluster.kube.list(CONFIG_MAPS, cluster.namespace, label_selector="l")
    bare = {name: value for name, value in made.items() if name not in ("apiVersion", "kind")}
    assert page.items == [bare]
    assert (await cluster.kube.list(ASCEND_JOBS, cluster.namespace)).items == [job]
    assert int(page.resource_version) >= int(made["metadata"]["resourceVersion"])


@case
async def all_namespaces_can_be_listed(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("a", {"of": cluster.namespace}))
    page = await cluster.kube.list(CONFIG_MAPS, label_selector=f"of={cluster.namespace}")
    assert [item["metadata"]["namespace"] for item in page.items] == [cluster.namespace]


async def _rest(kube: KubeApi, namespace: str, token: str) -> tuple[list[str], set[str]]:
    names = []
    versions = set()
    while token:
        page = await kube.list(
            CONFIG_MAPS,
            namespace,
            limit=2,
            continue_token=token,
            label_selector="paged",
            decode=_Named,
        )
        names += [item.metadata.name for item in page.items]
        versions.add(page.resource_version)
        token = page.continue_token
    return names, versions


@case
async def pages_show_one_version_whatever_happens_meanwhile(cluster: Cluster) -> None:
    for name in "abcdefg":
        await cluster.create(CONFIG_MAPS, cluster.config_map(name, {"paged": ""}))
    first = await cluster.kube.list(CONFIG_MAPS, cluster.namespace, limit=2, label_selector="paged")
    assert [item["metadata"]["name"] for item in first.items] == ["a", "b"]
    await cluster.kube.delete(CONFIG_MAPS, cluster.namespace, "e")
    await cluster.create(CONFIG_MAPS, cluster.config_map("cc", {"paged": ""}))
    names, versions = await _rest(cluster.kube, cluster.namespace, first.continue_token)
    assert "".join(names) == "cdefg"
    assert versions == {first.resource_version}


@case
async def page_of_a_forgotten_version_has_expired(cluster: Cluster) -> None:
    for name in "abc":
        await cluster.create(CONFIG_MAPS, cluster.config_map(name))
    page = await cluster.kube.list(CONFIG_MAPS, cluster.namespace, limit=1)
    await cluster.create(CONFIG_MAPS, cluster.config_map("d"))
    cluster.forget_history()
    await refused(
        ExpiredError,
        cluster.kube.list(
            CONFIG_MAPS, cluster.namespace, limit=1, continue_token=page.continue_token
        ),
    )


@case
async def page_of_nonsense_is_a_bad_request(cluster: Cluster) -> None:
    for token in ("nonsense", "bm9uc2Vuc2U="):
        await refused(
            BadRequestError, cluster.kube.list(CONFIG_MAPS, cluster.namespace, continue_token=token)
        )


@case
async def version_of_the_future_is_no_answer(cluster: Cluster) -> None:
    future = str(int(await cluster.version(CONFIG_MAPS)) + 1_000_000)
    await refused(
        UnknownOutcomeError,
        cluster.kube.list(CONFIG_MAPS, cluster.namespace, resource_version=future),
    )
