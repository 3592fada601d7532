"""Would the scaler leave the objects of a job unchanged that another controller made? Compares,
never changes. Pure.

Each field that the scaler would write is compared with the existing one; fields that the API
server, admission plugins, the scheduler or the device plugin add are ignored. Must not raise on any
object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.kube.quantity import parse_quantity
from scaler.rules.values import as_list, as_text, at
from scaler.workloads import ascendjob_objects
from scaler.workloads.membership import Job

_SHOWN = 60
_GROUP_NAME = "metadata.annotations[scheduling.k8s.io/group-name]"
_NOT_OF_THE_JOB = re.compile(r"kube-api-access-.*")
"""Items that the API server adds to lists of the pod's spec."""
_EXPECTED = {
    "metadata.labels[version]": "the number of a restart round; each counts its own",
    "spec.containers[ascend].env[MINDX_SERVER_IP].value": (
        "the address of ClusterD's Service here, its name there"
    ),
    "spec.containers[ascend].env[MINDX_SERVER_DOMAIN].value": "the setting clusterd_address",
}
"""Intended differences, by path (docs/reference/objects.md), with the reason."""


class Weight(StrEnum):
    """The effect of a difference on the takeover."""

    BLOCKS = "blocks"
    """A running pod would be lost, or would not be replaced after a loss."""
    DOES = "does"
    """The scaler would act at once; no running pod is touched."""
    DIFFERS = "differs"
    """No effect now: the objects stay as they are until the instance is created again."""
    EXPECTED = "expected"
    """Differs in every cluster, on purpose."""


class Consequence(msgspec.Struct, frozen=True, order=True):
    """One fact that a person needs before the takeover.

    It is no `scaler.rules.finding.Finding`: nothing has to be wrong. Its weight says what the
    takeover does to the job, not how severe a mistake is."""

    weight: Weight
    text: str


class Found(msgspec.Struct, frozen=True):
    """The existing objects of one job, as the API server returns them."""

    pods: Mapping[str, Object] = {}
    """By name: pods whose controller is the job, and pods with a name that the job needs."""
    pod_group: Object | None = None
    service: Object | None = None


def compare(job: Job, obj: Object, found: Found, clusterd: str) -> list[Consequence]:
    """How the existing objects differ from those that the scaler would create. Empty for a job with
    faults."""
    if job.faults:
        return []
    return [
        *_pod_consequences(job, ascendjob_objects.pods(job, obj, clusterd), found.pods),
        *_object_consequences(
            "PodGroup", job, ascendjob_objects.pod_group(job, obj), found.pod_group
        ),
        *_object_consequences("Service", job, ascendjob_objects.service(job, obj), found.service),
    ]


def owner_uid(obj: Object) -> str:
    """The uid of the controlling AscendJob, "" if there is none."""
    for owner in map(at, as_list(at(obj, "metadata").get("ownerReferences"))):
        if owner.get("controller") and owner.get("kind") == "AscendJob":
            return as_text(owner.get("uid"))
    return ""


def _pod_consequences(
    job: Job, wanted: Mapping[str, Object], found: Mapping[str, Object]
) -> Iterator[Consequence]:
    """One consequence per path, whatever the number of pods."""
    told: dict[tuple[Weight, str], list[str]] = {}
    for name, pod in wanted.items():
        there = found.get(name)
        for consequence in _object_consequences("", job, pod, there):
            told.setdefault((consequence.weight, consequence.text), []).append(name)
    for (weight, text), names in told.items():
        yield Consequence(weight, f"{_listed(names)}: {text}")


def _object_consequences(
    what: str, job: Job, wanted: Object, found: Object | None
) -> Iterator[Consequence]:
    prefix = f"{what}: " if what else ""
    if found is None:
        return
    if owner_uid(found) != job.uid:
        yield Consequence(
            Weight.BLOCKS,
            f"{prefix}it does not belong to this AscendJob (uid {job.uid}), so nobody adopts it",
        )
        return
    for path, there, here in differences({key: wanted[key] for key in ("metadata", "spec")}, found):
        weight, why = _weight(path)
        yield Consequence(weight, f"{prefix}{path} is {there}, the scaler writes {here}{why}")


def _weight(path: str) -> tuple[Weight, str]:
    if path == _GROUP_NAME:
        return Weight.BLOCKS, "; a pod made anew would be in another gang than the rest"
    if path in _EXPECTED:
        return Weight.EXPECTED, f" ({_EXPECTED[path]})"
    return Weight.DIFFERS, ""


def differences(wanted: Any, found: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, existing value, value of the scaler: every part of `wanted` that differs in `found`."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            yield from differences(value, found.get(key), _join(path, str(key)))
    elif isinstance(wanted, list) and isinstance(found, list | None):
        yield from _list_differences(wanted, found or [], path)
    elif not _same(wanted, found, path):
        yield path, _shown(found), _shown(wanted)


def _list_differences(
    wanted: list[Any], found: list[Any], path: str
) -> Iterator[tuple[str, str, str]]:
    """Items with names are compared by name, others by index."""
    ours = _keyed(wanted)
    theirs = _keyed(found)
    for key in ours:
        yield from differences(ours[key], theirs.get(key), f"{path}[{key}]")
    for key in theirs:
        if key not in ours and not _NOT_OF_THE_JOB.fullmatch(key):
            yield f"{path}[{key}]", _shown(theirs[key]), "nothing"


def _keyed(items: list[Any]) -> dict[str, Any]:
    """By name; of two variables of one name the container gets the last."""
    return {_key(item) or str(place): item for place, item in enumerate(items)}


def _key(item: Any) -> str:
    """The name of an item; mounts of one volume differ by their path."""
    item = at(item)
    name = as_text(item.get("name"))
    path = as_text(item.get("mountPath"))
    return f"{name} at {path}" if path else name


def _same(wanted: Any, found: Any, path: str) -> bool:
    """Whether the API server treats both as equal: 8 and "8", 1024Mi and 1Gi; an empty value equals
    a missing one."""
    if wanted in ("", None, {}) and found in ("", None, {}):
        return True
    if str(wanted) == str(found):
        return True
    amount = parse_quantity(wanted) if "resources" in path.lower() else None
    return amount is not None and amount == parse_quantity(found)


def _join(path: str, key: str) -> str:
    """The path with a key; keys with dots or slashes are in brackets:
    metadata.labels[training.kubeflow.org/job-name]."""
    if not path:
        return key
    simple = key.isidentifier() and not path.endswith(("labels", "annotations"))
    return f"{path}.{key}" if simple else f"{path}[{key}]"


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _listed(names: Iterable[str]) -> str:
    first, *others = names
    return f"Pod {first}" + (f" and {len(others)} more" if others else "")
