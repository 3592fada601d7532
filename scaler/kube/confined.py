"""A cluster to which only some writes are sent: a refused write never leaves the process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from scaler.kube.api import (
    ACCESS_REVIEWS,
    CONFIG_MAPS,
    LEASES,
    TOKEN_REVIEWS,
    KubeApi,
    Resource,
)
from scaler.kube.errors import status_error

T = TypeVar("T")
Sent = Coroutine[Any, Any, T]
Check = Callable[[str, Resource, str | None], None]
"""Called with verb, resource and namespace before a write; an error that it raises replaces the
write."""


class Guarded:
    """Sends every read, and the writes that `check` allows."""

    def __init__(self, api: KubeApi, check: Check) -> None:
        def checked(verb: str, send: Callable[..., Sent[T]]) -> Callable[..., Sent[T]]:
            async def write(
                resource: Resource, namespace: str | None, *args: Any, **options: Any
            ) -> T:
                check(verb, resource, namespace)
                return await send(resource, namespace, *args, **options)

            return write

        self.list = api.list
        self.watch = api.watch
        self.get = api.get
        self.create = checked("create", api.create)
        self.replace = checked("replace", api.replace)
        self.patch = checked("patch", api.patch)
        self.delete = checked("delete", api.delete)


def confined(api: KubeApi, home: str) -> KubeApi:
    """A cluster that is read only, except for ConfigMaps and Leases in `home`: other writes raise
    ForbiddenError."""

    def refuse_others(verb: str, resource: Resource, namespace: str | None) -> None:
        if namespace != home or resource not in (CONFIG_MAPS, LEASES):
            where = f"{resource.full_name} in {namespace or 'the cluster'}"
            raise status_error(
                403, "Forbidden", f"not sent: {verb} {where}; only {home} is written to"
            )

    return Guarded(api, refuse_others)


def only_reviews(api: KubeApi) -> KubeApi:
    """A cluster that is asked who has a token, and what somebody may do: other writes raise
    ForbiddenError."""

    def refuse_others(verb: str, resource: Resource, namespace: str | None) -> None:
        if verb != "create" or resource not in (TOKEN_REVIEWS, ACCESS_REVIEWS):
            where = f"{resource.full_name} in {namespace or 'the cluster'}"
            raise status_error(403, "Forbidden", f"not sent: {verb} {where}; only reviews are")

    return Guarded(api, refuse_others)
