"""Pod requests, from pod specs and job templates: amounts as Kubernetes counts them, and allowed
nodes. Pure.

Must not raise on any input. Anything that cannot be interpreted counts as fitting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any

import msgspec

from scaler.decide.nodes import NODE_NAME, PODS, PodRequest, Requirement, Toleration, Where
from scaler.kube.api import Object
from scaler.kube.quantity import add_quantities, parse_quantity
from scaler.remembered import Remembered, Sharing
from scaler.rules.jobspec import read_replicas
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import as_count, as_list, as_text, at

MOST = (1 << 63) - 1
"""Kubernetes' own limit of a quantity."""
MOST_RESOURCES = 64
LONGEST_RESOURCE = 317
"""Names of resources in the requests of a pod, and the characters of one: no node has more."""
LONGEST_QUANTITY = 64
LONGEST_PLACEMENT = 8 * 1024
"""Characters of selector, affinity and tolerations, in all templates of a job: beyond that every
node is allowed."""
LONGEST_REMEMBERED = 2048
"""Bytes of the JSON of requests whose result is remembered; ordinary ones have 300."""
PLACEMENT = ("nodeSelector", "affinity", "tolerations")
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_shared = Sharing(2**23)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Requests = tuple[tuple[str, int], ...]


class Resources(msgspec.Struct, frozen=True, gc=False):
    """The `resources` of a container or pod. As elsewhere, null means the same as absent."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None

    @property
    def amounts(self) -> dict[str, Any]:
        """The requests; a missing request is replaced by its limit, as the API server does."""
        return {**(self.limits or {}), **(self.requests or {})}


class ContainerResources(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resources: Resources | None = None
    restart_policy: str | None = None


class PodResources(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The fields of a pod's spec that its requests depend on; the cache decodes only these of every
    pod."""

    containers: list[ContainerResources] | None = None
    init_containers: list[ContainerResources] | None = None
    overhead: dict[str, Any] | None = None
    resources: Resources | None = None


