"""The status ConfigMap of one rule: one document for machines and the same as text for a person at 3 am. Pure.

Nothing in it changes while the service is at rest: no times, no resourceVersions. Must not write anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scaler.decide.explain import words
from scaler.decide.world import GroupPlan, Plan, State, Verdict, Warning
from scaler.kube.api import Object
from scaler.report.service_reports import ServiceReport
from scaler.state.own_config_maps import Home, config_map

MAX_BYTES = 900 * 1024
"""Of both documents together; the API server takes 1 MiB per object."""
_MOST_INSTANCES = 1600
"""More never fit; knowing that spares the event loop the rendering of ten thousand."""
_MOST_GROUPS = 200
"""Per service: it has a handful. A rule may name ten thousand; no cut in the list of instances makes room for that."""
_MAX_NAME = 64
"""Characters of a group's name; a label, and so a job, can name none that is longer than 63."""
_MAX_WORDS = 500
_MAX_WARNINGS = 100
_QUIET = frozenset({State.RUNNING, State.FINISHED})
"""Left out first when not all instances fit."""


_RULE_PROBLEMS = frozenset({Warning.RULE_MISSING.value, Warning.RULE_INVALID.value})


def status_config_map(reports: Sequence[ServiceReport], home: Home) -> Object:
    """The ConfigMap for one rule; `reports` are its services, at least one, the newest last."""
    rule = reports[0].rule
    whole, most = status_document(reports), _MOST_INSTANCES
    while True:
        document = _truncated(whole, most)
        data = {"status.json": _json(document), "status.txt": status_text(document)}
        if not most or sum(len(text.encode("utf-8", "surrogatepass")) for text in data.values()) <= MAX_BYTES:
            return config_map(home.status(rule), rule, {"data": data})
        most //= 2


def status_document(reports: Sequence[ServiceReport]) -> dict[str, Any]:
    """What `status.json` holds; see docs/reference/status.md for every field."""
    ordered = sorted(reports, key=lambda report: report.plan.key)
    return {
        "format": 1,
        "rule": _rule(reports[-1]),
        "services": [_service(report) for report in ordered],
        "left_out": {
            "services": 0,
            "groups": sum(max(0, len(report.plan.groups) - _MOST_GROUPS) for report in ordered),
            "instances": 0,
        },
    }


def _rule(report: ServiceReport) -> dict[str, Any]:
    problem, last_valid = report.service.problem, report.last_valid
    return {
        "namespace": report.rule.namespace,
        "name": report.rule.name,
        "in_force": last_valid.sha256 if last_valid and report.service.rule else None,
        "problem": {"kind": problem.kind.value, "message": problem.message[:_MAX_WORDS]} if problem else None,
        "paused": report.service.options.paused,
        "out_of_touch": report.out_of_touch,
        "ratios": len(report.service.rule.ratios) if report.service.rule else 0,
    }


def _service(report: ServiceReport) -> dict[str, Any]:
    plan, current = report.plan, current_ratio(report)
    kinds = {instance.uid: instance.kind for instance in report.service.instances}
    return {
        "job_id": plan.key.job_id,
        "serves": current is not None,
        "current": current,
        "target": _ratio(plan.target_index, plan.target, plan) if plan.target_index >= 0 else None,
        "complete": plan.complete,
        "groups": {name[:_MAX_NAME]: _group(plan.groups[name]) for name in _groups_to_show(plan)},
        "instances": [
            _instance(verdict, kinds.get(verdict.uid, ""), words(verdict, plan)) for verdict in plan.verdicts
        ],
        "arbitration": {"takes_part": not report.alone, "why_not": report.alone},
        "warnings": _warnings(plan),
    }


def current_ratio(report: ServiceReport) -> dict[str, Any] | None:
    """The largest ratio of which every group runs what it names; None while not even the smallest does."""
    groups = report.plan.groups
    for index, ratio in enumerate(report.service.rule.ratios if report.service.rule else ()):
        if all(number <= (groups[name].running if name in groups else 0) for name, number in ratio.counts.items()):
            return _ratio(index, ratio.counts, report.plan)
    return None


def _ratio(index: int, counts: Mapping[str, int], plan: Plan) -> dict[str, Any]:
    shown = counts if len(counts) <= _MOST_GROUPS else _groups_to_show(plan)
    return {"index": index, "counts": {name[:_MAX_NAME]: counts[name] for name in shown if name in counts}}


def _groups_to_show(plan: Plan) -> list[str]:
    """By name; when there are too many, those that have jobs first."""
    groups = plan.groups
    if len(groups) <= _MOST_GROUPS:
        return sorted(groups)
    return sorted(sorted(groups, key=lambda name: (not groups[name].live, name))[:_MOST_GROUPS])


