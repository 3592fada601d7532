"""A store with resourceVersions and preconditions, just enough for the reporter, and a service report in one line."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaler.decide.world import Service
from scaler.informers.jobs import JobRecord
from scaler.kube.api import ASCEND_JOBS, Object, PatchType, Resource
from scaler.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from scaler.report.service_reports import InstanceReport, ServiceReport, Subject
from scaler.sim.apiserver.patches import merge_patch
from scaler.workloads.ascendjob import read_job
from tests.builders import plan, service


class FakeStore:
    """Reader and Writer at once. `log` lists every write; `failures` are raised first, one per request."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.log: list[str] = []
        self.failures: list[KubeError] = []
        self._version = 0

    def __getitem__(self, key: str) -> Object:
        """`plural/name` in namespace default."""
        plural, name = key.split("/")
        return self.objects[plural, "default", name]

    def __contains__(self, key: str) -> bool:
        plural, name = key.split("/")
        return (plural, "default", name) in self.objects

    def names(self, plural: str) -> list[str]:
        return sorted(name for kind, _, name in self.objects if kind == plural)

    def seed(self, resource: Resource, obj: Object) -> Object:
        """An object that somebody else made."""
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        obj["metadata"].setdefault("uid", f"uid-{self._version}")
        self.objects[self._key(resource, obj["metadata"]["namespace"], obj["metadata"]["name"])] = obj
        return copy.deepcopy(obj)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return copy.deepcopy(self._existing(resource, namespace, name))

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        self._fail()
        name = body["metadata"]["name"]
        if self._key(resource, namespace, name) in self.objects:
            raise AlreadyExistsError(409, "AlreadyExists", name)
        self.log.append(f"create {resource.plural}/{name}")
        return self.seed(resource, copy.deepcopy(body))

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, patch: Any, *, patch_type: PatchType,
        subresource: str = "",
    ) -> Object:  # fmt: skip
        existing = self._existing(resource, namespace, name)
        for key in ("uid", "resourceVersion"):
            if patch.get("metadata", {}).get(key, existing["metadata"][key]) != existing["metadata"][key]:
                raise ConflictError(409, "Conflict", f"{name}: {key} differs")
        self.log.append(f"patch {resource.plural}/{name}" + (f"/{subresource}" if subresource else ""))
        if patch_type is PatchType.APPLY:
            return self.seed(resource, existing | {"status": copy.deepcopy(patch["status"])})
        assert patch_type is PatchType.MERGE
        return self.seed(resource, merge_patch(existing, copy.deepcopy(patch)))

    async def delete(
        self, resource: Resource, namespace: str | None, name: str, *, uid: str = "", resource_version: str = "",
        grace_period_seconds: int | None = None, propagation_policy: str = "",
    ) -> None:  # fmt: skip
        existing = self._existing(resource, namespace, name)
        if uid and existing["metadata"]["uid"] != uid:
            raise ConflictError(409, "Conflict", "uid differs")
        self.log.append(f"delete {resource.plural}/{name}")
        del self.objects[self._key(resource, namespace, name)]

    def _existing(self, resource: Resource, namespace: str | None, name: str) -> Object:
        self._fail()
        try:
            return self.objects[self._key(resource, namespace, name)]
        except KeyError:
            raise NotFoundError(404, "NotFound", name) from None

    def _key(self, resource: Resource, namespace: str | None, name: str) -> tuple[str, str, str]:
        return (resource.plural, namespace or "", name)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def job(name: str, **status: Any) -> Object:
    """The AscendJob of `builders.instance(name)`."""
    labels = {"jobID": "mindie", "mind-cluster/scaling-rule": "rule"}
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "labels": labels, "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {}} | ({"status": status} if status else {})


def report(ratios: str, instances: str, **changes: Any) -> ServiceReport:
    """What the controller reports of `builders.service(ratios, instances)`; every instance has its job."""
    return report_of(service(ratios, instances), **changes)


def report_of(service: Service, **changes: Any) -> ServiceReport:
    jobs = changes.pop("jobs", None) or records(job(instance.name) for instance in service.instances)
    plans = {} if "plan" in changes else {"plan": plan(service)}
    return ServiceReport(**{"service": service, "instances": reported(jobs), **plans, **changes})


def reported(jobs: Mapping[str, JobRecord]) -> dict[str, InstanceReport]:
    """The instances that are these jobs."""
    kind = ASCEND_JOBS.api_version, ASCEND_JOBS.kind
    return {
        uid: InstanceReport(Subject(*kind, found.namespace, found.name, found.uid), found)
        for uid, found in jobs.items()
    }


def records(objs: Iterable[Object]) -> dict[str, JobRecord]:
    """By their uids, as the cache has them."""
    return {obj["metadata"]["uid"]: _record(obj) for obj in objs}


def _record(obj: Object) -> JobRecord:
    metadata, text = obj["metadata"], zlib.compress(msgspec.json.encode(obj))
    names = metadata["namespace"], metadata["name"], metadata["uid"], metadata["resourceVersion"]
    return JobRecord(*names, read_job(obj), text)
