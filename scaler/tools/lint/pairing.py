"""Which objects have rules, which workloads name them, and what is wrong between the two."""

from __future__ import annotations

from collections.abc import Container, Sequence

from scaler.names import MANAGED_BY, MANAGED_BY_LABEL, RULE_KEY, RULE_LABEL
from scaler.rules.finding import Finding
from scaler.tools.common.manifest import Object
from scaler.tools.lint.configmap import RuleMap, is_rank_table, is_rule_map, read_rule_map
from scaler.tools.lint.jobs import is_service_job, job_label_faults, rule_name
from scaler.tools.lint.roles import NamedRule, Rules, labels_at, same_namespace, workload_faults
from scaler.tools.lint.workloads import labels_are_its_own, roles_of

HOLDERS = ("ConfigMap", "Secret")
"""Kinds that may have a rule in their data."""


def faults_of(found: Object, rules: Rules) -> list[Finding] | None:
    """Findings about the labels, gates and sizes of a workload; None for a workload of no
    service."""
    if labels_are_its_own(found):
        return job_label_faults(found, rules) if is_service_job(found) else None
    return None if found.kind in HOLDERS else workload_faults(found, rules)


def rules_among(found: Sequence[Object]) -> tuple[list[RuleMap], Rules]:
    """The ConfigMaps with rules (or meant to have one), and the same by their names."""
    named = set()
    for one in found:
        for name in _named_by(one):
            named.add((one.namespace, name))
    maps = []
    rules = []
    for one in found:
        if not _may_hold(one) or is_ours(one) or is_rank_table(one):
            continue
        if is_rule_map(one, wanted=_is_named(one, named)):
            read = read_rule_map(one)
            maps.append(read)
            rules.append(NamedRule(one.namespace, one.name, read.rule))
    return maps, Rules(rules)


def is_made(found: Object, names: Container[tuple[str, str]]) -> bool:
    """Whether another object makes this one, so that the other object has to be corrected. `names`
    are the kinds and names of all objects in the files."""
    holder = found.root.get("metadata", "ownerReferences")
    owners = []
    for one in holder.items if holder else ():
        owners.append((one.string_at("kind"), one.string_at("name")))
    if not owners or found.kind == "Pod":  # the labels of a pod may have been edited directly
        return False
    if found.kind in ("ReplicaSet", "ControllerRevision"):
        return True
    return any(owner in names for owner in owners)


def _named_by(found: Object) -> set[str]:
    """The rules that an object names."""
    if labels_are_its_own(found):
        return {rule_name(found)} - {""}
    names = set()
    for role in roles_of(found) or ():
        for path in role.labels.values():
            names.add(labels_at(found, path).get(RULE_LABEL, ""))
    return names - {""}


def _may_hold(found: Object) -> bool:
    """Whether it is a ConfigMap, or the data of one without its head."""
    return found.kind in HOLDERS or (
        not found.kind and found.root.get("data", RULE_KEY) is not None
    )


def is_ours(found: Object) -> bool:
    return found.root.string_at("metadata", "labels", MANAGED_BY_LABEL) == MANAGED_BY


def _is_named(holder: Object, named: set[tuple[str, str]]) -> bool:
    for namespace, name in named:
        if name == holder.name and same_namespace(namespace, holder.namespace):
            return True
    return False