def whole_amounts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Quantities by resource as whole numbers, rounded up as Kubernetes does; other values are left
    out."""
    found = {}
    for name, value in amounts.items():
        amount = whole_amount(name, value)
        if amount is not None:
            found[name] = amount
    return found


def whole_amount(resource: str, value: Any) -> int | None:
    """Millicores of cpu, bytes of memory, units of other resources; None when `value` is no
    quantity."""
    if not isinstance(value, str | int | float) or (
        isinstance(value, str) and len(value) > LONGEST_QUANTITY
    ):
        return None
    return _whole(resource == "cpu", value)


@lru_cache(maxsize=4096, typed=True)
def _whole(milli: bool, value: str | float) -> int | None:
    number = parse_quantity(value)
    if number is None:
        return None
    if number > MOST:
        return MOST
    return (
        int((number * (1000 if milli else 1)).to_integral_value(ROUND_CEILING)) if number > 0 else 0
    )


def requests_of(pod: PodResources) -> Requests:
    """The pod's effective requests, by resource name, `pods` included; equal ones are one object.
    Containers and sidecars run together; an ordinary init container runs beside the sidecars before
    it."""
    # without other fields
    alone = PodResources(pod.containers, pod.init_containers, pod.overhead, pod.resources)
    try:
        text = msgspec.json.encode(alone)
    except (
        ValueError,
        TypeError,
        OverflowError,
        RecursionError,
    ):  # amounts that no API server accepts
        return _effective(pod)
    return _remembered(text) if len(text) <= LONGEST_REMEMBERED else _effective(pod)


_read: Remembered[bytes, Requests] = Remembered(2**21)


def _remembered(text: bytes) -> Requests:
    known = _read.get(text)
    if known is not None:
        return known
    return _read.keep(text, _effective(msgspec.json.decode(text, type=PodResources)))


def _effective(pod: PodResources) -> Requests:
    running: Counter[str] = Counter()
    highest: Counter[str] = Counter()
    for container in pod.init_containers or ():
        own = _amounts(container.resources)
        if container.restart_policy == "Always":
            running += own
            highest |= running
        else:
            highest |= running + own
    for container in pod.containers or ():
        running += _amounts(container.resources)
    amounts = {**(running | highest), **_amounts(pod.resources)}
    found = Counter(amounts) + Counter(whole_amounts(pod.overhead or {}))
    found[PODS] = 1
    limited = [(name, min(amount, MOST)) for name, amount in _some(found)]
    return _shared(tuple(sorted(limited)))


def _amounts(resources: Resources | None) -> Counter[str]:
    return Counter(whole_amounts(dict(_some(resources.amounts))) if resources else {})


def _some(amounts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """At most as many resources as a node may have, those of Kubernetes itself first."""
    possible = [(name, amount) for name, amount in amounts.items() if len(name) <= LONGEST_RESOURCE]
    if len(possible) > MOST_RESOURCES:
        possible.sort(key=lambda one: ("/" in one[0], one[0]))
    return possible[:MOST_RESOURCES]


def pod_request_of(spec: Any, *, large: bool = False) -> PodRequest:
    """The request of a pod with this spec (of a pod or a template, in any shape). `large`: every
    node is allowed."""
    spec = at(spec)
    try:
        found = msgspec.convert(spec, PodResources)
    except msgspec.ValidationError:
        found = PodResources()
    where = Where() if large or placement_size(spec) > LONGEST_PLACEMENT else _where(spec)
    return _shared(PodRequest(requests_of(found), where))


def ascend_job_requests(obj: Object) -> tuple[PodRequest, ...]:
    """The request of each pod of an AscendJob, in the order of `Job.pods`."""
    found = []
    for kind, number in read_replicas(obj).items():
        found.append((at(obj, "spec", "replicaSpecs", kind, "template", "spec"), number))
    return _for_each_pod(found)


def volcano_job_requests(obj: Object) -> tuple[PodRequest, ...]:
    """The request of each pod of a Volcano Job, in the order of its tasks."""
    found = []
    for task in map(at, as_list(at(obj, "spec").get("tasks"))):
        found.append((at(task, "template", "spec"), as_count(task.get("replicas"))))
    return _for_each_pod(found)


def _for_each_pod(found: Sequence[tuple[Mapping[str, Any], int]]) -> tuple[PodRequest, ...]:
    """`found`: the specs of pods, and how many pods have each."""
    pods = 0
    size = 0
    for spec, number in found:
        pods += number
        size += placement_size(spec) if number else 0
    if pods > MAX_PODS:
        return ()
    requests: list[PodRequest] = []
    for spec, number in found:
        if number:
            request = pod_request_of(spec, large=size > LONGEST_PLACEMENT)
            requests += [request] * number
    return tuple(requests)


def placement_size(spec: Mapping[str, Any]) -> int:
    """Characters of the fields about allowed nodes."""
    return sum(len(repr(spec[name])) for name in PLACEMENT if name in spec)


def amounts_of(container: Mapping[str, Any]) -> dict[str, Any]:
    """The amounts of a container of any shape, as `Resources.amounts` gives them."""
    return {**at(container, "resources", "limits"), **at(container, "resources", "requests")}


def amounts_together(specs: Iterable[tuple[Mapping[str, Any], int]]) -> dict[str, str]:
    """The sum of what the containers of all these pods request: the minResources of a PodGroup."""
    amounts: defaultdict[str, list[Any]] = defaultdict(list)
    for spec, pods in specs:
        for container in as_list(spec.get("containers")):
            for name, amount in amounts_of(at(container)).items():
                amounts[name] += [amount] * pods
    return {name: add_quantities(amounts[name]) for name in sorted(amounts) if amounts[name]}


def _where(spec: Mapping[str, Any]) -> Where:
    tolerations = set()
    for one in map(at, as_list(spec.get("tolerations"))):
        toleration = Toleration(
            key=as_text(one.get("key")),
            operator=as_text(one.get("operator")) or "Equal",
            value=as_text(one.get("value")),
            effect=as_text(one.get("effect")),
        )
        tolerations.add(toleration)
    pairs = at(spec, "nodeSelector").items()
    chosen = {(key, value) for key, value in pairs if isinstance(value, str)}
    node = as_text(spec.get("nodeName"))
    if node:
        chosen.add((NODE_NAME, node))
    terms = _affinity(at(spec, "affinity", "nodeAffinity").get(REQUIRED))
    return _shared(
        Where(
            selector=tuple(sorted(chosen)), affinity=terms, tolerations=tuple(sorted(tolerations))
        )
    )


def _affinity(required: Any) -> tuple[tuple[Requirement, ...], ...]:
    """The terms. A term of which nothing is understood matches every node, and then so do all terms
    together."""
    terms = at(required).get("nodeSelectorTerms")
    if not isinstance(terms, list):
        return ()
    understood = []
    for one in terms:
        term = _term(at(one))
        if term is None:
            return ()
        understood.append(term)
    return tuple(understood) or ((),)


def _term(term: Mapping[str, Any]) -> tuple[Requirement, ...] | None:
    """The requirements that are understood; none in an empty term, which matches no node. None
    where the term says something and nothing of it is understood."""
    parts = [*as_list(term.get("matchExpressions")), *as_list(term.get("matchFields"))]
    known = []
    for part in parts:
        requirement = requirement_of(at(part))
        if requirement is not None:
            known.append(requirement)
    is_empty = not parts and term.keys() <= {"matchExpressions", "matchFields"}
    return tuple(sorted(known)) if known or is_empty else None


def requirement_of(part: Mapping[str, Any]) -> Requirement | None:
    """One expression of a term; None where it is not understood."""
    key = as_text(part.get("key"))
    operator = as_text(part.get("operator"))
    values = as_list(part.get("values"))
    if not (key and operator in OPERATORS and all(isinstance(value, str) for value in values)):
        return None
    return Requirement(key, operator, tuple(sorted(values)))
