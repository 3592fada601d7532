"""Finds the objects of a service in the cluster: all that were made for it, whatever its file says
now. Reads only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from scaler.kube.api import CONFIG_MAPS, KubeApi, Object, Page, Resource
from scaler.kube.errors import ForbiddenError, KubeError, NotFoundError, TooManyRequestsError
from scaler.names import MANAGED_BY_LABEL
from scaler.tools.common.lists import Send, every, with_kind
from scaler.tools.deploy.kinds import KINDS, place_of
from scaler.tools.deploy.objects import (
    MANAGER,
    NAMESPACE_LABEL,
    SERVICE_LABEL,
    is_made_for,
    selector_of,
)
from scaler.tools.deploy.refusals import is_unknown_kind

MOST = 500
"""Objects of one kind that are read to find other namespaces."""
TRIES = 10
PAUSE = 1.0
"""Requests to a busy API server, and seconds between them."""


class Found(NamedTuple):
    """One existing object."""

    resource: Resource
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


class Inventory(NamedTuple):
    """All objects made for a service, in the order of KINDS; `missing` kinds are not installed,
    `forbidden` ones may not be read."""

    found: tuple[Found, ...]
    missing: tuple[Resource, ...] = ()
    forbidden: tuple[Resource, ...] = ()

    def notes(self) -> list[str]:
        """Kinds that may have objects which are not seen."""
        names = ", ".join(resource.full_name for resource in self.forbidden)
        return (
            [f"you may not list {names}: what of these was made for the service is not known"]
            if names
            else []
        )


async def inventory(api: KubeApi, service: str, namespace: str) -> Inventory:
    """The objects of a service. Raises KubeError without an answer, ForbiddenError if nothing may
    be read."""
    answers = await asyncio.gather(
        *(_of_kind(api, resource, service, namespace) for resource in KINDS), return_exceptions=True
    )
    found = []
    missing = []
    forbidden = []
    refusal = None
    for resource, answer in zip(KINDS, answers, strict=True):
        if isinstance(answer, ForbiddenError):
            forbidden.append(resource)
            refusal = refusal or answer
        elif isinstance(answer, KubeError) and is_unknown_kind(answer):
            missing.append(resource)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found += answer
    if refusal is not None and len(forbidden) + len(missing) == len(KINDS):
        raise refusal
    return Inventory(tuple(found), tuple(missing), tuple(forbidden))


async def _of_kind(api: KubeApi, resource: Resource, service: str, namespace: str) -> list[Found]:
    found: list[Found] = []
    objects = every(
        api,
        resource,
        place_of(resource, namespace),
        label_selector=selector_of(service, namespace),
        request=_while_busy,
    )
    async for item in objects:
        if is_made_for(item, service, namespace):
            found.append(Found(resource, with_kind(resource, item)))
    return found


async def elsewhere(api: KubeApi, service: str) -> list[str]:
    """Other namespaces with objects of a service of this name, as far as they are readable."""
    found = set()
    for resource in KINDS:
        with suppress(KubeError):
            selector = f"{MANAGED_BY_LABEL}={MANAGER},{SERVICE_LABEL}={service}"
            page = await api.list(resource, label_selector=selector, limit=MOST)
            found |= {str(item["metadata"]["labels"].get(NAMESPACE_LABEL)) for item in page.items}
    return sorted(found)


async def _while_busy(send: Send) -> Page[Object]:
    """One page; requested again while the API server is busy: for a moment, it answers so about a
    new kind."""
    for _ in range(TRIES - 1):
        with suppress(TooManyRequestsError):
            return await send()
        await asyncio.sleep(PAUSE)
    return await send()


async def look(api: KubeApi, resource: Resource, namespace: str | None, name: str) -> Object | None:
    """The present object; None when there is no such object or kind. Raises KubeError."""
    try:
        return await api.get(resource, namespace, name)
    except NotFoundError:
        return None


async def not_there(api: KubeApi, namespace: str, objects: Iterable[Object]) -> list[str]:
    """A line with the ConfigMaps that pods of these objects need and that neither exist nor are
    among the objects."""
    objects = list(objects)
    made = set()
    needed: set[str] = set()
    for one in objects:
        needed.update(_needed(one))
        if one.get("kind") == CONFIG_MAPS.kind:
            made.add(one["metadata"]["name"])
    names = sorted(needed - made)
    with suppress(KubeError):  # without the right to read them the answer is unknown
        lacking = [name for name in names if await look(api, CONFIG_MAPS, namespace, name) is None]
        if lacking:
            wait = "pods wait in ContainerCreating until somebody makes the ConfigMaps"
            return [f"{wait} {', '.join(lacking)}"]
    return []


def _needed(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for one in part:
            yield from _needed(one)
    elif isinstance(part, dict):
        for key, value in part.items():
            if (
                key in ("configMap", "configMapRef")
                and isinstance(value, dict)
                and not value.get("optional")
            ):
                if isinstance(value.get("name"), str):
                    yield value["name"]
            else:
                yield from _needed(value)
