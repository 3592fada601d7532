"""Kinds that are not installed: wait for their definition instead of asking for their objects again and again.

Needs the right to list and watch customresourcedefinitions by these names. Without it there is nothing to wait for,
and the caller's own pauses are all. It decides nothing.
"""

from __future__ import annotations

import msgspec

from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, KubeApi, Resource, closing
from scaler.kube.errors import KubeError
from scaler.kube.metadata import Metadata


class _Definition(msgspec.Struct, gc=False):
    """Of a definition, which may have a megabyte, nothing but that it is there."""

    metadata: Metadata


async def definition_changed(api: KubeApi, resource: Resource, seconds: int) -> bool:
    """Whether something has happened to the definition of `resource`, or `seconds` have passed.

    False at once when it is there already (its kind is not served yet, or not in this version), and when there is
    nothing that could be watched.
    """
    if "." not in resource.group:
        return False  # built in
    selector = f"metadata.name={resource.plural}.{resource.group}"
    try:
        page = await api.list(CUSTOM_RESOURCE_DEFINITIONS, field_selector=selector, decode=_Definition)
        if page.items:
            return False
        stream = api.watch(
            CUSTOM_RESOURCE_DEFINITIONS, resource_version=page.resource_version, field_selector=selector,
            timeout_seconds=seconds, decode=_Definition,
        )  # fmt: skip
        async with closing(stream):
            async for event in stream:
                if event.object is not None:
                    return True
    except KubeError:
        return False
    return True
