"""The kinds that a service is made of, in the order of deletion, and what has to be installed for
each."""

from __future__ import annotations

from scaler.kube.api import (
    ASCEND_JOBS,
    CONFIG_MAPS,
    PRIORITY_CLASSES,
    SERVICES,
    Object,
    Resource,
)
from scaler.workloads import ascendjob, deployment, inferenceservice, stormservice

WORKLOADS = (inferenceservice.KIND, stormservice.KIND, ascendjob.KIND, deployment.KIND)
"""Kinds of workload that a short file becomes, in the order in which they are deleted."""
OWNERS = {kind.main.resource: kind for kind in WORKLOADS}
KINDS = (*OWNERS, SERVICES, CONFIG_MAPS, PRIORITY_CLASSES)
"""In the order in which they are deleted: owners of pods first."""

INSTALL = {
    **{one: kind.project for one, kind in OWNERS.items() if kind.project},
    ASCEND_JOBS: "Ascend Operator of MindCluster: its CustomResourceDefinition is enough",
}


def place_of(resource: Resource, namespace: str) -> str | None:
    """The namespace of objects of this kind, None for cluster-scoped kinds."""
    return namespace if resource.namespaced else None


class UnknownKindError(Exception):
    """A file gives an object of a kind that no command here can find again."""


def resource_of(obj: Object) -> Resource:
    """The resource of an object. Raises UnknownKindError."""
    for resource in KINDS:
        if (resource.api_version, resource.kind) == (obj.get("apiVersion"), obj.get("kind")):
            return resource
    raise UnknownKindError(
        f"{obj.get('apiVersion')} {obj.get('kind')} is no kind that a service is made of"
    )
