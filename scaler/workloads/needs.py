"""What pods ask of nodes, read from pod specs and job templates: requests as Kubernetes counts them, and where. Pure.

Must not raise on any input. Whatever is not understood makes the need `opaque`, which counts as fitting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

import msgspec

from scaler.decide.nodes import NODE_NAME, PODS, PodRequest, Requirement, Toleration, Where
from scaler.kube.api import Object
from scaler.kube.quantity import parse_quantity
from scaler.rules.jobspec import read_replicas
from scaler.workloads.ascendjob import as_list, as_mapping, as_text

MOST = (1 << 63) - 1
"""Kubernetes' own bound of a quantity."""
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
MOST_PODS = 100_000
"""Pods of one task; more is a mistake."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Requests = tuple[tuple[str, int], ...]


class Asked(msgspec.Struct, frozen=True, gc=False):
    """The `resources` of a container or pod."""

    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}


class ContainerResources(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of a container that its pod's requests depend on."""

    resources: Asked = Asked()
    restart_policy: str = ""


class PodResources(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of a pod's spec that its requests depend on; the cache decodes just this of every pod."""

    containers: list[ContainerResources] = []
    init_containers: list[ContainerResources] = []
    overhead: dict[str, Any] = {}
    resources: Asked = Asked()


def whole_amounts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Quantities by resource as whole numbers, rounded up as Kubernetes does; what is none is left out."""
    found = ((name, whole_amount(name, value)) for name, value in amounts.items())
    return {name: amount for name, amount in found if amount is not None}


def whole_amount(resource: str, value: Any) -> int | None:
    """Millicores of cpu, bytes of memory, units of everything else; None when `value` is no quantity."""
    return _whole(resource == "cpu", value) if isinstance(value, str | int | float) else None


@lru_cache(maxsize=4096, typed=True)
def _whole(milli: bool, value: str | float) -> int | None:
    number = parse_quantity(value)
    if number is None:
        return None
    if number > MOST:
        return MOST
    return int((number * (1000 if milli else 1)).to_integral_value(ROUND_CEILING)) if number > 0 else 0


def requests_of(pod: PodResources) -> Requests:
    """The pod's effective requests, by resource name, `pods` included; equal ones are one object.

    Containers and sidecars run together; an ordinary init container runs beside the sidecars before it. Limits stand
    in for requests that are missing, as the API server fills them in.
    """
    if not (pod.init_containers or pod.overhead or pod.resources.requests or pod.resources.limits):
        with suppress(TypeError):  # amounts of a shape that no API server would let pass
            return _plain(tuple([_items(container.resources) for container in pod.containers]))
    return _effective(pod)


def _items(asked: Asked) -> tuple[Any, ...]:
    """Hashable; of pods of one template the same."""
    return tuple(asked.requests.items()), tuple(asked.limits.items())


@lru_cache(maxsize=4096)
def _plain(containers: tuple[Any, ...]) -> Requests:
    """Of nearly all pods, and so once for each template."""
    asked = [ContainerResources(Asked(dict(requests), dict(limits))) for requests, limits in containers]
    return _effective(PodResources(asked))


def _effective(pod: PodResources) -> Requests:
    running: dict[str, int] = {}
    highest: dict[str, int] = {}
    for container in pod.init_containers:
        asked = _asked(container.resources)
        if container.restart_policy == "Always":
            _add(running, asked)
            _raise(highest, running)
        else:
            _raise(highest, _sum(running, asked))
    for container in pod.containers:
        _add(running, _asked(container.resources))
    _raise(running, highest)
    running.update(_asked(pod.resources))
    _add(running, whole_amounts(pod.overhead))
    running[PODS] = 1
    return _shared_requests(tuple(sorted((name, min(amount, MOST)) for name, amount in running.items() if amount > 0)))


def _asked(resources: Asked) -> dict[str, int]:
    if resources.limits:
        return whole_amounts({**resources.limits, **resources.requests})
    return whole_amounts(resources.requests)


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + amount


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    result = dict(one)
    _add(result, other)
    return result


def _raise(amounts: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        amounts[name] = max(amounts.get(name, 0), amount)


@lru_cache(maxsize=4096)
def _shared_requests(requests: Requests) -> Requests:
    return requests


def need_of(spec: Any) -> PodRequest:
    """What a pod with this spec asks for; `spec` is that of a pod or of a template, in any shape."""
    spec = as_mapping(spec)
    resources, read = _read_resources(spec)
    where = _where(spec, opaque=not read or _is_opaque(spec))
    return _shared_need(PodRequest(requests_of(resources), where))


@lru_cache(maxsize=4096)
def _shared_need(need: PodRequest) -> PodRequest:
    return need


@lru_cache(maxsize=4096)
def _shared_where(where: Where) -> Where:
    return where


def job_needs(obj: Object) -> dict[str, PodRequest]:
    """What the pods of an AscendJob ask for, by replica type (`Master`, `Worker`); empty for one without pods."""
    specs = as_mapping(as_mapping(obj.get("spec")).get("replicaSpecs"))
    templates = {kind: as_mapping(as_mapping(specs.get(kind)).get("template")) for kind in read_replicas(obj)}
    return {kind: need_of(template.get("spec")) for kind, template in templates.items()}


def ascend_job_needs(obj: Object) -> tuple[PodRequest, ...]:
    """What each pod of an AscendJob asks for, in the order of its pods' names (workloads.ascendjob.pod_names)."""
    needs = job_needs(obj)
    return tuple(need for kind, number in read_replicas(obj).items() for need in [needs[kind]] * number)


def ascend_job_priority(obj: Object) -> str:
    """Name of the PriorityClass that its scheduling policy names, "" without any."""
    policy = as_mapping(as_mapping(obj.get("spec")).get("runPolicy"))
    return as_text(as_mapping(policy.get("schedulingPolicy")).get("priorityClass"))


def volcano_job_needs(obj: Object) -> tuple[PodRequest, ...]:
    """What each pod of a Volcano Job asks for, in the order of its tasks."""
    found: list[PodRequest] = []
    for task in map(as_mapping, as_list(as_mapping(obj.get("spec")).get("tasks"))):
        number = task.get("replicas")
        if isinstance(number, int) and 0 < number <= MOST_PODS:
            found += [need_of(as_mapping(task.get("template")).get("spec"))] * number
    return tuple(found)


def _read_resources(spec: Mapping[str, Any]) -> tuple[PodResources, bool]:
    """The resources as far as they can be read, and whether that is all of them."""
    containers, inits = (_containers(spec.get(field)) for field in ("containers", "initContainers"))
    overhead, level = spec.get("overhead"), spec.get("resources")
    resources = PodResources(containers, inits, dict(as_mapping(overhead)), _resources(level))
    return resources, all(map(_is_read, [overhead, *_lists(level), *_asked_of(spec)]))


def _containers(value: Any) -> list[ContainerResources]:
    found = map(as_mapping, as_list(value))
    return [ContainerResources(_resources(c.get("resources")), as_text(c.get("restartPolicy"))) for c in found]


def _resources(value: Any) -> Asked:
    requests, limits = (dict(as_mapping(amounts)) for amounts in _lists(value))
    return Asked(requests, limits)


def _lists(resources: Any) -> tuple[Any, Any]:
    """Requests and limits, as they are."""
    found = as_mapping(resources)
    return found.get("requests"), found.get("limits")


def _asked_of(spec: Mapping[str, Any]) -> Iterator[Any]:
    for container in (*as_list(spec.get("initContainers")), *as_list(spec.get("containers"))):
        yield from _lists(as_mapping(container).get("resources"))


def _is_read(amounts: Any) -> bool:
    """Nothing, or an object of quantities."""
    if not isinstance(amounts, dict):
        return amounts is None
    return all(whole_amount(name, value) is not None for name, value in amounts.items())


def _where(spec: Mapping[str, Any], *, opaque: bool) -> Where:
    selector = as_mapping(spec.get("nodeSelector"))
    terms, read = _affinity(as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED))
    tolerations = {_toleration(as_mapping(one)) for one in as_list(spec.get("tolerations"))}
    named = as_text(spec.get("nodeName"))
    pairs = {(key, value) for key, value in selector.items() if isinstance(value, str)}
    return _shared_where(
        Where(
            selector=tuple(sorted(pairs | ({(NODE_NAME, named)} if named else set()))),
            affinity=terms,
            tolerations=tuple(sorted(tolerations)),
            opaque=opaque or not read or len(pairs) < len(selector),
        )
    )


