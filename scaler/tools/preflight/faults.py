"""Does MindCluster report faults, of every NPU node and lately? Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scaler.informers.faults import (
    CLUSTER_NAMESPACE,
    CLUSTER_PREFIX,
    DEVICE_NAMESPACE,
    DEVICE_PREFIX,
    Source,
    read_report,
)
from scaler.kube.api import CONFIG_MAPS, NODES, Object
from scaler.rules.values import as_text, at
from scaler.tools.common.check_result import CheckResult, Level
from scaler.tools.common.console import age
from scaler.tools.preflight.checks import Check, check, listed, ok
from scaler.tools.preflight.picture import Picture, name_of, namespace_of
from scaler.tools.preflight.platform import missing_right, npus

STALE = 600.0
"""Seconds: device plugins write every 5 minutes."""
_DEVICES = f"{CLUSTER_PREFIX}device-"
_PLUGIN = f"kubectl -n {DEVICE_NAMESPACE} get pods -o wide | grep device-plugin"


def fault_data(picture: Picture) -> Check:
    """The sources of fault data, the nodes without or with old data, and unreadable data."""
    unread = missing_right(picture, CONFIG_MAPS)
    if unread:
        return check("fault data", unread)
    reports = {}
    for one in picture.of(CONFIG_MAPS):
        if (report := read_report(namespace_of(one), name_of(one), _data(one))) is not None:
            reports[f"{namespace_of(one)}/{name_of(one)}"] = (one, report)
    nodes = set()
    for one in picture.of(NODES):
        if npus(one):
            nodes.add(name_of(one))
    sources = {report.source for _, report in reports.values()}
    if not sources:
        words = (
            "MindCluster reports none: only the readiness of nodes is known, faulty chips are not"
        )
        advice = "install MindCluster's device plugin and ClusterD: docs/reference/faults.md"
        return check(
            "fault data",
            [CheckResult(Level.WARNING, words, advice)] if nodes else [],
            ok("no NPU nodes, no data"),
        )
    source = Source.CLUSTER if Source.CLUSTER in sources else Source.AGENTS
    written = _written([one for one, report in reports.values() if report.source is source])
    broken = [
        f"{name}: {report.problem}" for name, (_, report) in reports.items() if report.problem
    ]
    found = [*_broken(broken), *_nodes(nodes, written, picture.now)]
    newest = f", newest {age(picture.now - max(written.values()))} ago" if written else ""
    who = "ClusterD (cluster-info)" if source is Source.CLUSTER else "device plugins (device-info)"
    return check("fault data", found, ok(f"from {who}: {len(written)} nodes{newest}"))


def _broken(broken: list[str]) -> Iterator[CheckResult]:
    if broken:
        words = f"{len(broken)} reports cannot be read and are left out: {listed(broken, 1)}"
        yield CheckResult(Level.WARNING, words, "", tuple(broken))


def _nodes(nodes: set[str], written: Mapping[str, float], now: float) -> Iterator[CheckResult]:
    without = sorted(nodes - written.keys())
    old = sorted(name for name in nodes & written.keys() if now - written[name] > STALE)
    if without:
        words = f"{len(without)} of {len(nodes)} NPU nodes are not reported: {listed(without)}"
        yield CheckResult(Level.WARNING, words, _PLUGIN, tuple(without))
    if old:
        words = (
            f"{len(old)} of {len(nodes)} NPU nodes were last reported more than {age(STALE)} ago:"
            f" {listed(old)}"
        )
        yield CheckResult(
            Level.WARNING,
            words,
            _PLUGIN,
            tuple(f"{one}: {age(now - written[one])} ago" for one in old),
        )


def _written(maps: list[Object]) -> dict[str, float]:
    """Node -> last report about its chips, in seconds since the epoch; 0 without a time."""
    found: dict[str, float] = {}
    for one in maps:
        name = name_of(one)
        data = _data(one)
        if name.startswith(DEVICE_PREFIX):
            found[name.removeprefix(DEVICE_PREFIX)] = _time(
                at(_read(data.get("DeviceInfoCfg")), "DeviceInfo")
            )
        elif name.startswith(_DEVICES) and namespace_of(one) == CLUSTER_NAMESPACE:
            for key, entry in _read(data.get(name)).items():
                found[str(key).strip().removeprefix(DEVICE_PREFIX)] = _time(at(entry))
    return found


def _time(entry: Mapping[str, Any]) -> float:
    """The time in seconds; some of MindCluster's programs write milliseconds."""
    number = entry.get("UpdateTime")
    if type(number) is not int or not 0 < number < 10**15:
        return 0.0
    return number / 1000 if number > 10**11 else float(number)


def _read(text: str | None) -> Mapping[str, Any]:
    try:
        return at(msgspec.json.decode(text or "{}"))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def _data(one: Object) -> dict[str, str]:
    return {key: as_text(value) for key, value in at(one, "data").items()}
