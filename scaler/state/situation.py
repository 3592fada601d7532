"""What holds for all instances alike, beside the records: the mode in force, and whether nodes are
seen."""

from __future__ import annotations

import msgspec


class Situation(msgspec.Struct, frozen=True, gc=False):
    """The mode and the view of nodes, from the last `ModeChanged` and `NodesSeen`."""

    makes_pods: bool = True
    """Whether the scaler makes the pods of AscendJobs. Otherwise an Ascend Operator does."""
    shadow: bool = False
    """Whether the scaler only notes what it would do. It decides as if it could hold every pod."""
    sees_nodes: bool = True
    """Whether nodes are readable. Otherwise an unknown node counts as one that is there."""
