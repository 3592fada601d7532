"""All services in one table: a row for each, and its history. A row that does not change stays the
same object.

Services without an ElasticService are decided here from what is seen, with the controller's own
code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scaler.decide.world import ServiceKey
from scaler.kube.api import Object
from scaler.report.service_status import status_of
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.tools.common.detail import is_true, largest_wanted, urgency, wanted
from scaler.tools.common.records import Written, condition, replicas_of
from scaler.tools.common.view import Cluster, ServiceView
from scaler.tools.ui.history import History

MOST_GROUPS = 8
"""Groups of one row; `running` and `target` have as many."""
MOST_STEPS = 64
MOST_NAME = 100
MOST_WORDS = 600
"""Characters: a condition may have 32,768, and one author must not fill the page of every user."""
_OF_RANK = ("Available", "RuleValid", "Degraded", "Complete", "Complete")
"""The condition that decides the rank of a service."""
Row = dict[str, Any]


class _Shown(NamedTuple):
    view: ServiceView
    row: Row


class Board:
    """Call `look` after a change; then `rows` (by `str(ServiceKey)`) matches the cluster.

    `only`: services of this namespace, of all for ""."""

    def __init__(self, cluster: Cluster, only: str = "") -> None:
        self.cluster = cluster
        self._only = only
        self.rows: dict[str, Row] = {}
        self._shown: dict[str, _Shown] = {}
        self._keys: dict[tuple[str, str], str] = {}
        """Namespace and name of an ElasticService -> its service."""
        self._written: dict[str, set[tuple[str, str]]] = {}
        """Service -> its ElasticServices: users may have made a second one."""
        self._dirty = {(one.namespace, one.name) for one in cluster.services.values()}
        self._histories: dict[str, History] = {}
        cluster.services.listen(self._on_change)

    def _on_change(self, name: tuple[str, str] | None) -> None:
        if name is not None:
            self._dirty.add(name)

    def look(self, *, decide: bool) -> None:
        """Take over the changes. `decide`: the whole cluster is seen, so services without
        ElasticService are shown."""
        dirty = self._dirty
        self._dirty = set()
        for name in dirty:
            self._look_at(name)
        self._look_at_the_rest(decide=decide)

    def view(self, key: str) -> ServiceView | None:
        shown = self._shown.get(key)
        return shown.view if shown else None

    def history(self, key: str) -> History:
        return self._histories.get(key) or History()

    def _look_at(self, name: tuple[str, str]) -> None:
        before = self._keys.pop(name, "")
        written = self.cluster.services.get(*name)
        if before:
            self._written[before].discard(name)
        if written is not None and self._only in ("", name[0]):
            view = _view(written)
            key = str(view.key)
            self._keys[name] = key
            self._written.setdefault(key, set()).add(name)
            self._show(key, _Shown(view, row_of(view)))
        others = self._written.get(before)
        if others:
            self._dirty |= others - {name}  # their content counts from the next look on
        elif before:
            del self._written[before]
            self._forget(before)

    def _look_at_the_rest(self, *, decide: bool) -> None:
        """Services that have jobs and no ElasticService."""
        keys = self.cluster.state.service_keys() if decide else ()
        found = set()
        for one in keys:
            if one.rule and self._only in ("", one.namespace):
                found.add(str(one))
        for key in self._shown.keys() - self._written.keys() - found:
            self._forget(key)
        missing = found - self._written.keys()
        if not missing:
            return
        world, decision = self.cluster.decision()
        for service, plan in zip(world.services, decision.plans, strict=True):
            key = str(service.key)
            if key in missing:
                shown = self._shown.get(key)
                before: Object = shown.view.status if shown else {}
                status = status_of(
                    self.cluster.report(service, plan), before, self.cluster.clock.timestamp()
                )
                if status != before:
                    view = ServiceView(service.key, "", status)
                    self._show(key, _Shown(view, row_of(view)))

    def _show(self, key: str, shown: _Shown) -> None:
        self._shown[key] = shown
        self.rows[key] = shown.row
        self._histories.setdefault(key, History()).note(
            shown.view.status, self.cluster.clock.server()
        )

    def _forget(self, key: str) -> None:
        for kept in (self._shown, self.rows, self._histories):
            kept.pop(key, None)


def _view(written: Written) -> ServiceView:
    spec = at(written.object, "spec")
    meta = at(written.object, "metadata")
    key = ServiceKey(written.namespace, as_text(spec.get("rule")), as_text(spec.get("jobID")))
    created = as_text(meta.get("creationTimestamp"))
    status = dict(at(written.object, "status"))
    replicas = replicas_of(written.object)
    return ServiceView(key, written.name, status, created, replicas)


def row_of(view: ServiceView) -> Row:
    """The row of one service. `rank`: 0 not available, 1 rule invalid, 2 degraded, 3 not complete,
    4 fine; reason, words and time are those of the condition that decides the rank.

    `groups` are those of the largest ratio and of what runs, at most MOST_GROUPS (`groupsLeft`
    counts the others); `counts` of each running, target, in flight and held, and each of `steps`
    what one ratio names of them, the largest first. Steps before `limit` are more than is
    `wanted`."""
    status = view.status
    groups = {as_text(at(group).get("name")): at(group) for group in as_list(status.get("groups"))}
    ratios = [at(ratio) for ratio in as_list(status.get("ratios"))]
    # `groups` has the rule's order; an API server sorts the names of an object by themselves
    every = list(dict.fromkeys([*groups, *(ratios[0] if ratios else ())]))
    names = every[:MOST_GROUPS]
    counts = []
    for name in names:
        counts.append(
            [
                as_count(at(groups.get(name)).get(field))
                for field in ("running", "target", "inFlight", "held")
            ]
        )
    rank = urgency(view)[0]
    # of a service that is complete the status itself says what is wrong all the same
    said = {} if rank == len(_OF_RANK) - 1 else condition(status, _OF_RANK[rank])
    return {
        "rank": rank,
        "ns": view.key.namespace,
        "rule": view.key.rule,
        "job": view.key.job_id,
        "object": view.name,
        "running": as_text(status.get("running")) or "-",
        "target": as_text(status.get("target")) or "-",
        "reason": (as_text(said.get("reason")) or as_text(status.get("reason")))[:MOST_NAME],
        "message": (as_text(said.get("message")) or as_text(status.get("message")))[:MOST_WORDS],
        "since": as_text(said.get("lastTransitionTime")) or as_text(status.get("since")),
        "groups": names,
        "groupsLeft": len(every) - len(names),
        "counts": counts,
        "steps": [_counts(ratio, names) for ratio in ratios[:MOST_STEPS]],
        "current": _index(status, "currentRatio"),
        "aim": _index(status, "targetRatio"),
        "wanted": wanted(view),
        "limit": largest_wanted(view),
        "left": as_count(at(status, "leftOut").get("ratios")),
        "conditions": {
            kind: is_true(view, kind) for kind in ("Available", "Complete", "Degraded", "RuleValid")
        },
        "paused": at(status, "rule").get("paused") is True,
    }


def _index(status: Object, name: str) -> int:
    """-1 below the smallest ratio."""
    index = at(status, name).get("index")
    return index if isinstance(index, int) and not isinstance(index, bool) else -1


def _counts(ratio: Mapping[str, Any], names: Iterable[str]) -> list[int]:
    return [as_count(ratio.get(name)) for name in names]
