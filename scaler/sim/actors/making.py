"""What stand-ins that make pods for their owners share: bodies, names, and writes that their mirror has not shown yet.

Written from the descriptions of the real controllers and apart from scaler.workloads: the stand-ins judge the scaler.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.kube.api import PODS, KubeApi, Object, PatchType, Resource
from scaler.kube.errors import ConflictError, KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.mirror import Mirror, key_of

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_RETRY = 1.0  # seconds after a failed write
_LONGEST_NAME = 63


def digest(value: Any, length: int = 10) -> str:
    """A short name for a value: the same for equal values, in letters that Kubernetes uses for such names."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.sha256(encoded).digest()[:length])


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """The name, or where it is too long its beginning and a hash of the whole."""
    return name if len(name) <= longest else f"{name[: longest - 11]}-{digest(name)}"


def reference(owner: Object, resource: Resource) -> Object:
    """The controlling owner, as it stands in ownerReferences."""
    return {
        "apiVersion": resource.api_version, "kind": resource.kind, "name": objects.name(owner),
        "uid": objects.uid(owner), "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def body_of(
    resource: Resource, name: str, owner: Object, owner_resource: Resource, *,
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None, **rest: Any,
) -> Object:  # fmt: skip
    """An object to create in the owner's namespace; a name that ends in `-` is a generateName. `rest` is spec or so."""
    naming = {"generateName": name} if name.endswith("-") else {"name": name}
    metadata: Object = {
        **naming,
        "namespace": objects.namespace(owner),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": [reference(owner, owner_resource)],
    }
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}


def pod_of(
    template: Object, name: str, owner: Object, owner_resource: Resource, *,
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None, **spec: Any,
) -> Object:  # fmt: skip
    """A pod from a template. The template's own labels and annotations give way to the given ones."""
    given = template.get("metadata") or {}
    return body_of(
        PODS, name, owner, owner_resource,
        labels={**(given.get("labels") or {}), **(labels or {})},
        annotations={**(given.get("annotations") or {}), **(annotations or {})},
        spec={**copy.deepcopy(template.get("spec") or {}), **spec},
    )  # fmt: skip


def add_environment(pod_spec: Object, variables: Mapping[str, str], *, first: bool = False) -> None:
    """Puts variables into every container, in place; a variable that is there already is replaced."""
    added = [{"name": name, "value": value} for name, value in variables.items()]
    for container in pod_spec.get("containers") or []:
        kept = [variable for variable in container.get("env") or [] if variable.get("name") not in variables]
        container["env"] = [*added, *kept] if first else [*kept, *added]


def active(pod: Object) -> bool:
    """It counts as a replica: neither ended nor on its way out."""
    return not objects.ended(pod) and not objects.terminating(pod)


def ready(pod: Object) -> bool:
    """It runs, is Ready and stays."""
    conditions = objects.status(pod).get("conditions") or []
    serving = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return serving and objects.phase(pod) == "Running" and not objects.terminating(pod)


def number(obj: Object, field: str, default: int = 1) -> int:
    """An integer of the spec; the default where it is absent or no integer."""
    value = objects.spec(obj).get(field)
    return value if isinstance(value, int) else default


def scaled(value: Any, whole: int, *, up: bool) -> int:
    """An IntOrString: a number, or a percentage of `whole` that is rounded up or down; 0 for what is neither."""
    if isinstance(value, int):
        return value
    text = str(value).removesuffix("%")
    if not text.isdecimal():
        return 0
    exact = int(text) * whole / 100
    return math.ceil(exact) if up else math.floor(exact)


def fence_posts(surge: Any, unavailable: Any, replicas: int) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) as pods; when both come out as 0, one may be unavailable."""
    more, fewer = scaled(surge, replicas, up=True), scaled(unavailable, replicas, up=False)
    return more, fewer or (0 if more else 1)


def by_owner(found: Iterable[Object]) -> dict[str, list[Object]]:
    """Objects by the uid of their controlling owner."""
    owned: dict[str, list[Object]] = defaultdict(list)
    for obj in found:
        owned[objects.owner_uid(obj)].append(obj)
    return owned


def resources_of(pods: Iterable[Object]) -> dict[str, str]:
    """What pods, or pod templates, ask for together, as quantities."""
    total: dict[str, float] = defaultdict(float)
    for pod in pods:
        for resource, amount in objects.requests(pod).items():
            total[resource] += amount
    total.pop("pods", None)
    return {name: str(int(v)) if v.is_integer() else f"{round(v * 1000)}m" for name, v in total.items()}


class Hands:
    """The writes of one stand-in. While `settled` is False its mirror does not show all of them, and it has to wait.

    Refusals and failures are left to the next round, which is due after `pause` seconds.
    """

    def __init__(self, api: KubeApi, mirror: Mirror) -> None:
        self._api = api
        self._mirror = mirror
        self._written: dict[Resource, int] = {}
        """The newest version of own writes."""
        self._deleted: dict[str, tuple[Resource, tuple[str, str]]] = {}
        self.failed = False

    @property
    def settled(self) -> bool:
        """The mirror shows everything that was written."""
        self._deleted = {uid: where for uid, where in self._deleted.items() if self._still_there(uid, *where)}
        behind = [r for r, version in self._written.items() if r in self._mirror and self._mirror.version(r) < version]
        return not self._deleted and not behind

    @property
    def pause(self) -> float | None:
        """Seconds to the next round although nothing changes; forgets the failures."""
        failed, self.failed = self.failed, False
        return _RETRY if failed or not self.settled else None

    async def create(self, resource: Resource, body: Object) -> bool:
        """False when it exists already or was refused."""
        try:
            made = await self._api.create(resource, objects.namespace(body), body)
        except KubeError:
            self.failed = True
            return False
        self._note(resource, made)
        return True

    async def patch(self, resource: Resource, obj: Object, patch: Object, *, subresource: str = "") -> None:
        """A merge patch of exactly this object."""
        patch = {**patch, "metadata": {**(patch.get("metadata") or {}), "uid": objects.uid(obj)}}
        try:
            changed = await self._api.patch(
                resource, *key_of(obj), patch, patch_type=PatchType.MERGE, subresource=subresource
            )
        except (NotFoundError, ConflictError):
            return
        except KubeError:
            self.failed = True
            return
        self._note(resource, changed)

    async def replace(self, resource: Resource, obj: Object) -> None:
        """A PUT with the version that was read."""
        try:
            self._note(resource, await self._api.replace(resource, *key_of(obj), obj))
        except KubeError:
            self.failed = True

    async def status(self, resource: Resource, obj: Object, status: Object) -> None:
        """Written where it differs."""
        before = objects.status(obj)
        if {**before, **status} != before:
            await self.patch(resource, obj, {"status": status}, subresource="status")

    async def delete(self, resource: Resource, obj: Object, *, propagation: str = "Background") -> None:
        try:
            await self._api.delete(resource, *key_of(obj), uid=objects.uid(obj), propagation_policy=propagation)
        except (NotFoundError, ConflictError):
            return
        except KubeError:
            self.failed = True
            return
        self._deleted[objects.uid(obj)] = resource, key_of(obj)

    def _note(self, resource: Resource, obj: Object) -> None:
        version = str(obj["metadata"].get("resourceVersion", ""))
        if version.isdecimal():
            self._written[resource] = max(self._written.get(resource, 0), int(version))

    def _still_there(self, uid: str, resource: Resource, key: tuple[str, str]) -> bool:
        found = self._mirror.get(resource, *key)
        return found is not None and objects.uid(found) == uid and not objects.terminating(found)
