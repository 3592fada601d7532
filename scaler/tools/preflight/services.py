"""The existing services: their state, and what is wrong with their labels and rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.kube.api import ELASTIC_SERVICES, Object
from scaler.rules.finding import Finding
from scaler.rules.values import as_list, at
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import Picture, place_of
from scaler.tools.preflight.platform import missing_right

_LEVELS = {"error": Level.ERROR, "warning": Level.WARNING}
NO_RULE = "RuleNotFound"
MOST = 5
"""Findings of each level that are listed one by one."""


def services(picture: Picture) -> Check:
    """Services that are not available, and the findings of lint in the cluster."""
    there = picture.of(ELASTIC_SERVICES)
    unavailable = []
    for one in there:
        if not _is_available(one):
            unavailable.append(place_of(one))
    found = [*missing_right(picture, ELASTIC_SERVICES), *_linted(picture)]
    if unavailable:
        words = f"{len(unavailable)} of {len(there)} are not available: {listed(unavailable)}"
        found.append(
            CheckResult(Level.WARNING, words, f"scaler why {unavailable[0]}", tuple(unavailable))
        )
    if picture.linted.left_out:
        words = (
            f"the labels of {picture.linted.left_out} more workloads: they are too many for one"
            " look"
        )
        found.append(CheckResult(Level.UNKNOWN, words, "scaler preflight -n NAMESPACE"))
    kinds = sorted(picture.linted.checked.items())
    checked = ", ".join(f"{number} {kind}" for kind, number in kinds)
    judged = f"nothing wrong in {checked}" if checked else "no rule to check"
    where = f" in {picture.namespace}" if picture.namespace else ""
    return check("services", found, ok(f"{len(there)}{where}; {judged}"))


def _is_available(service: Object) -> bool:
    conditions = [at(one) for one in as_list(at(service, "status").get("conditions"))]
    return not any(
        one.get("type") == "Available" and one.get("status") == "False" for one in conditions
    )


def _linted(picture: Picture) -> Iterator[CheckResult]:
    findings = []
    for one in picture.linted.findings:
        found = _in_a_cluster(picture, one)
        if found is not None:
            findings.append(found)
    for name, level in _LEVELS.items():
        wrong = [one for one in findings if one.level == name]
        for one in wrong[:MOST]:
            yield CheckResult(
                level,
                f"{one.file}: {one.message}",
                one.hint,
                (f"{one.code} {one.pointer}".strip(),),
            )
        if len(wrong) > MOST:
            namespace = f"-n {picture.namespace}" if picture.namespace else "-A"
            words = f"{len(wrong) - MOST} more {name}s in rules and workloads"
            advice = f"kubectl get {namespace} configmap,acjob,deploy -o yaml | scaler lint -"
            yield CheckResult(level, words, advice)


def _in_a_cluster(picture: Picture, found: Finding) -> Finding | None:
    """The finding, or None: a missing rule is a fault only if all ConfigMaps were read, else
    unknown."""
    if found.code != NO_RULE:
        return found
    if not picture.linted.has_rules:
        return None
    rule = found.message.partition(" is not ")[0]
    message = f"its {rule} does not exist"
    hint = "apply the rule's ConfigMap"
    return msgspec.structs.replace(found, level="error", message=message, hint=hint)
