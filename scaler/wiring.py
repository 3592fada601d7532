"""Who hears of which change. The controller and the commands that look at a cluster share this
list.

Subscribers of one change are called in the order of the list. What `state` has made of a record is
forgotten first, so that everybody after it reads the record anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from scaler.informers.changes import (
    AloneChanged,
    BudgetsChanged,
    Changes,
    ElasticServiceChanged,
    JobChanged,
    ModeChanged,
    NodeChanged,
    NodesSeen,
    NpuPluginSeen,
    ObjectRefused,
    OwnConfigMapGone,
    PodChanged,
    RoomChanged,
    ServiceChanged,
)
from scaler.state.cluster import ClusterState

if TYPE_CHECKING:  # a command that reads a cluster has none of them
    from scaler.execute.budgets import Budgets
    from scaler.execute.capacity_requests import CapacityRequests
    from scaler.execute.marks import Marks
    from scaler.ranktables.reconciler import RankTableReconciler
    from scaler.report.reporter import Reporter


class Decider(Protocol):
    """Decides about services anew when something changes: the controller, or a command."""

    def on_service(self, change: ServiceChanged) -> None: ...

    def on_elastic_service(self, change: ElasticServiceChanged) -> None: ...

    def on_room(self, change: RoomChanged) -> None: ...

    def on_alone(self, change: AloneChanged) -> None: ...


class Writers(NamedTuple):
    """The writers beside the decisions. A command that only reads a cluster has none of them."""

    rank_tables: RankTableReconciler
    reporter: Reporter
    budgets: Budgets | None
    capacity_requests: CapacityRequests | None
    marks: Marks


def subscribe(
    changes: Changes, state: ClusterState, decider: Decider, writers: Writers | None = None
) -> None:
    changes.subscribe(ModeChanged, state.on_mode)
    changes.subscribe(NodesSeen, state.on_nodes_seen)
    changes.subscribe(NpuPluginSeen, state.on_npu_plugin)
    changes.subscribe(AloneChanged, decider.on_alone)
    changes.subscribe(PodChanged, state.on_pod)
    changes.subscribe(NodeChanged, state.on_node)
    changes.subscribe(RoomChanged, decider.on_room)
    changes.subscribe(JobChanged, state.on_job)
    if writers is not None:
        changes.subscribe(JobChanged, writers.rank_tables.on_job)
        changes.subscribe(JobChanged, writers.marks.on_job)
    changes.subscribe(ServiceChanged, state.on_instance)
    changes.subscribe(ServiceChanged, decider.on_service)
    changes.subscribe(ElasticServiceChanged, decider.on_elastic_service)
    if writers is not None:
        changes.subscribe(ElasticServiceChanged, writers.reporter.on_elastic_service)
        changes.subscribe(OwnConfigMapGone, writers.reporter.on_own_config_map)
        changes.subscribe(ObjectRefused, writers.reporter.on_refused)
        if writers.capacity_requests is not None:
            changes.subscribe(ServiceChanged, writers.capacity_requests.on_service)
        if writers.budgets is not None:
            changes.subscribe(ServiceChanged, writers.budgets.on_service)
            changes.subscribe(BudgetsChanged, writers.budgets.on_budgets)
