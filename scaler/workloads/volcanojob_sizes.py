"""The sizes of a training job that is a Volcano Job over several servers: what its object says of
them, and the patch that writes another one (contract 3d, how it is done per kind). Pure.

A size is the number of pods of the one task that has NPUs. The size of the next start stands in the
spec itself. What people wrote there before the first change is kept in an annotation of the job:

    mind-cluster/full-size: {"minAvailable":8,"tasks":{"worker":[8,8]}}   replicas, minAvailable
    mind-cluster/size: 4.<uid of the job>                                replicas as we wrote them

Where the spec has other replicas than the second one says, somebody has edited it: then the spec
is the full size again. With the uid, a copy of the annotations on another job has no effect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.kube.metadata import LONGEST_NAME
from scaler.names import FULL_SIZE, SIZE
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import as_count, as_list, as_text, at

_NPU = "huawei.com/"
_LONGEST = 4096
"""Characters of the annotation about the full size: a longer one is not read."""


class _Full(msgspec.Struct, rename="camel"):
    """The annotation about the full size."""

    tasks: dict[str, tuple[int, int | None]]
    """Replicas and minAvailable of each task."""
    min_available: int | None = None


class SizedTask(msgspec.Struct, frozen=True):
    """The task whose replicas are the size of the job."""

    index: int
    """Among the tasks of the job."""
    name: str
    recorded: int
    """Its replicas now: the size of the next start."""
    full: int
    """Its replicas as people wrote them."""


def sized_task(obj: Object) -> SizedTask | None:
    """None where no task has NPUs, or several have: then the job has one size."""
    tasks = list(_tasks(obj))
    sized = [(index, task) for index, task in enumerate(tasks) if _takes_npus(task)]
    if len(sized) != 1:
        return None
    index, task = sized[0]
    name = _name_of(index, task)
    replicas = _replicas(task)
    full, _ = _full_of(obj).tasks.get(name, (replicas, None))
    return SizedTask(index, name, replicas, full)


def size_patch(obj: Object, size: int) -> list[Object]:
    """The JSON patch that writes this size for the next start, of exactly this version of the job;
    [] where it stands there already. Only of a job with a sized task."""
    task = sized_task(obj)
    if task is None or (task.recorded == size and _is_ours(obj, size)):
        return []
    full = _full_of(obj)
    meta = at(obj, "metadata")
    place = f"/spec/tasks/{task.index}"
    named = as_text(at(list(_tasks(obj))[task.index]).get("name"))
    patch = [
        _operation("test", "/metadata/uid", meta.get("uid")),
        _operation("test", "/metadata/resourceVersion", meta.get("resourceVersion")),
    ]
    if named:
        patch.append(_operation("test", f"{place}/name", named))
    # add, and not replace: a webhook of Volcano leaves a 0 out
    patch.append(_operation("add", f"{place}/replicas", size))
    _, least = full.tasks[task.name]
    if least is not None:
        patch.append(_operation("add", f"{place}/minAvailable", min(least, size)))
    if full.min_available is not None:
        before = sum(replicas for replicas, _ in full.tasks.values())
        after = before - task.full + size
        whole = full.min_available == before
        together = after if whole else min(full.min_available, after)
        patch.append(_operation("add", "/spec/minAvailable", together))
    notes = {FULL_SIZE: _text_of(full), SIZE: f"{size}.{meta.get('uid')}"}
    if not at(meta, "annotations"):
        patch.append(_operation("add", "/metadata/annotations", notes))
        return patch
    for key, value in notes.items():
        patch.append(_operation("add", f"/metadata/annotations/{key.replace('/', '~1')}", value))
    return patch


def _operation(op: str, path: str, value: Any) -> Object:
    return {"op": op, "path": path, "value": value}


def _tasks(obj: Object) -> Iterator[Mapping[str, Any]]:
    for task in as_list(at(obj, "spec").get("tasks")):
        yield at(task)


def _name_of(index: int, task: Mapping[str, Any]) -> str:
    return as_text(task.get("name"))[:LONGEST_NAME] or f"default{index}"


def _replicas(task: Mapping[str, Any]) -> int:
    return as_count(task.get("replicas"), MAX_PODS)


def _takes_npus(task: Mapping[str, Any]) -> bool:
    for container in as_list(at(task, "template", "spec").get("containers")):
        resources = at(container, "resources")
        names = {**at(resources, "requests"), **at(resources, "limits")}
        if any(name.startswith(_NPU) for name in names):
            return True
    return False


def _is_ours(obj: Object, size: int) -> bool:
    """Whether the scaler wrote this size into the job."""
    meta = at(obj, "metadata")
    return at(meta, "annotations").get(SIZE) == f"{size}.{meta.get('uid')}"


def _full_of(obj: Object) -> _Full:
    """What people wrote: kept by us, or in the spec itself."""
    now = _found(obj)
    kept = _kept(obj)
    if kept is None or kept.tasks.keys() != now.tasks.keys():
        return now
    for index, task in enumerate(_tasks(obj)):
        if _takes_npus(task) and not _is_ours(obj, now.tasks[_name_of(index, task)][0]):
            return now  # edited since then
    return kept


def _found(obj: Object) -> _Full:
    tasks = {}
    for index, task in enumerate(_tasks(obj)):
        tasks[_name_of(index, task)] = (_replicas(task), _number(task.get("minAvailable")))
    return _Full(tasks, _number(at(obj, "spec").get("minAvailable")))


def _kept(obj: Object) -> _Full | None:
    text = at(obj, "metadata", "annotations").get(FULL_SIZE)
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    try:
        return msgspec.json.decode(text, type=_Full)
    except msgspec.MsgspecError:
        return None


def _text_of(full: _Full) -> str:
    tasks = {name: list(numbers) for name, numbers in full.tasks.items()}
    said = {"minAvailable": full.min_available, "tasks": tasks}
    return json.dumps(said, separators=(",", ":"))


def _number(value: Any) -> int | None:
    return None if value is None else as_count(value, MAX_PODS)
