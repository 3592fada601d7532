"""Has the caller the rights for all steps? Checked before any change: half an uninstall would leave
pods held."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scaler.kube.api import (
    DEPLOYMENTS,
    OWN_ACCESS_REVIEWS,
    PODS,
    VALIDATING_POLICIES,
    KubeApi,
    Object,
    Resource,
)
from scaler.kube.errors import NotFoundError
from scaler.rules.values import at
from scaler.tools.common.lists import every
from scaler.tools.uninstall.install import Install

_GATES = Resource("mind-cluster", "", "gates", "")
"""Not a resource of any API: the gate guard checks the right to it."""
_GUARD = "group('mind-cluster')"


class Right(msgspec.Struct, frozen=True):
    """One required right; `namespace` "" for all."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""

    @property
    def words(self) -> str:
        if self.namespace:
            where = f" in {self.namespace}"
        elif self.resource.namespaced:
            where = " in all namespaces"
        else:
            where = ""
        return f"{self.verb} {self.resource.full_name}{f' {self.name}' if self.name else ''}{where}"


async def missing(
    api: KubeApi, install: Install, admission: Iterable[tuple[Resource, Object]], *, releases: bool
) -> list[str]:
    """The missing rights, in words. Raises KubeError."""
    wanted = []
    for resource, one in admission:
        wanted.append(Right("delete", resource, name=one["metadata"]["name"]))
    for one in install.deployments:
        wanted.append(Right("patch", DEPLOYMENTS, install.namespace, one["metadata"]["name"]))
    for verb in ("list", "create"):
        for namespace in install.governs or ("",):
            wanted.append(Right(verb, PODS, namespace))
    if releases:
        wanted += [Right("patch", PODS, namespace) for namespace in install.governs or ("",)]
        if await _is_guarded(api):
            for namespace in install.governs or ("",):
                wanted.append(Right("release", _GATES, namespace))
    found: list[str] = []
    for right in wanted:
        if not await _is_allowed(api, right):
            found.append(right.words)
    return found


async def _is_guarded(api: KubeApi) -> bool:
    try:
        found = []
        async for one in every(api, VALIDATING_POLICIES):
            found.append(msgspec.json.encode(one).decode())
    except NotFoundError:
        return False
    return any(_GUARD in text for text in found)


async def _is_allowed(api: KubeApi, right: Right) -> bool:
    """Whether the caller has the right; True without access reviews: then the request itself is
    refused."""
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": right.resource.plural,
        "namespace": right.namespace,
        "name": right.name,
    }
    kind = {"apiVersion": OWN_ACCESS_REVIEWS.api_version, "kind": OWN_ACCESS_REVIEWS.kind}
    try:
        review = await api.create(
            OWN_ACCESS_REVIEWS, None, {**kind, "spec": {"resourceAttributes": attributes}}
        )
    except NotFoundError:
        return True
    return bool(at(review, "status").get("allowed"))
