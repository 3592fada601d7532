"""AscendJobs and Volcano Jobs as the cache keeps them, most only as existing; and the look-up of
one job by name."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from scaler.decide.nodes import PodRequest
from scaler.informers.managers import ManagedMetadata, Writing, status_written_by_others
from scaler.informers.store import Store
from scaler.kube.api import ASCEND_JOBS, Object, Page, Resource
from scaler.kube.metadata import LONGEST_NAME, Stored, version_of
from scaler.kube.wire import DEEPEST, TOO_DEEP
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, LAST_APPLIED, MOVED_RULE, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.rules.values import as_text, at, is_deeper
from scaler.workloads.ascendjob import APP_LABEL, is_foreign, read_job
from scaler.workloads.membership import Job
from scaler.workloads.pod_requests import ascend_job_requests, volcano_job_requests
from scaler.workloads.volcanojob import read_volcano_job


class JobObject(msgspec.Struct, gc=False):
    """An AscendJob or Volcano Job. Most are none of ours, so what may be large is decoded only
    where it matters."""

    metadata: ManagedMetadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


MOST_KEPT = 128 * 1024
"""Bytes of a job, without managedFields and the copy that kubectl keeps of it: twenty times what
ordinary ones have. One that is larger is refused: its pods cannot be made without keeping all of
it."""
_MOST_STATUS = 16 * 1024

_ESSENTIAL = frozenset({RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL, APP_LABEL})
_RULE_LABEL = RULE_LABEL.encode()


class JobRecord(Stored, frozen=True, gc=False):
    """An AscendJob or Volcano Job, and what was read from it. Of one that is none of ours nothing
    but its identity."""

    job: Job
    text: bytes = b""
    """An AscendJob of ours as JSON, compressed: its pods are made of it. Without what is not
    read."""
    kind: str = "AscendJob"
    requests: tuple[PodRequest, ...] = ()
    """The request of each expected pod, in the order of `job.pods`."""
    priority_class: str = ""
    others_wrote: Writing | None = None
    """The last write of the status of an AscendJob by anybody but the scaler."""

    @property
    def object(self) -> Object:
        """The job as its pods are made of it, decoded anew."""
        found: Object = msgspec.json.decode(zlib.decompress(self.text)) if self.text else {}
        return found

    @property
    def is_foreign(self) -> bool:
        return self.job is _FOREIGN


_FOREIGN = read_job({})


def _refuse_deep(obj: dict[str, Any]) -> None:
    """Objects that are kept whole are copied, compared and encoded later, which recurses."""
    if is_deeper(obj, DEEPEST):
        raise ValueError(TOO_DEEP)


def job_record(obj: JobObject) -> JobRecord | None:
    """None for an object without identity. Any other shape gives a record; what is wrong with it is
    in `job`."""
    meta = obj.metadata
    if not (meta.name and meta.uid):
        return None
    if is_foreign(meta.labels, meta.annotations):
        return JobRecord(*meta.identity, _FOREIGN)
    size = _size(obj)
    if size > MOST_KEPT:
        return _refused(obj, size)
    text = _kept(obj)
    found = msgspec.json.decode(text)
    _refuse_deep(found)
    job = read_job(found)
    requests = ascend_job_requests(found) if job.key.rule else ()
    scheduling = at(found, "spec", "runPolicy", "schedulingPolicy")
    priority_class = as_text(scheduling.get("priorityClass")) if job.key.rule else ""
    return JobRecord(
        *meta.identity,
        job,
        zlib.compress(text, 1),
        requests=requests,
        priority_class=priority_class,
        others_wrote=status_written_by_others(meta),
    )


def read_job_record(obj: Object) -> JobRecord | None:
    """The record of an AscendJob as the API server answers it."""
    return job_record(msgspec.json.decode(msgspec.json.encode(obj), type=JobObject))


def _size(obj: JobObject) -> int:
    """Bytes, approximately."""
    words = (*obj.metadata.labels.items(), *obj.metadata.annotations.items())
    texts = sum(len(key) + len(value) for key, value in words if key != LAST_APPLIED)
    return texts + memoryview(obj.spec).nbytes + memoryview(obj.status).nbytes


def _kept(obj: JobObject) -> bytes:
    """The value of `JobRecord.text` before compression."""
    return msgspec.json.encode({"metadata": _metadata(obj), "spec": obj.spec, "status": obj.status})


def _metadata(obj: JobObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(obj.metadata.without_managers)
    found["annotations"].pop(LAST_APPLIED, None)
    return {key: value for key, value in found.items() if value and key != "ownerReferences"}


def _essential(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key in _ESSENTIAL}


def _refused(obj: JobObject, size: int) -> JobRecord:
    """Of a job that is too large only its identity and, unless that is too large, its status are
    kept."""
    meta = obj.metadata
    rule = meta.annotations.get(MOVED_RULE)
    kept = {MOVED_RULE: rule} if rule is not None and len(rule) <= LONGEST_NAME else {}
    small = msgspec.structs.replace(meta, labels=_essential(meta.labels), annotations=kept)
    status = obj.status if memoryview(obj.status).nbytes <= _MOST_STATUS else msgspec.Raw(b"{}")
    text = _kept(JobObject(small, status=status))
    job = msgspec.structs.replace(read_job(msgspec.json.decode(text)), faults=(_too_large(size),))
    return JobRecord(*meta.identity, job, zlib.compress(text, 1) if status is obj.status else b"")


def volcano_job_record(obj: JobObject) -> JobRecord | None:
    """None for a job whose pods name no rule, which is most of them."""
    meta = obj.metadata
    if not (meta.name and meta.uid) or not (
        RULE_LABEL in meta.labels or _RULE_LABEL in bytes(obj.spec)
    ):
        return None
    size = _size(obj)
    large = size > MOST_KEPT
    found = msgspec.json.decode(_kept(obj) if not large else msgspec.json.encode(_outline(obj)))
    _refuse_deep(found)
    job = read_volcano_job(found)
    if job.label_problem is Reason.NOT_SERVED:
        return None
    if large:
        job = msgspec.structs.replace(job, replicas=(), faults=(_too_large(size),))
    requests = volcano_job_requests(found)
    priority_class = as_text(at(found, "spec").get("priorityClassName"))
    return JobRecord(
        *meta.identity, job, kind="Job", requests=requests, priority_class=priority_class
    )


class _Labels(msgspec.Struct, frozen=True, gc=False):
    """No API server has checked the other metadata of a template."""

    labels: dict[str, str] = {}


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _Labels = _Labels()


class _Task(msgspec.Struct, frozen=True, gc=False):
    template: _Template = _Template()


class _Tasks(msgspec.Struct, gc=False):
    tasks: list[_Task] = []


def _outline(obj: JobObject) -> dict[str, Any]:
    """A Volcano Job that is too large: whose it is, and nothing else."""
    tasks = msgspec.json.decode(obj.spec, type=_Tasks).tasks
    named = []
    for task in tasks:
        labels = task.template.metadata.labels
        if RULE_LABEL in labels:
            named.append({"template": {"metadata": {"labels": _essential(labels)}}})
            break
    metadata = _metadata(obj) | {"labels": _essential(obj.metadata.labels), "annotations": {}}
    return {"metadata": metadata, "spec": {"tasks": named}}


def _too_large(size: int) -> str:
    return (
        f"JobTooLarge: the job has {size} bytes, more than {MOST_KEPT}; take out what its pods do"
        " not need"
    )


Find = Callable[[Resource, str | None, str], Awaitable[Page[Object]]]
"""LIST of one name: unlike a GET of it, a list that finds nothing says as of which version, and
does not look like a resource that is not served for a moment."""


async def look_up(find: Find, jobs: Store[JobRecord], record: JobRecord) -> bool:
    """Look the job up by name, past a watch that may be far behind: False when it is another one by
    now, or gone. The cache has what is found at once. Raises errors of the seam, as `find` does."""
    namespace = record.namespace
    name = record.name
    page = await find(ASCEND_JOBS, namespace, name)
    # nested too deep: what was read before stays, as with any object that cannot be read
    with suppress(ValueError):
        for known in map(read_job_record, page.items):
            if known is not None:
                jobs.apply(known)
    if not (page.items or page.refused):
        jobs.note_absent(namespace, name, version_of(page.resource_version))
    now = jobs.get(namespace, name)
    return now is not None and now.uid == record.uid and now.job == record.job
