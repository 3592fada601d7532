"""The content of each of the page's views, as tables (tools.ui.feed). Values only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.names import RULE_KEY
from scaler.rules.finding import printable
from scaler.rules.values import as_list, as_text, at
from scaler.timestamps import seconds_of
from scaler.tools.common.detail import ServiceDetail, detail_of
from scaler.tools.common.records import EventRecord
from scaler.tools.common.view import Cluster
from scaler.tools.ui.board import MOST_WORDS, Board, row_of
from scaler.tools.ui.history import History, Moment

Rows = dict[str, Any]


def gaps(cluster: Cluster) -> list[Rows]:
    """What is not seen, and why."""
    found: list[Rows] = []
    for gap in cluster.gaps():
        found.append({"resource": gap.resource, "why": gap.why, "installed": gap.installed})
    return found


def service(board: Board, key: str) -> dict[str, Rows]:
    """All parts of one service; empty tables when there is no such service."""
    view = board.view(key)
    if view is None:
        return {"service": {}, "instances": {}, "moments": {}, "samples": {}}
    detail = detail_of(board.cluster, view)
    history = board.history(key)
    return {
        "service": {"": _head(detail)},
        "instances": _instances(detail),
        "moments": _moments(detail, history),
        "samples": {f"{sample.at:.3f}": sample.groups for sample in history.samples},
    }


def _head(detail: ServiceDetail) -> Rows:
    status = detail.view.status
    return {
        **row_of(detail.view),
        "created": detail.view.created,
        "alone": as_text(status.get("alone")),
        "outOfTouch": as_text(status.get("outOfTouch")),
        "warnings": [_warning(at(one)) for one in as_list(status.get("warnings"))],
        "said": [_condition(at(one)) for one in as_list(status.get("conditions"))],
        "leftOut": dict(at(status, "leftOut")),
    }


def _warning(warning: Mapping[str, Any]) -> list[str]:
    return [
        as_text(warning.get("type")),
        as_text(warning.get("instance")),
        as_text(warning.get("message")),
    ]


def _condition(condition: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name in ("type", "status", "reason", "message", "lastTransitionTime"):
        found[name] = as_text(condition.get(name))[:MOST_WORDS]
    return found


def _instances(detail: ServiceDetail) -> Rows:
    found = {}
    for one in detail.instances:
        found[one.name] = {
            "group": one.group,
            "kind": one.kind,
            "state": one.state,
            "reason": one.reason,
            "message": one.message,
            "since": one.since,
            "nodes": one.nodes,
            "pods": [
                [pod.name, pod.standing, pod.node, pod.trouble, pod.restarts, printable(pod.said)]
                for pod in one.pods
            ],
        }
    return found


def _moments(detail: ServiceDetail, history: History) -> Rows:
    """Events under their own names; other entries by kind and time."""
    rows: Rows = {f"event/{event.name}": _event(event) for event in detail.events}
    for moment in history.moments:
        rows[f"{moment.at:.3f}/{moment.kind}/{moment.subject}/{moment.reason}"] = _moment(moment)
    return rows


def _event(event: EventRecord) -> Rows:
    level = "warning" if event.type == "Warning" else "plain"
    at_ = seconds_of(event.last)
    return _moment(
        Moment(
            at_,
            "event",
            level,
            event.about,
            event.reason,
            printable(event.message),
            event.count,
            event.source,
        )
    )


def _moment(moment: Moment) -> Rows:
    return {
        "at": moment.at,
        "kind": moment.kind,
        "level": moment.level,
        "subject": moment.subject,
        "reason": moment.reason,
        "text": moment.text,
        "count": moment.count,
        "source": moment.source,
    }


def rule_text(board: Board, key: str) -> Rows | None:
    """The text of the rule in the cluster; None when the service or its rule is missing."""
    view = board.view(key)
    if view is None:
        return None
    record = board.cluster.cache.config_maps.get(view.key.namespace, view.key.rule)
    if record is None:
        return None
    return {
        "namespace": record.namespace,
        "name": record.name,
        "key": RULE_KEY,
        "annotations": dict(sorted(record.annotations.items())),
        "text": record.document or "",
    }
