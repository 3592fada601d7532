"""The simulated API server: every verb, synchronously, on the versioned store. No asyncio, no
latency, no faults.

client.py adds what clients see of it (time, faults, watches); strategies.py has the rules of single
kinds. Admission: hooks see requests for the object itself only, not for its status, and on a create
neither the uid nor a generated name."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from uuid import UUID

import msgspec

from scaler.clock import Clock
from scaler.kube.api import (
    NAMESPACES,
    OWN,
    PODS,
    PRIORITY_CLASSES,
    Apply,
    Object,
    Page,
    PatchType,
    Resource,
)
from scaler.kube.errors import BadRequestError
from scaler.sim.apiserver import list_watch, pods, refusals, schema, strategies
from scaler.sim.apiserver.kinds import BINDINGS, SCALE, SCALES, Catalog, Kind, scale_of, scaled
from scaler.sim.apiserver.list_watch import Query
from scaler.sim.apiserver.patches import (
    FieldManagers,
    applied,
    json_patch,
    merge_patch,
    note_update,
    strategic_merge,
)
from scaler.sim.apiserver.reviews import Reviews
from scaler.sim.apiserver.store import Key, Record, Store
from scaler.timestamps import rfc3339

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_FIRST_CLUSTER_IP = int(ipaddress.IPv4Address("10.96.0.1"))


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a hook. `object` is the hook's own copy; `old` (None on a create) must not be
    changed."""

    operation: Literal["CREATE", "UPDATE"]
    resource: Resource
    namespace: str
    """"" for cluster-scoped objects."""
    namespace_labels: Mapping[str, str]
    object: Object
    old: Object | None = None


Hook = Callable[[Review], Object]
"""A webhook or a policy, a pure function: returns the object, changed or not, or raises StatusError
to refuse."""


class PatchOptions(msgspec.Struct, frozen=True):
    """How a patch is meant; the fields are those of KubeApi.patch."""

    patch_type: PatchType
    subresource: str = ""
    apply: Apply = OWN


class DeleteOptions(msgspec.Struct, frozen=True):
    """The options of a deletion; the fields are those of KubeApi.delete."""

    uid: str = ""
    resource_version: str = ""
    grace_period_seconds: int | None = None
    """None: the object's own."""
    propagation_policy: str = ""


