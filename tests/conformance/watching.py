"""Watches: what they show, through which eyes, and how they end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from scaler.kube.api import CONFIG_MAPS, EventType, PatchType
from scaler.kube.errors import ExpiredError
from tests.conformance.harness import Cluster, case, refused


@case
async def watch_shows_what_happened_after_its_version_in_order(cluster: Cluster) -> None:
    await cluster.create(CONFIG_MAPS, cluster.config_map("before", {"w": ""}))
    version = await cluster.version(CONFIG_MAPS)
    made = await cluster.create(CONFIG_MAPS, cluster.config_map("a", {"w": ""}))
    changed = await cluster.kube.replace(
        CONFIG_MAPS, cluster.namespace, "a", {**made, "data": {"key": "value"}}
    )
    await cluster.kube.delete(CONFIG_MAPS, cluster.namespace, "a")
    added, modified, deleted = await cluster.events(CONFIG_MAPS, version, 3, label_selector="w")
    assert (added.type, added.object) == (EventType.ADDED, made)
    assert (modified.type, modified.object) == (EventType.MODIFIED, changed)
    assert deleted.type is EventType.DELETED
    assert deleted.object is not None
    assert deleted.object["data"] == {"key": "value"}
    assert (
        int(version)
        < int(added.resource_version)
        < int(modified.resource_version)
        < int(deleted.resource_version)
    )


@case
async def watch_shows_what_happens_while_it_is_open(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    watching = asyncio.create_task(cluster.events(CONFIG_MAPS, version, 2))
    await asyncio.sleep(0.05)
    for name in "ab":
        await cluster.create(CONFIG_MAPS, cluster.config_map(name))
    assert [event.object["metadata"]["name"] for event in await watching if event.object] == [
        "a",
        "b",
    ]


@case
async def event_carries_the_version_of_its_object(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    await cluster.kube.delete(CONFIG_MAPS, cluster.namespace, "a")
    for event in await cluster.events(CONFIG_MAPS, version, 2):
        assert event.object is not None
        assert event.object["metadata"]["resourceVersion"] == event.resource_version


@case
async def object_enters_and_leaves_a_selector(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    await cluster.create(CONFIG_MAPS, cluster.config_map("a", {"side": "left"}))
    for side in ("right", "right", "left"):
        patch = {"metadata": {"labels": {"side": side}}, "data": {"key": side}}
        await cluster.kube.patch(
            CONFIG_MAPS, cluster.namespace, "a", patch, patch_type=PatchType.MERGE
        )
    await cluster.kube.delete(CONFIG_MAPS, cluster.namespace, "a")
    left = await cluster.events(CONFIG_MAPS, version, 4, label_selector="side=left")
    assert [event.type for event in left] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    right = await cluster.events(CONFIG_MAPS, version, 2, label_selector="side=right")
    assert [event.type for event in right] == ["ADDED", "DELETED"]
    assert left[1].object is not None
    assert left[1].object["metadata"]["resourceVersion"] == left[1].resource_version


@case
async def one_object_can_be_watched(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    for name in "abab":
        body = {"metadata": {"labels": {name: "x"}}}
        if name not in {item["metadata"]["name"] for item in (await _items(cluster))}:
            await cluster.create(CONFIG_MAPS, cluster.config_map(name))
        await cluster.kube.patch(
            CONFIG_MAPS, cluster.namespace, name, body, patch_type=PatchType.MERGE
        )
    events = await cluster.events(CONFIG_MAPS, version, 2, field_selector="metadata.name=b")
    assert [(event.type, event.object["metadata"]["name"]) for event in events if event.object] == [
        ("ADDED", "b"),
        ("MODIFIED", "b"),
    ]


async def _items(cluster: Cluster) -> list[dict[str, dict[str, str]]]:
    return (await cluster.kube.list(CONFIG_MAPS, cluster.namespace)).items


@case
async def watch_from_a_forgotten_version_has_expired(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    cluster.forget_history()
    await refused(ExpiredError, cluster.events(CONFIG_MAPS, version, 1))


@case
async def watch_ends_by_itself_when_its_time_is_up(cluster: Cluster) -> None:
    version = await cluster.version(CONFIG_MAPS)
    watch = cluster.kube.watch(
        CONFIG_MAPS, cluster.namespace, resource_version=version, timeout_seconds=1
    )
    async with asyncio.timeout(10), aclosing(watch) as stream:
        events = [event async for event in stream]
    assert all(event.type is EventType.BOOKMARK for event in events)


@case
async def bookmark_tells_a_version_to_go_on_from(cluster: Cluster) -> None:
    """Of a watch during which something happened: others got none from real API servers."""
    version = await cluster.version(CONFIG_MAPS)
    watch = cluster.kube.watch(
        CONFIG_MAPS, cluster.namespace, resource_version=version, timeout_seconds=130
    )
    await cluster.create(CONFIG_MAPS, cluster.config_map("a"))
    async with asyncio.timeout(130), aclosing(watch) as stream:
        async for event in stream:
            if event.type is EventType.BOOKMARK:
                break
            if event.object is not None and event.object["metadata"]["name"] == "a":
                await cluster.create(CONFIG_MAPS, cluster.config_map("b"))
    assert event.object is None
    assert int(event.resource_version) > int(version)
    await cluster.create(CONFIG_MAPS, cluster.config_map("c"))
    following = await cluster.events(CONFIG_MAPS, event.resource_version, 1)
    assert [event.object["metadata"]["name"] for event in following if event.object] == ["c"]
