"""The elastic part of a service: its rule, and the labels and the gate of its instances."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from scaler.kube.api import Object
from scaler.names import GATE, GROUP_LABEL, JOB_ID_LABEL, RULE_KEY, RULE_LABEL
from scaler.rules.check import check
from scaler.rules.finding import Finding, shown
from scaler.rules.limits import MAX_RATIOS
from scaler.rules.shape import LIST
from scaler.tools.common.short_file.config import File
from scaler.tools.common.short_file.source import Scalar, mistake

_SHORT = re.compile(r"([0-9]{1,5})[pP]([0-9]{1,5})[dD]")
_WHOLE = re.compile(r"[0-9]{1,5}")
MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
"""Annotation of pods: how many pods Volcano starts together. In an elastic service: those of one
instance."""


class Group(NamedTuple):
    """Instances of the same role."""

    role: str
    """The name in `ratios:` of the file: prefill, decode, engine."""
    name: str
    """The name in the rule."""
    instances: int
    pods: int
    """Pods of an instance."""


class Elastic(NamedTuple):
    """The rule of a service, and the groups in it."""

    rule: str
    """Name of its ConfigMap."""
    job_id: str
    groups: dict[str, str]
    """Role -> name of the group."""
    config_map: Object

    def labels(self, role: str) -> dict[str, str]:
        """Labels of the instances of a role."""
        return {RULE_LABEL: self.rule, GROUP_LABEL: self.groups[role], JOB_ID_LABEL: self.job_id}

    @property
    def gates(self) -> list[Object]:
        """Gates of their pods."""
        return [{"name": GATE}]


def elastic_of(
    file: File, groups: Sequence[Group], rule: str
) -> tuple[Elastic | None, list[Finding]]:
    """The elastic part, None if the file has no ratios; and the faults of the ratios."""
    written = file.ratios
    if written is None:
        return None, []
    if len(written) > MAX_RATIOS:
        return None, [mistake(("ratios",), f"more than {MAX_RATIOS:,} ratios")]
    faults: list[Finding] = []
    counts = [_counts(item, number, groups, faults) for number, item in enumerate(written)]
    if faults:
        return None, faults
    document = {"version": "1.0", LIST: [_entry(one, groups) for one in counts]}
    faults = []
    for fault in check(document)[1]:
        if fault.level == "error":
            faults.append(_placed(fault, groups))
    for number, one in enumerate(counts):
        faults.extend(_too_many(one, number, groups))
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": rule, "namespace": file.app_namespace},
        "data": {RULE_KEY: _text(document)},
    }
    return Elastic(
        rule, file.app_name, {group.role: group.name for group in groups}, config_map
    ), faults


def _text(document: Object) -> str:
    """The document with one ratio per line, for people who read it in the cluster."""
    ratios = ",\n".join(f"    {json.dumps(one)}" for one in document[LIST])
    return (
        f'{{\n  "version": {json.dumps(document["version"])},\n  "{LIST}": [\n{ratios}\n  ]\n}}\n'
    )


def _entry(counts: dict[str, int], groups: Sequence[Group]) -> Object:
    return {
        "group_list": [
            {
                "group_name": group.name,
                "group_num": str(counts[group.role]),
                "server_num_per_group": str(group.pods),
            }
            for group in groups
        ]
    }


def _counts(
    item: Any, number: int, groups: Sequence[Group], faults: list[Finding]
) -> dict[str, int]:
    """Instances of each role in a ratio; unreadable values are faults."""
    roles = [group.role for group in groups]
    if isinstance(item, str) and len(roles) == 2 and (found := _SHORT.fullmatch(item)):
        return dict(zip(roles, map(int, found.groups()), strict=True))
    if isinstance(item, str) and len(roles) == 1 and _WHOLE.fullmatch(item):
        return {roles[0]: int(item)}
    if isinstance(item, dict):
        return _named(item, number, roles, faults)
    faults.append(
        mistake(("ratios", number), f"{shown(_plain(item))} is no ratio", _example(roles))
    )
    return {}


def _named(
    item: dict[str, Any], number: int, roles: Sequence[str], faults: list[Finding]
) -> dict[str, int]:
    known = ", ".join(roles)
    for name, count in item.items():
        if name not in roles:
            faults.append(
                mistake(("ratios", number, name), "is no group of this service", f"it has {known}")
            )
        elif not (isinstance(count, str) and _WHOLE.fullmatch(count)):
            faults.append(
                mistake(
                    ("ratios", number, name), f"a whole number is needed, found {_plain(count)}"
                )
            )
    missing = [role for role in roles if role not in item]
    for role in missing:
        faults.append(
            mistake(("ratios", number), f"{role} is missing", f"add {role}: 0 if none is to run")
        )
    return {} if faults else {role: int(item[role]) for role in roles}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str | Scalar) else value


def _example(roles: Sequence[str]) -> str:
    return (
        "write 2P1D or {prefill: 2, decode: 1}"
        if len(roles) == 2
        else f"write 2 or {{{roles[0]}: 2}}"
    )


def _placed(fault: Finding, groups: Sequence[Group]) -> Finding:
    """A fault of the rule, at the place in the file that the value comes from."""
    path = fault.path
    if len(path) < 2:
        return mistake(("ratios",), fault.message, fault.hint)
    place: tuple[str | int, ...] = ("ratios", path[1])
    group = path[3] if len(path) > 3 else None
    if isinstance(group, int):
        place = (*place, groups[group].role)
    return mistake(place, fault.message, fault.hint)


def _too_many(counts: dict[str, int], number: int, groups: Sequence[Group]) -> list[Finding]:
    found: list[Finding] = []
    for group in groups:
        if counts[group.role] > group.instances:
            found.append(
                mistake(
                    ("ratios", number, group.role),
                    f"{counts[group.role]} instances, and the service has {group.instances}",
                )
            )
    return found