def _affinity(required: Any) -> tuple[tuple[tuple[Requirement, ...], ...], bool]:
    """The terms, and whether all of them were understood. A term of which nothing is understood matches every node,
    and so do all terms together then."""
    terms = as_mapping(required).get("nodeSelectorTerms")
    if not isinstance(terms, list):
        return (), required is None
    read = [_term(as_mapping(term)) for term in terms]
    if any(not known and not requirements for requirements, known in read):
        return (), False
    return tuple(requirements for requirements, _ in read) or ((),), all(known for _, known in read)


def _term(term: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], bool]:
    """The requirements that are understood, and whether that is all. An empty term matches no node."""
    parts = [*as_list(term.get("matchExpressions")), *as_list(term.get("matchFields"))]
    known = [requirement for part in parts if (requirement := _requirement(as_mapping(part))) is not None]
    return tuple(sorted(known)), len(known) == len(parts) and set(term) <= {"matchExpressions", "matchFields"}


def _requirement(part: Mapping[str, Any]) -> Requirement | None:
    key, operator, values = as_text(part.get("key")), as_text(part.get("operator")), as_list(part.get("values"))
    if not key or operator not in OPERATORS or not all(isinstance(value, str) for value in values):
        return None
    return Requirement(key, operator, tuple(sorted(values)))


def _toleration(one: Mapping[str, Any]) -> Toleration:
    key, operator, value, effect = (as_text(one.get(name)) for name in ("key", "operator", "value", "effect"))
    return Toleration(key, operator or "Equal", value, effect)


def _is_opaque(spec: Mapping[str, Any]) -> bool:
    """Something besides requests, selector, node affinity and tolerations decides where it may run."""
    affinity = as_mapping(spec.get("affinity"))
    return bool(
        any(as_mapping(affinity.get(name)).get(_REQUIRED) for name in ("podAffinity", "podAntiAffinity"))
        or any(_spreads(as_mapping(one)) for one in as_list(spec.get("topologySpreadConstraints")))
        or any(_claims(as_mapping(volume)) for volume in as_list(spec.get("volumes")))
        or any(_has_host_port(as_mapping(container)) for container in as_list(spec.get("containers")))
        or spec.get("resourceClaims")
        or spec.get("runtimeClassName")
    )


def _spreads(constraint: Mapping[str, Any]) -> bool:
    return constraint.get("whenUnsatisfiable") != "ScheduleAnyway"


def _claims(volume: Mapping[str, Any]) -> bool:
    return "persistentVolumeClaim" in volume or "ephemeral" in volume


def _has_host_port(container: Mapping[str, Any]) -> bool:
    return any(as_mapping(port).get("hostPort") for port in as_list(container.get("ports")))
