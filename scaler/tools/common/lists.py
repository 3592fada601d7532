"""Reads a list page by page: the answer about a large cluster does not fit into one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from scaler.kube.api import KubeApi, Object, Page, Resource

PAGE = 500
"""Objects on one page."""
Send = Callable[[], Awaitable[Page[Any]]]
"""Requests one page; each call is one request."""


async def _once(send: Send) -> Page[Any]:
    return await send()


async def every(
    api: KubeApi,
    resource: Resource,
    namespace: str | None = None,
    *,
    request: Callable[[Send], Awaitable[Page[Any]]] = _once,
    **options: Any,
) -> AsyncGenerator[Any, None]:
    """Every object of a kind, in a namespace or in all. `options` are those of `KubeApi.list`.
    `request` sends the request for a page: within a deadline, or again. Raises KubeError."""
    token = ""

    def send() -> Awaitable[Page[Any]]:
        return api.list(resource, namespace, limit=PAGE, continue_token=token, **options)

    while True:
        page = await request(send)
        for item in page.items:
            yield item
        token = page.continue_token
        if not token:
            return


def with_kind(resource: Resource, item: Object) -> Object:
    """An object of a list with its kind, which the API server leaves out there."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **item}