def _group(group: GroupPlan) -> dict[str, int]:
    """Without `admit` and `revoke`: they say what is about to happen, not what is."""
    return {name: getattr(group, name) for name in ("target", "running", "in_flight", "held", "live", "paired")}


def _instance(verdict: Verdict, kind: str, why: str) -> dict[str, Any]:
    return {
        "name": verdict.name,
        "kind": kind,
        "group": verdict.group,
        "state": verdict.state.value,
        "reason": verdict.reason.value,
        "words": why[:_MAX_WORDS],
    }


def _warnings(plan: Plan) -> list[dict[str, str]]:
    names = {verdict.uid: verdict.name for verdict in plan.verdicts}
    return [
        {"warning": note.warning.value, "instance": names.get(note.uid, ""), "message": note.message[:_MAX_WORDS]}
        for note in plan.notes[:_MAX_WARNINGS]
    ]


def _truncated(document: Mapping[str, Any], most: int) -> dict[str, Any]:
    """At most `most` instances, those that need attention first, and no more services than that plus one."""
    services, left = [], most
    for service in document["services"][: most + 1]:
        kept = _most_interesting(service["instances"], left)
        left -= len(kept)
        services.append({**service, "instances": kept, "warnings": service["warnings"][: most + 1]})
    left_out = {
        "services": len(document["services"]) - len(services),
        "groups": document["left_out"]["groups"],
        "instances": sum(len(service["instances"]) for service in document["services"]) - (most - left),
    }
    return {**document, "services": services, "left_out": left_out}


def _most_interesting(instances: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    ranked = sorted(range(len(instances)), key=lambda index: (instances[index]["state"] in _QUIET, index))
    return [instances[index] for index in sorted(ranked[:most])]


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def status_text(document: Mapping[str, Any]) -> str:
    """What `status.txt` holds: aligned, one line per instance."""
    rule = document["rule"]
    lines = [f"rule {rule['namespace']}/{rule['name']}{_standing(rule)}"]
    if rule["problem"]:
        lines.append(f"! {rule['problem']['kind']}: {rule['problem']['message']}")
    if rule["out_of_touch"]:
        lines.append(f"! the scaler does not see what it decides on: {rule['out_of_touch']}")
    for service in document["services"]:
        lines += ["", *_service_text(service)]
    if any(document["left_out"].values()):
        left_out = document["left_out"]
        what = ", ".join(f"{number} {name}" for name, number in left_out.items() if number)
        lines += ["", f"! too long: {what} left out"]
    return "\n".join(lines) + "\n"


def _standing(rule: Mapping[str, Any]) -> str:
    if not rule["ratios"]:
        return ": no valid one was ever seen, nothing is admitted"
    if rule["problem"]:
        return ": the last valid one is in force"
    return ": paused" if rule["paused"] else ""


def _service_text(service: Mapping[str, Any]) -> Iterable[str]:
    current, target = service["current"], service["target"]
    running = f"runs {_ratio_text(current)}" if current or not target else "does not serve"
    standing = "complete" if service["complete"] else f"works towards {_ratio_text(target)}"
    yield f"service {service['job_id'] or '-'}: {running}, {standing}"
    if target and service["arbitration"]["why_not"]:
        yield f"  not weighed against other services: {service['arbitration']['why_not']}"
    for warning in service["warnings"]:
        if warning["warning"] in _RULE_PROBLEMS:
            continue  # said above, once for all services
        about = f" ({warning['instance']})" if warning["instance"] else ""
        yield f"! {warning['warning']}{about}: {warning['message']}"
    yield from _table(
        ("GROUP", "TARGET", "RUNNING", "IN FLIGHT", "HELD"),
        [(name, *_counts_text(group)) for name, group in service["groups"].items()],
    )
    yield from _table(
        ("INSTANCE", "GROUP", "STATE", "REASON", "WHY"),
        [(i["name"], i["group"] or "-", i["state"], i["reason"], i["words"]) for i in service["instances"]],
    )


def _counts_text(group: Mapping[str, int]) -> tuple[str, ...]:
    running = f"{group['running']} ({group['paired']} in a pair)" if group["paired"] else str(group["running"])
    return str(group["target"]), running, str(group["in_flight"]), str(group["held"])


def _ratio_text(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return "no ratio"
    counts = " + ".join(f"{number} {group}" for group, number in ratio["counts"].items() if number)
    return f"ratio {ratio['index']} ({counts or 'nothing'})"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    if not rows:
        return
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
