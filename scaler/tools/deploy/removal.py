"""Deletes the objects of a service: owners of pods first, the rule last; waits, and says why an
object is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from scaler.kube.api import NAMESPACES, PODS, KubeApi, Object
from scaler.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError
from scaler.names import MANAGED_BY_LABEL
from scaler.rules.values import as_list, as_text, at
from scaler.tools.common.console import clean
from scaler.tools.deploy.inventory import Found, look
from scaler.tools.deploy.kinds import place_of
from scaler.tools.deploy.objects import MANAGER
from scaler.tools.deploy.pods import pods_of

PATIENCE = 60.0
"""Seconds until the objects of a failed apply must be gone."""
EVERY = 1.0
"""Seconds between two reads."""


async def remove(api: KubeApi, found: Iterable[Found], namespace: str) -> dict[str, str]:
    """Delete these objects, each only in the version that was seen. Returns those that failed, each
    with the reason."""
    left = {}
    for one in found:
        try:
            await api.delete(
                one.resource,
                place_of(one.resource, namespace),
                one.name,
                uid=str(one.object["metadata"]["uid"]),
                propagation_policy="Background",
            )
        except (NotFoundError, ConflictError):  # gone, or replaced by another one
            continue
        except KubeError as error:
            left[str(one)] = clean(error)
    return left


async def until_gone(
    api: KubeApi, found: Sequence[Found], namespace: str, seconds: float
) -> list[Found]:
    """The objects that still exist after so many seconds, as they are then, with their pods. Raises
    KubeError."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        left = []
        for one in found:
            again = await _again(api, one, namespace)
            if again is not None:
                left.append(again)
        left += await _pods(api, found, namespace)
        if not left or loop.time() >= deadline:
            return left
        await asyncio.sleep(EVERY)


async def _again(api: KubeApi, one: Found, namespace: str) -> Found | None:
    now = await look(api, one.resource, place_of(one.resource, namespace), one.name)
    same = now is not None and now["metadata"]["uid"] == one.object["metadata"]["uid"]
    return one._replace(object=now) if now is not None and same else None


async def _pods(api: KubeApi, found: Sequence[Found], namespace: str) -> list[Found]:
    try:
        pods: list[Object] = (await api.list(PODS, namespace)).items
    except ForbiddenError:
        return []
    made = pods_of(((one.resource, one.object) for one in found), pods)
    result: list[Found] = []
    for some in made.values():
        for pod in some:
            result.append(Found(PODS, pod))
    return result


async def kept_namespace(api: KubeApi, name: str) -> list[str]:
    """A note that a namespace made by an apply stays: others may have created objects in it
    since."""
    with suppress(KubeError):
        found = await api.get(NAMESPACES, None, name)
        if at(found, "metadata", "labels").get(MANAGED_BY_LABEL) == MANAGER:
            return [
                f"Namespace {name} stays; if nobody else uses it: kubectl delete namespace {name}"
            ]
    return []


def why_left(one: Found) -> str:
    """Why the object still exists, as far as it shows that."""
    metadata = at(one.object, "metadata")
    spec = at(one.object, "spec")
    since = as_text(metadata.get("deletionTimestamp"))
    if not since:
        return (
            "its owner has not deleted it yet"
            if one.resource == PODS
            else "it is not being deleted"
        )
    finalizers = as_list(metadata.get("finalizers"))
    if finalizers:
        return f"being deleted since {clean(since)}; waits for {', '.join(map(clean, finalizers))}"
    if node := as_text(spec.get("nodeName")):
        return (
            f"being deleted since {clean(since)}; its node {clean(node)} has not said that it ended"
        )
    return f"being deleted since {clean(since)}"
