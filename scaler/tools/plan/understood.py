"""Whether a what-if understands what pods say about their nodes and amounts. What it does not
understand counts as fitting, and people are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.kube.api import Object
from scaler.rules.jobspec import read_replicas
from scaler.rules.values import as_list, at
from scaler.workloads.pod_requests import (
    LONGEST_PLACEMENT,
    REQUIRED,
    PodResources,
    placement_size,
    requirement_of,
    whole_amount,
)


def is_understood(job: Object) -> bool:
    """Whether all is understood that the pods of this AscendJob or Volcano Job say."""
    specs = []
    for task in as_list(at(job, "spec").get("tasks")):
        specs.append(at(task, "template", "spec"))
    for kind, number in read_replicas(job).items():
        if number:
            specs.append(at(job, "spec", "replicaSpecs", kind, "template", "spec"))
    return sum(map(placement_size, specs)) <= LONGEST_PLACEMENT and all(map(_is_understood, specs))


def _is_understood(spec: Mapping[str, Any]) -> bool:
    selects = all(isinstance(value, str) for value in at(spec, "nodeSelector").values())
    return selects and _has_amounts(spec) and _has_terms(spec) and not _has_other_constraints(spec)


def _has_amounts(spec: Mapping[str, Any]) -> bool:
    try:
        found = msgspec.convert(spec, PodResources)
    except msgspec.ValidationError:
        return False
    asked = [found.resources]
    for container in (*(found.containers or ()), *(found.init_containers or ())):
        asked.append(container.resources)
    amounts = list((found.overhead or {}).items())
    for one in asked:
        if one:
            amounts.extend(one.amounts.items())
    return all(whole_amount(name, value) is not None for name, value in amounts)


def _has_terms(spec: Mapping[str, Any]) -> bool:
    required = at(spec, "affinity", "nodeAffinity").get(REQUIRED)
    terms = at(required).get("nodeSelectorTerms")
    return required is None or (isinstance(terms, list) and all(map(_is_read, map(at, terms))))


def _is_read(term: Mapping[str, Any]) -> bool:
    parts = [*as_list(term.get("matchExpressions")), *as_list(term.get("matchFields"))]
    known = all(requirement_of(at(part)) is not None for part in parts)
    return known and term.keys() <= {"matchExpressions", "matchFields"}


def _has_other_constraints(spec: Mapping[str, Any]) -> bool:
    """Whether other fields than requests, selector, node affinity and tolerations decide about
    nodes."""
    affinity = at(spec, "affinity")
    for name in ("podAffinity", "podAntiAffinity"):
        if at(affinity, name).get(REQUIRED):
            return True
    for spread in map(at, as_list(spec.get("topologySpreadConstraints"))):
        if spread.get("whenUnsatisfiable") != "ScheduleAnyway":
            return True
    for volume in map(at, as_list(spec.get("volumes"))):
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            return True
    for container in map(at, as_list(spec.get("containers"))):
        for port in map(at, as_list(container.get("ports"))):
            if port.get("hostPort"):
                return True
    return bool(spec.get("resourceClaims") or spec.get("runtimeClassName"))
