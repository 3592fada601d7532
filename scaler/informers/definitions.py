"""Kinds that are not installed: wait for their definition instead of listing their objects again
and again.

Without the right to list and watch customresourcedefinitions by these names, the caller's own
pauses are all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import msgspec

from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, KubeApi, Resource
from scaler.kube.errors import ForbiddenError, KubeError
from scaler.kube.metadata import Metadata


class _Version(msgspec.Struct, gc=False):
    name: str = ""
    served: bool = False


class _Spec(msgspec.Struct, gc=False):
    versions: tuple[_Version, ...] = ()


class _Definition(msgspec.Struct, gc=False):
    """The parts of a definition that are read. A whole definition may have a megabyte."""

    metadata: Metadata
    spec: _Spec


async def definition_changed(
    api: KubeApi, resource: Resource, seconds: int, on_absent: Callable[[bool], None]
) -> bool:
    """Whether something has happened to the definition of `resource`, or `seconds` have passed.
    False at once when that cannot be waited for, and when the resource is defined: an API server
    that has just started may need a moment.

    `on_absent` is called when it is not served, or when that may not be read; with True when there
    is no definition."""
    if "." not in resource.group:
        return False  # built in
    selector = f"metadata.name={resource.plural}.{resource.group}"
    try:
        page = await api.list(
            CUSTOM_RESOURCE_DEFINITIONS, field_selector=selector, decode=_Definition
        )
        if any(
            version == _Version(resource.version, True)
            for item in page.items
            for version in item.spec.versions
        ):
            return False
        on_absent(not page.items)
        stream = api.watch(
            CUSTOM_RESOURCE_DEFINITIONS,
            resource_version=page.resource_version,
            field_selector=selector,
            timeout_seconds=seconds,
            decode=_Definition,
        )
        async with aclosing(stream):
            async for event in stream:
                if event.object is not None:
                    return True
    except ForbiddenError:
        on_absent(False)
        return False
    except KubeError:
        return False
    return True
