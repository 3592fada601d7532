"""What holds for all instances alike, beside the records: the mode in force, whether nodes are
seen, and who places pods with NPUs."""

from __future__ import annotations

import msgspec

from scaler.workloads.super_pods import LARGEST_SUPER_POD


class Situation(msgspec.Struct, frozen=True, gc=False):
    """The mode and the view of nodes, from the last `ModeChanged`, `NodesSeen`
    and `NpuPluginSeen`, and what Volcano counted."""

    makes_pods: bool = True
    """Whether the scaler makes the pods of AscendJobs. Otherwise an Ascend Operator does."""
    shadow: bool = False
    """Whether the scaler only notes what it would do. It decides as if it could hold every pod."""
    sees_nodes: bool = True
    """Whether nodes are readable. Otherwise an unknown node counts as one that is there."""
    places_npus: bool = False
    """Whether MindCluster's plugin places the pods with NPUs, by rules of its own."""
    counted: frozenset[str] = frozenset()
    """Uids of the Volcano Jobs of which Volcano counted a restart although the scaler had marked
    every pod that it deleted: for these jobs marks are not trusted any more."""
    largest_super_pod: int = LARGEST_SUPER_POD
    """Nodes of the largest super-pod, as the plugin is configured."""
