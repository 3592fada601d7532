"""Common parts of the objects that controllers make: names, owners, pods from templates, PodGroups,
numbers.

Written from the descriptions of the real controllers and independent of scaler.workloads: stand-ins
judge the scaler. Pure."""

from __future__ import annotations

import copy
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, Object, Resource
from scaler.sim.actors import objects

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def digest(value: Any, length: int = 10) -> str:
    """A short name for a value: the same for equal values, in the letters that Kubernetes uses for
    such names."""
    encoded = msgspec.json.encode(value, order="deterministic")
    drawn = hashlib.sha256(encoded).digest()[:length]
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in drawn)


def shortened(name: str, longest: int = 63) -> str:
    """The name; if it is too long, its beginning and a hash of the whole."""
    return name if len(name) <= longest else f"{name[: longest - 11]}-{digest(name)}"


class Owner(NamedTuple):
    """The controlling owner of an object to make. Objects of a list do not say their kind."""

    object: Object
    resource: Resource

    @property
    def reference(self) -> Object:
        """The owner as an entry of ownerReferences."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": objects.name(self.object),
            "uid": objects.uid(self.object),
            "controller": True,
            "blockOwnerDeletion": True,
        }


def body_of(
    resource: Resource,
    name: str,
    owner: Owner,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **rest: Any,
) -> Object:
    """An object to create in the owner's namespace; a name that ends in `-` is a generateName.
    `rest`: spec etc."""
    naming = {"generateName": name} if name.endswith("-") else {"name": name}
    metadata: Object = {
        **naming,
        "namespace": objects.namespace(owner.object),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": [owner.reference],
    }
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}


def marked(
    template: Object,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A copy of a pod template with these labels and annotations in place of its own."""
    made = copy.deepcopy(template)
    metadata = made.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **(labels or {})}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **(annotations or {})}
    return made


def pod_of(
    template: Object,
    name: str,
    owner: Owner,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod from a template, with these labels and annotations in place of its own."""
    made = marked(template, labels, annotations)
    whole = {**(made.get("spec") or {}), **spec}
    return body_of(PODS, name, owner, **made["metadata"], spec=whole)


def pod_group(
    name: str,
    owner: Owner,
    members: Iterable[Object],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """The PodGroup of pods, or templates, that start together. None values in `spec` are left
    out."""
    parts = list(members)
    total: dict[str, float] = defaultdict(float)
    for part in parts:
        for resource, amount in objects.requests(part).items():
            total[resource] += amount
    total.pop("pods", None)
    resources = {}
    for resource, amount in total.items():
        whole_number = amount.is_integer()
        resources[resource] = str(int(amount)) if whole_number else f"{round(amount * 1000)}m"
    whole = {"minMember": len(parts), "minResources": resources, **spec}
    return body_of(
        POD_GROUPS,
        name,
        owner,
        labels=labels,
        annotations=annotations,
        spec={key: value for key, value in whole.items() if value is not None},
    )


def add_environment(pod_spec: Object, variables: Mapping[str, str], *, first: bool = False) -> None:
    """Adds variables to every container, in place; an existing variable is replaced."""
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for container in pod_spec.get("containers") or []:
        before = container.get("env") or []
        kept = [variable for variable in before if variable.get("name") not in variables]
        container["env"] = [*added, *kept] if first else [*kept, *added]


def with_prefix(marks: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The labels or annotations whose key begins with the prefix."""
    return {key: value for key, value in marks.items() if key.startswith(prefix)}


def active(pod: Object) -> bool:
    """Whether the pod counts as a replica: neither ended nor terminating."""
    return not objects.ended(pod) and not objects.terminating(pod)


def ready(pod: Object) -> bool:
    """Whether the pod runs, is Ready and is not terminating."""
    return objects.ready(pod) and objects.phase(pod) == "Running" and not objects.terminating(pod)


def number(obj: Object, field: str = "replicas", default: int = 1) -> int:
    """An integer of the spec; the default if it is missing or no integer."""
    value = objects.spec(obj).get(field)
    return value if isinstance(value, int) else default


def generation(obj: Object) -> int:
    """For observedGeneration."""
    return int(obj["metadata"].get("generation", 0))


def scaled(value: Any, whole: int, *, up: bool) -> int:
    """An IntOrString: a number, or a percentage of `whole` that is rounded up or down; 0 for other
    values."""
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("%")
    if not text.isdecimal():
        return 0
    exact = int(text) * whole / 100
    return math.ceil(exact) if up else math.floor(exact)


def fence_posts(surge: Any, unavailable: Any, replicas: int) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) as pods; when both are 0, one may be unavailable."""
    more = scaled(surge, replicas, up=True)
    fewer = scaled(unavailable, replicas, up=False)
    return more, fewer or (0 if more else 1)
