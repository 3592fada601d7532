"""A cluster as it was read once, for the checks. Values only; the content of an object may be from
any tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from scaler.kube.api import DEPLOYMENTS, NAMESPACES, Object, Resource
from scaler.names import INSTALL_LABEL
from scaler.rules.finding import Finding
from scaler.rules.values import as_list, as_text, at
from scaler.settings import Settings
from scaler.tools.common.leader import USUAL, Leaders

_NAME_LABEL = "app.kubernetes.io/name"
_NAME = "mind-cluster-scaler"


class Right(NamedTuple):
    """A request that a user may or may not make. `namespace` "": in all; `resource` with its
    subresource."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


class Install(msgspec.Struct, frozen=True):
    """A scaler's Deployment. `settings` are those of its container; None if they are invalid, and
    `wrong` says why."""

    namespace: str
    name: str
    account: str
    settings: Settings | None
    wrong: str
    image: str
    replicas: int
    ready: int
    helm: bool = False
    created: float = 0.0
    """Seconds since the epoch."""

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"


class Linted(msgspec.Struct, frozen=True):
    """The findings of lint about the rules and workloads in the cluster."""

    checked: Mapping[str, int] = {}
    findings: tuple[Finding, ...] = ()
    left_out: int = 0
    """Workloads over the limit, which were not checked."""
    has_rules: bool = True
    """All ConfigMaps in the namespaces of the workloads could be read."""


class Picture(msgspec.Struct, frozen=True):
    """`found`: the listed objects, by resource. `unread`: why a resource could not be listed."""

    version: str = ""
    """Of Kubernetes: v1.35.3; "" if unknown."""
    now: float = 0.0
    found: Mapping[Resource, tuple[Object, ...]] = {}
    unread: Mapping[Resource, str] = {}
    missing: frozenset[Resource] = frozenset()
    """Resources that the API server does not have."""
    leaders: Leaders = Leaders()
    installs: tuple[Install, ...] = ()
    rights: Mapping[tuple[str, Right], bool | None] = {}
    """By user ("" is the caller): allowed, not allowed, or unknown."""
    linted: Linted = Linted()
    namespace: str = ""
    """The only namespace whose services are checked; "" is all."""

    def of(self, resource: Resource) -> tuple[Object, ...]:
        return self.found.get(resource, ())

    @property
    def minor(self) -> int | None:
        """35 for v1.35.3; None if unknown."""
        parts = self.version.removeprefix("v").split(".")
        digits = parts[1].rstrip("+") if len(parts) > 1 else ""
        return int(digits) if digits.isdecimal() else None

    def deployments(self, name: str) -> list[Object]:
        """The Deployments of this name, in any namespace."""
        return [one for one in self.of(DEPLOYMENTS) if name_of(one) == name]


def name_of(obj: Object) -> str:
    return as_text(at(obj, "metadata").get("name"))


def namespace_of(obj: Object) -> str:
    return as_text(at(obj, "metadata").get("namespace"))


def labels_of(obj: Object) -> Mapping[str, object]:
    return at(obj, "metadata", "labels")


def place_of(obj: Object) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}"


def container_of(deployment: Object) -> Mapping[str, object]:
    """The first container of its template."""
    containers = as_list(at(deployment, "spec", "template", "spec").get("containers"))
    return at(containers[0]) if containers else {}


def image_version(deployment: Object) -> str:
    """The tag of its image, "" without a tag or with a digest."""
    return tag_of(as_text(container_of(deployment).get("image")))


def tag_of(image: str) -> str:
    """The tag of an image, "" without one, or with a digest, beside which a tag has no meaning."""
    return "" if "@" in image else image.rpartition("/")[2].partition(":")[2]


def homes(picture: Picture) -> set[str]:
    """Namespaces that an administrator has labelled as an install's own, and the usual one."""
    return {name_of(one) for one in picture.of(NAMESPACES) if INSTALL_LABEL in labels_of(one)} | {
        USUAL
    }


def scalers(picture: Picture) -> list[Object]:
    """Deployments of scalers; one with the same label in another namespace is a tenant's."""
    known = homes(picture)
    found: list[Object] = []
    for one in picture.of(DEPLOYMENTS):
        if (
            namespace_of(one) in known
            and at(one, "spec", "template", "metadata", "labels").get(_NAME_LABEL) == _NAME
        ):
            found.append(one)
    return found
