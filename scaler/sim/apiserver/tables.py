"""Objects as the rows of `kubectl get`: the server's side of printing.

The columns of custom resources come from their definition, those of a few built-in kinds from here;
other kinds have name and age. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scaler.kube.api import Object
from scaler.sim.actors import objects
from scaler.sim.apiserver.kinds import Kind
from scaler.timestamps import seconds_of

Cell = Any
_Print = Callable[[Object, float], Cell]
_Column = tuple[str, int, _Print]
"""Title, priority (0 is always shown, 1 with -o wide) and the function from an object and a time to
the text."""


def table(kind: Kind, objects: Iterable[Object], now: float, *, whole: bool = False) -> Object:
    """A Table of meta.k8s.io. `whole` puts the objects into the rows, otherwise only their
    metadata.

    An object in a row has its kind, unlike in a list: kubectl sorts only objects with a kind."""
    columns = [_NAME, *_columns(kind)]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    named = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}
    rows = []
    for obj in objects:
        cells = [show(obj, now) for _, _, show in columns]
        shown = {**named, **obj} if whole else {**partial, "metadata": obj["metadata"]}
        rows.append({"cells": cells, "object": shown})
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [
            {
                "name": title,
                "type": "string",
                "format": "name" if title == "Name" else "",
                "description": title,
                "priority": priority,
            }
            for title, priority, _ in columns
        ],
        "rows": rows,
    }


def _columns(kind: Kind) -> Iterator[_Column]:
    for column in kind.columns:
        path = str(column["jsonPath"])
        show = _age_at(path) if column.get("type") == "date" else _at(path, "")
        yield str(column["name"]), int(column.get("priority", 0)), show
    if not kind.columns:
        yield from _BUILT_IN.get(kind.built_in, [_AGE])


_STEP = re.compile(
    r"\.((?:[^.\[\\]|\\.)+)|\[(-?\d+):?\]|\['([^']+)'\]|\[\?\(@\.(\w+)==\"(\w+)\"\)\]"
)


def json_path(obj: Any, path: str) -> Any:
    """The value at a path such as `.status.conditions[-1:].type`; None when there is none. The only
    supported filter is the one for the first item with a certain text in a field; no wildcards."""
    for name, index, quoted, field, word in _STEP.findall(path):
        if field:
            obj = _first_with(obj, field, word)
        elif index:
            obj = _item(obj, int(index))
        else:
            obj = obj.get(quoted or name.replace("\\", "")) if isinstance(obj, dict) else None
    return obj


def _first_with(items: Any, field: str, word: str) -> Any:
    """The first item with that text in the field; None when there is none."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get(field) == word:
            return item
    return None


def _item(items: Any, index: int) -> Any:
    if isinstance(items, list) and -len(items) <= index < len(items):
        return items[index]
    return None


def age(timestamp: str | None, now: float) -> str:
    """The age as kubectl prints it: 5s, 3m10s, 2h, 4d."""
    if not timestamp:
        return "<unknown>"
    seconds = max(0, int(now - seconds_of(timestamp)))
    minutes = seconds // 60
    hours = seconds // 3600
    days = seconds // 86400
    below = (
        (120, f"{seconds}s", ""),
        (600, f"{minutes}m", f"{seconds % 60}s"),
        (3 * 3600, f"{minutes}m", ""),
        (8 * 3600, f"{hours}h", f"{minutes % 60}m"),
        (2 * 86400, f"{hours}h", ""),
        (8 * 86400, f"{days}d", f"{hours % 24}h"),
    )
    for limit, whole, rest in below:
        if seconds < limit:
            return whole if rest.startswith("0") else whole + rest
    return f"{days}d"


def _age_at(path: str) -> _Print:
    def show(obj: Object, now: float) -> Cell:
        value = json_path(obj, path)
        return age(value if isinstance(value, str) else None, now)

    return show


def _at(path: str, default: Cell = "<none>") -> _Print:
    def show(obj: Object, _: float) -> Cell:
        value = json_path(obj, path)
        return default if value is None or value == "" else value

    return show


def _pod_status(pod: Object, _: float) -> str:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if pod["spec"].get("schedulingGates"):
        return "SchedulingGated"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        for how in ("waiting", "terminated"):
            reason = (state.get(how) or {}).get("reason")
            if reason:
                return str(reason)
    return str(status.get("reason") or status.get("phase") or "")


def _ready(pod: Object, _: float) -> str:
    ready = [status for status in objects.containers(pod) if status.get("ready")]
    return f"{len(ready)}/{len(pod['spec'].get('containers') or ())}"


def _node_status(node: Object, _: float) -> str:
    words = "NotReady" if objects.condition(node, "Ready") else "Unknown"
    if objects.ready(node):
        words = "Ready"
    return words + (",SchedulingDisabled" if objects.spec(node).get("unschedulable") else "")


def _ports(service: Object, _: float) -> str:
    ports = objects.spec(service).get("ports") or []
    return (
        ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"
    )


def _last_seen(event: Object, now: float) -> str:
    seen = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return age(seen or event["metadata"].get("creationTimestamp"), now)


def _about(event: Object, _: float) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


_NAME: _Column = ("Name", 0, lambda obj, _: obj["metadata"]["name"])
_AGE: _Column = ("Age", 0, _age_at(".metadata.creationTimestamp"))
_BUILT_IN: dict[str, list[_Column]] = {
    "Pod": [
        ("Ready", 0, _ready),
        ("Status", 0, _pod_status),
        ("Restarts", 0, lambda pod, _: str(objects.restarts(pod))),
        _AGE,
        ("IP", 1, _at(".status.podIP")),
        ("Node", 1, _at(".spec.nodeName")),
        ("Nominated Node", 1, _at(".status.nominatedNodeName")),
    ],
    "Node": [
        ("Status", 0, _node_status),
        _AGE,
        ("Internal-IP", 1, _at(".status.addresses[0].address")),
    ],
    "ConfigMap": [
        (
            "Data",
            0,
            lambda obj, _: str(len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
        ),
        _AGE,
    ],
    "Namespace": [("Status", 0, _at(".status.phase", "")), _AGE],
    "Service": [
        ("Type", 0, _at(".spec.type")),
        ("Cluster-IP", 0, _at(".spec.clusterIP")),
        ("External-IP", 0, lambda *_: "<none>"),
        ("Port(s)", 0, _ports),
        _AGE,
    ],
    "Event": [
        ("Last Seen", 0, _last_seen),
        ("Type", 0, _at(".type", "")),
        ("Reason", 0, _at(".reason", "")),
        ("Object", 0, _about),
        ("Message", 0, _at(".message", "")),
    ],
    "Lease": [("Holder", 0, _at(".spec.holderIdentity", "")), _AGE],
    "PriorityClass": [("Value", 0, _at(".value", 0)), _AGE],
}
