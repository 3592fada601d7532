"""Kinds that are not installed: wait for their definition instead of listing their objects again
and again.

Without the right to list and watch customresourcedefinitions by these names, the caller's own
pauses are all."""

from __future__ import annotations

from contextlib import aclosing
from enum import Enum
from typing import NamedTuple

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


class Definition(Enum):
    NOT_KNOWN = "built in, or could not be read"
    FORBIDDEN = "may not be read"
    MISSING = "there is none"
    NOT_SERVED = "there is one, without the version that is read here"
    SERVED = "serves the version that is read here"


class ReadDefinition(NamedTuple):
    """What was read of a definition; `version` is the resourceVersion of that answer."""

    definition: Definition
    version: str = ""


async def read_definition(api: KubeApi, resource: Resource) -> ReadDefinition:
    """Never raises an error of the seam."""
    if "." not in resource.group:
        return ReadDefinition(Definition.NOT_KNOWN)  # built in
    try:
        page = await api.list(
            CUSTOM_RESOURCE_DEFINITIONS, field_selector=_selector(resource), decode=_Definition
        )
    except ForbiddenError:
        return ReadDefinition(Definition.FORBIDDEN)
    except KubeError:
        return ReadDefinition(Definition.NOT_KNOWN)
    for item in page.items:
        if _Version(resource.version, True) in item.spec.versions:
            # an API server that has just started may need a moment
            return ReadDefinition(Definition.SERVED)
    definition = Definition.NOT_SERVED if page.items else Definition.MISSING
    return ReadDefinition(definition, page.resource_version)


async def definition_changed(api: KubeApi, resource: Resource, since: str, seconds: int) -> bool:
    """Wait for a change of the definition after the resourceVersion `since`: True after one, and
    when `seconds` have passed without an error. Never raises an error of the seam."""
    stream = api.watch(
        CUSTOM_RESOURCE_DEFINITIONS,
        resource_version=since,
        field_selector=_selector(resource),
        timeout_seconds=seconds,
        decode=_Definition,
    )
    try:
        async with aclosing(stream):
            async for event in stream:
                if event.object is not None:
                    return True
    except KubeError:
        return False
    return True


def _selector(resource: Resource) -> str:
    return f"metadata.name={resource.plural}.{resource.group}"
