"""A confined client reads everything and writes ConfigMaps and Leases of one namespace; nothing
else leaves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from scaler.clock import Clock
from scaler.kube.api import (
    CONFIG_MAPS,
    ELASTIC_SERVICES,
    EVENTS,
    LEASES,
    PODS,
    TOKEN_REVIEWS,
    KubeApi,
    PatchType,
    Resource,
)
from scaler.kube.confined import confined, only_reviews
from scaler.kube.errors import ForbiddenError
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START
from tests.jobs import manifest

HOME = "home"
FOREIGN = [
    (PODS, "home"),
    (EVENTS, "home"),
    (ELASTIC_SERVICES, "home"),
    (CONFIG_MAPS, "mindie"),
    (LEASES, "kube-system"),
    (CONFIG_MAPS, None),
]


def writes(
    api: KubeApi, resource: Resource, namespace: str | None
) -> dict[str, Callable[[], Awaitable[object]]]:
    body = manifest(resource, "one", namespace or "")
    patch = {"metadata": {"labels": {"a": "b"}}}
    return {
        "create": lambda: api.create(resource, namespace, body),
        "replace": lambda: api.replace(resource, namespace, "one", body),
        "status": lambda: api.replace(resource, namespace, "one", body, subresource="status"),
        "patch": lambda: api.patch(resource, namespace, "one", patch, patch_type=PatchType.MERGE),
        "delete": lambda: api.delete(resource, namespace, "one"),
    }


@pytest.mark.parametrize("verb", ["create", "replace", "status", "patch", "delete"])
@pytest.mark.parametrize(
    ("resource", "namespace"), FOREIGN, ids=lambda part: getattr(part, "plural", part)
)
def test_no_write_of_anything_else_is_sent(
    resource: Resource, namespace: str | None, verb: str
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        with pytest.raises(ForbiddenError, match=r"not sent: .*; only home is written to"):
            await writes(confined(cluster.client("shadow"), HOME), resource, namespace)[verb]()
        assert cluster.writes("shadow") == []

    loop.run(story())


@pytest.mark.parametrize("resource", [CONFIG_MAPS, LEASES], ids=lambda resource: resource.plural)
def test_its_own_are_made_changed_read_and_deleted(resource: Resource) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        api = confined(cluster.client("shadow"), HOME)
        calls = writes(api, resource, HOME)
        for verb in ("create", "patch"):
            await calls[verb]()
        await api.replace(resource, HOME, "one", await api.get(resource, HOME, "one"))
        assert [found["metadata"]["name"] for found in (await api.list(resource)).items] == ["one"]
        assert (await api.get(resource, HOME, "one"))["kind"] == resource.kind
        await calls["delete"]()
        assert [write.error for write in cluster.writes("shadow")] == [""] * 4

    loop.run(story())


@pytest.mark.parametrize("verb", ["create", "replace", "status", "patch", "delete"])
@pytest.mark.parametrize("resource", [CONFIG_MAPS, TOKEN_REVIEWS], ids=lambda kind: kind.plural)
def test_who_only_asks_for_reviews_writes_nothing_else(resource: Resource, verb: str) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(START))
        api = only_reviews(cluster.client("metrics"))
        if (resource, verb) == (TOKEN_REVIEWS, "create"):
            asked = await api.create(resource, None, {"spec": {"token": "wrong"}})
            assert not asked["status"].get("authenticated")
        else:
            with pytest.raises(ForbiddenError, match=r"not sent: .*; only reviews are"):
                await writes(api, resource, HOME)[verb]()
        assert cluster.writes("metrics") == []

    loop.run(story())