class ApiServer:
    """All objects of one cluster. Raises kube.errors only.

    Namespaces are created on first use, unless `strict_namespaces`. `admission` are the hooks
    that every create and update passes, in this order."""

    def __init__(
        self,
        clock: Clock,
        *,
        seed: int,
        history: int,
        strict_namespaces: bool,
        admission: Sequence[Hook],
    ) -> None:
        self.clock = clock
        self.store = Store(history=history)
        self.catalog = Catalog()
        self.reviews = Reviews()
        self._random = random.Random(f"objects-{seed}")  # noqa: S311 - for uids, not for secrets
        self._cluster_ips = 0
        self._managers = FieldManagers()
        self._writer = ""
        self._strict_namespaces = strict_namespaces
        self._admission = tuple(admission)

    @contextmanager
    def written_by(self, manager: str) -> Iterator[None]:
        """What is created and updated within the block is noted as written by this manager; "" =
        by nobody."""
        self._writer = manager
        try:
            yield
        finally:
            self._writer = ""

    def get(
        self, resource: Resource, namespace: str | None, name: str, subresource: str = ""
    ) -> Record:
        kind, key = self._locate(resource, namespace, name)
        record = self._record(kind, key)
        return scale_of(kind, record) if subresource == SCALE else record

    def list(self, resource: Resource, namespace: str | None, query: Query) -> Page[Record]:
        return list_watch.list_page(self.store, self.catalog.find(resource), namespace, query)

    def create(
        self, resource: Resource, namespace: str | None, body: Object, *, dry_run: bool = False
    ) -> Record:
        if resource.kind == BINDINGS.kind:
            return self._bind(namespace, body)
        kind = self.catalog.find(resource)
        obj = self._admitted(kind, namespace, self._accept(kind, _private(body)))
        self._start_metadata(kind, namespace, obj)
        self._ensure_namespace(obj["metadata"].get("namespace", ""), dry_run=dry_run)
        self._allocate(obj)
        if kind.resource == PODS:
            pods.prioritize(obj, self._priority_classes())
        strategies.prepare(kind, obj)
        name = obj["metadata"]["name"]
        problems = strategies.create_problems(kind, obj)
        if problems:
            raise refusals.invalid(kind.resource, name, problems)
        key = (obj["metadata"].get("namespace", ""), name)
        if key in self.store.table(kind.resource).records:
            raise refusals.already_exists(kind.resource, name)
        if dry_run:
            return Record(obj, self.store.version)
        self._note_writer(obj, "", set(obj))
        return self._put(kind, key, obj)

    def replace(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        subresource: str = "",
    ) -> Record:
        kind, key = self._locate(resource, namespace, name)
        if subresource == SCALE:
            new = scaled(kind, self._record(kind, key), self._accept(SCALES, _private(body)))
            return scale_of(kind, self.replace(resource, namespace, name, new))
        obj = self._accept(kind, _private(body))
        if kind.create_on_update and key not in self.store.table(kind.resource).records:
            obj["metadata"].pop("resourceVersion", None)
            return self.create(resource, namespace, obj)
        record = self._record(kind, key)
        if not obj["metadata"].get("name"):
            raise refusals.bad_request(
                f"the name of the object ({name} based on URL) was undeterminable"
            )
        strategies.check_preconditions(kind, record.object, obj["metadata"].get("uid", ""))
        if not obj["metadata"].get("resourceVersion"):
            if not kind.unconditional_update:
                words = (
                    "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
                )
                raise refusals.invalid(kind.resource, name, [words])
            obj["metadata"]["resourceVersion"] = record.object["metadata"]["resourceVersion"]
        return self._update(kind, record, obj, subresource)

    def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        patch: Any,
        how: PatchOptions,
    ) -> Record:
        kind, key = self._locate(resource, namespace, name)
        if how.subresource == SCALE:
            # server-side apply owns no field here: it is a merge
            applies = how.patch_type is PatchType.APPLY
            shown = scale_of(kind, self._record(kind, key)).copy()
            patch_type = PatchType.MERGE if applies else how.patch_type
            body = _patched(kind, shown, _private(patch), patch_type)
            return self.replace(resource, namespace, name, body, subresource=SCALE)
        if how.patch_type is PatchType.APPLY:
            return self._apply(kind, key, _private(patch), how.subresource, how.apply)
        record = self._record(kind, key)
        patched = _patched(kind, record.copy(), _private(patch), how.patch_type)
        try:
            obj = self._accept(kind, patched)
        except BadRequestError as error:
            raise refusals.unprocessable(f'"" is invalid: patch: {error.message}') from None
        uid = obj["metadata"].get("uid")
        # The status of a custom resource ignores even the uid.
        uid_is_ignored = how.subresource and kind.custom
        if not uid_is_ignored and uid not in (None, record.object["metadata"]["uid"]):
            problem = f'metadata.uid: Invalid value: "{uid}": field is immutable'
            raise refusals.invalid(kind.resource, name, [problem])
        return self._update(kind, record, obj, how.subresource)

    def _apply(self, kind: Kind, key: Key, body: Any, subresource: str, apply: Apply) -> Record:
        """Server-side apply. Built-in kinds are merged strategically, and fields that are no longer
        applied stay."""
        if not isinstance(body, dict) or not (body.get("apiVersion") and body.get("kind")):
            raise refusals.bad_request("what is applied must be an object with apiVersion and kind")
        manager = apply.manager
        if not manager:
            raise refusals.unprocessable(
                "fieldManager: Required value: is required for apply patch"
            )
        record = self.store.table(kind.resource).records.get(key)
        if record is None:
            if subresource:
                raise refusals.not_found(kind.resource, key[1])
            named = {**(body.get("metadata") or {}), "name": key[1]}
            record = self.create(
                kind.resource, key[0] or None, {**body, "metadata": named}, dry_run=apply.dry_run
            )
        elif not apply.force and (
            found := self._managers.conflicts(record.object, subresource, manager, body)
        ):
            raise refusals.apply_conflict(found, kind.resource)
        else:
            live = record.copy()
            before = self._managers.of(record.object).get((subresource, manager), {})
            merged = (
                applied(live, before, body, kind.schema or {})
                if kind.custom
                else strategic_merge(live, body)
            )
            new = self._accept(kind, merged)
            record = self._update(kind, record, new, subresource, dry_run=apply.dry_run)
        if apply.dry_run:
            return record
        said = record.copy()
        self._managers.note(said, subresource, manager, body)
        return record if said == record.object else self._put(kind, key, said)

    def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        how: DeleteOptions | None = None,
    ) -> Record:
        """Returns the object after the call, or its last version."""
        how = how or DeleteOptions()
        kind, key = self._locate(resource, namespace, name)
        record = self._record(kind, key)
        strategies.check_preconditions(kind, record.object, how.uid, how.resource_version)
        obj = record.copy()
        deletion = strategies.mark_deleted(
            kind, obj, self.clock.now(), how.grace_period_seconds, how.propagation_policy
        )
        if obj != record.object:
            record = self._put(kind, key, obj)
        goes = deletion is strategies.Deletion.AT_ONCE
        return self._remove(kind, key) if goes else record

    # Look-ups

    def _locate(self, resource: Resource, namespace: str | None, name: str) -> tuple[Kind, Key]:
        kind = self.catalog.find(resource)
        if kind.resource.namespaced and not namespace:
            raise refusals.bad_request(
                "an empty namespace may not be set when a resource name is provided"
            )
        return kind, (namespace or "" if kind.resource.namespaced else "", name)

    def _record(self, kind: Kind, key: Key) -> Record:
        record = self.store.table(kind.resource).records.get(key)
        if record is None:
            raise refusals.not_found(kind.resource, key[1])
        return record

    def _put(self, kind: Kind, key: Key, obj: Object) -> Record:
        if kind.resource.kind == "CustomResourceDefinition":
            self.catalog.define(obj)
        return self.store.put(kind.resource, key, obj, self.clock.now())

    def _remove(self, kind: Kind, key: Key) -> Record:
        """Removes an object, and objects that cannot exist without it."""
        record = self.store.delete(kind.resource, key, self.clock.now())
        self._managers.forget(record.object)
        if kind.resource.kind == "CustomResourceDefinition":
            self._empty(self.catalog.definitions[key[1]], "")
            self.catalog.undefine(key[1])
        elif kind.resource == NAMESPACES:
            for other in self.catalog:
                if other.resource.namespaced:
                    self._empty(other, key[1])
        return record

    def _empty(self, kind: Kind, namespace: str) -> None:
        for key in tuple(self.store.table(kind.resource).keys):
            if namespace in ("", key[0]):
                self._remove(kind, key)

    # Input

    def _accept(self, kind: Kind, body: Any) -> Object:
        """The body as an object of that kind, pruned and with its fields in order; BadRequestError
        when it is none."""
        if not isinstance(body, dict):
            raise refusals.bad_request("the body is not an object")
        api_version = kind.resource.api_version
        name = kind.resource.kind
        if kind.custom and not (body.get("kind") and body.get("apiVersion")):
            raise refusals.bad_request("Object 'Kind' or 'apiVersion' is missing")
        found = (body.get("apiVersion") or api_version, body.get("kind") or name)
        if found != (api_version, name):
            raise refusals.bad_request(
                f"the API version in the data {found} does not match the expected {api_version}"
            )
        problem = schema.mismatch(kind.built_in, body)
        if problem:
            raise refusals.bad_request(
                f"{name} in version {kind.resource.version!r} cannot be handled: {problem}"
            )
        if not kind.custom:
            body = schema.without_nulls(body)
        rest = {key: value for key, value in body.items() if key not in schema.ROOT_FIELDS}
        if kind.schema is not None:
            rest = schema.prune(rest, kind.schema)
        sent = body.get("metadata") or {}
        metadata = {key: value for key, value in sent.items() if value not in _EMPTY}
        metadata.pop("managedFields", None)
        return {"apiVersion": api_version, "kind": name, "metadata": metadata, **rest}

    def _admitted(
        self, kind: Kind, namespace: str | None, obj: Object, old: Object | None = None
    ) -> Object:
        """The object after the hooks, pruned again."""
        if not self._admission:
            return obj
        record = self.store.table(NAMESPACES).records.get(("", namespace or ""))
        labels = (record.object["metadata"].get("labels") or {}) if record else {}
        for hook in self._admission:
            review = Review(
                operation="UPDATE" if old else "CREATE",
                resource=kind.resource,
                namespace=namespace or "",
                namespace_labels=labels,
                object=obj,
                old=old,
            )
            obj = hook(review)
        return self._accept(kind, _private(obj))

    def _start_metadata(self, kind: Kind, namespace: str | None, obj: Object) -> None:
        sent = obj["metadata"]
        if sent.get("resourceVersion"):
            raise refusals.internal("resourceVersion should not be set on objects to be created")
        name = sent.get("name")
        prefix = sent.get("generateName")
        if not (name or prefix):
            problem = "metadata.name: Required value: name or generateName is required"
            raise refusals.invalid(kind.resource, "", [problem])
        own: Object = {
            "name": name or str(prefix)[:58] + "".join(self._random.choices(_NAME_LETTERS, k=5))
        }
        if prefix:
            own["generateName"] = prefix
        if kind.resource.namespaced:
            if not namespace or (sent.get("namespace") or namespace) != namespace:
                words = (
                    "the namespace of the provided object does not match the namespace sent on the"
                    " request"
                )
                raise refusals.bad_request(words)
            own["namespace"] = namespace
        own["uid"] = str(UUID(int=self._random.getrandbits(128), version=4))
        own["resourceVersion"] = ""
        if kind.generation:
            own["generation"] = 1
        own["creationTimestamp"] = rfc3339(self.clock.now())
        for key, value in sent.items():
            if key not in own and key not in strategies.SYSTEM_FIELDS:
                own[key] = value
        obj["metadata"] = own

    def _allocate(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        if obj["kind"] != "Service" or spec.get("type") == "ExternalName":
            return
        if not spec.get("clusterIP"):
            self._cluster_ips += 1
            spec["clusterIP"] = str(ipaddress.IPv4Address(_FIRST_CLUSTER_IP + self._cluster_ips))
        spec["clusterIPs"] = [spec["clusterIP"]]
        obj["spec"] = spec

    def _priority_classes(self) -> dict[str, Object]:
        records = self.store.table(PRIORITY_CLASSES).records
        return {name: record.object for (_, name), record in records.items()}

    def _ensure_namespace(self, name: str, *, dry_run: bool) -> None:
        if not name or ("", name) in self.store.table(NAMESPACES).records:
            return
        if self._strict_namespaces or any(strategies.name_problems(NAMESPACES, name)):
            raise refusals.not_found(NAMESPACES, name)
        self.create(NAMESPACES, None, {"metadata": {"name": name}}, dry_run=dry_run)

    # Changes

    def _update(
        self, kind: Kind, record: Record, new: Object, subresource: str, *, dry_run: bool = False
    ) -> Record:
        if subresource not in ("", "status") or (subresource and not kind.status):
            raise refusals.unknown_resource()
        old = record.object
        key = (old["metadata"].get("namespace", ""), old["metadata"]["name"])
        strategies.check_identity(kind, old, new)
        if not subresource:
            new = self._admitted(kind, key[0], new, old)
        result = strategies.merge_update(kind, old, new, subresource)
        problems = strategies.update_problems(kind, old, result)
        if problems:
            raise refusals.invalid(kind.resource, key[1], problems)
        if result == old:
            return record
        if kind.generation and strategies.wants(kind, result) != strategies.wants(kind, old):
            result["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if dry_run:
            return Record(result, self.store.version)
        changed = {name for name in result if result[name] != old.get(name)}
        self._note_writer(result, subresource, changed)
        record = self._put(kind, key, result)
        return self._remove(kind, key) if strategies.is_over(result) else record

    def _note_writer(self, obj: Object, subresource: str, changed: set[str]) -> None:
        """Note in `managedFields` who has written these fields of the object."""
        if self._writer:
            fields = {name: obj[name] for name in changed}
            note_update(obj, self._writer, subresource, self.clock.timestamp(), fields)

    def _bind(self, namespace: str | None, body: Object) -> Record:
        binding = self._accept(Kind(resource=BINDINGS), _private(body))
        metadata = binding["metadata"]
        kind, key = self._locate(PODS, namespace, str(metadata.get("name", "")))
        record = self._record(kind, key)
        strategies.check_preconditions(kind, record.object, metadata.get("uid", ""))
        pod = record.copy()
        pods.bind(pod, binding, self.clock.timestamp())
        pod["metadata"]["generation"] += 1
        return self._put(kind, key, pod)


def _private(body: Any) -> Any:
    """A copy that shares nothing with the caller, which also proves that it is JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(body))
    except (TypeError, ValueError, RecursionError) as error:
        raise refusals.bad_request(f"the body is not JSON: {error}") from None


def _patched(kind: Kind, document: Object, patch: Any, patch_type: PatchType) -> Any:
    if patch_type is PatchType.JSON:
        return json_patch(document, patch)
    if not isinstance(patch, dict):
        raise refusals.bad_request("the patch is not an object")
    if patch_type is PatchType.MERGE:
        return merge_patch(document, patch)
    if kind.custom:
        raise refusals.unsupported_media_type(
            (PatchType.JSON, PatchType.MERGE, "application/apply-patch+yaml")
        )
    return strategic_merge(document, patch)
