"""A service report in one line."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from scaler.decide.decision import Plan, Verdict
from scaler.decide.world import Instance, Service
from scaler.informers.jobs import JobRecord
from scaler.kube.api import ASCEND_JOBS, Object
from scaler.report.service_reports import InstanceReport, ServiceReport, Subject
from scaler.workloads.ascendjob import read_job
from tests.builders import plan, service


def job(name: str, **status: Any) -> Object:
    """The AscendJob of `builders.instance(name)`."""
    labels = {"jobID": "mindie", "mind-cluster/scaling-rule": "rule"}
    metadata = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "labels": labels,
        "resourceVersion": "1",
    }
    return {"metadata": metadata, "spec": {}} | ({"status": status} if status else {})


def report(ratios: str, instances: str, **changes: Any) -> ServiceReport:
    """What the controller reports of `builders.service(ratios, instances)`; every instance has its
    job."""
    return report_of(service(ratios, instances), **changes)


def report_of(service: Service, jobs: Iterable[Object] = (), **changes: Any) -> ServiceReport:
    """`jobs`: of its instances, where they are others than the usual ones."""
    decided = changes.pop("plan", None) or plan(service)
    members = {instance.uid: instance for instance in service.instances}
    made = jobs or [job(instance.name) for instance in service.instances]
    objects = {obj["metadata"]["uid"]: obj for obj in made}
    instances = {
        one.uid: _reported(decided, one, members[one.uid], objects[one.uid])
        for one in decided.verdicts
    }
    return ServiceReport(service, decided, instances, **changes)


def _reported(decided: Plan, verdict: Verdict, instance: Instance, obj: Object) -> InstanceReport:
    """With the job as the cache has it."""
    metadata = obj["metadata"]
    text = zlib.compress(msgspec.json.encode(obj))
    names = metadata["namespace"], metadata["name"], metadata["uid"]
    record = JobRecord(*names, metadata["resourceVersion"], read_job(obj), text)
    return InstanceReport(decided, verdict, instance, Subject(ASCEND_JOBS, *names), record)
