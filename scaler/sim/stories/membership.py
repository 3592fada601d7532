"""Which instance a pod belongs to, by what its makers wrote onto it. Values only.

For the census: written apart from scaler.workloads, so that the two can contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.actors.infer_operator import INDEX, MANAGED, ROLE, SERVICE
from scaler.sim.actors.lws_webhook import GROUP_INDEX, NAME, SIZE
from scaler.sim.actors.storm_services import POD_SET

_INSTANCE = "mind-cluster/instance"
_INSTANCE_SIZE = "mind-cluster/instance-size"


class Claim(msgspec.Struct, frozen=True):
    """The name of a pod's instance, and how many pods that has."""

    instance: str
    size: int = 1


def claim_of(pod: Object, sizes: Mapping[str, int]) -> Claim:
    """A pod that nobody says more of is an instance of its own. `sizes`: owner uid -> its pods."""
    annotations = objects.annotations_of(pod)
    made = _by_maker(pod, sizes)
    return Claim(annotations.get(_INSTANCE, made.instance), _number(annotations.get(_INSTANCE_SIZE), made.size))


def _by_maker(pod: Object, sizes: Mapping[str, int]) -> Claim:
    labels, annotations = objects.labels_of(pod), objects.annotations_of(pod)
    if NAME in labels and GROUP_INDEX in labels:
        return Claim(f"{labels[NAME]}-{labels[GROUP_INDEX]}", _number(annotations.get(SIZE), 1))
    if POD_SET in labels:
        return Claim(labels[POD_SET], _number(_variable(pod, "POD_GROUP_SIZE"), 1))
    if MANAGED in labels:
        whole = f"{labels.get(SERVICE)}-{labels.get(ROLE)}-{labels.get(INDEX)}"
        return Claim(whole, sizes.get(objects.owner_uid(pod), 1))
    return Claim(objects.name(pod))


def _variable(pod: Object, name: str) -> str | None:
    containers = objects.spec(pod).get("containers") or []
    variables = (variable for container in containers for variable in container.get("env") or [])
    return next((variable.get("value") for variable in variables if variable.get("name") == name), None)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() else default
