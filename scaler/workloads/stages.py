"""Which jobs are prefill and which decode, where their labels say it. Pure.

MindIE Motor's deployer puts a label onto each job, and onto the ConfigMap of its rank table, whose
value ClusterD copies into the global rank table as `deploy_server`."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.rules.short import Stage

STAGE_LABELS = ("grt-server/deploy-server", "grt-group/deploy-server")
"""Of an instance on one node, and of one on several."""
_OF_VALUES: dict[object, Stage] = {"0": "prefill", "1": "decode"}


def stage_of(labels: Mapping[str, object]) -> Stage:
    """The stage that these labels of a job say; "" where none does."""
    for name in STAGE_LABELS:
        if name in labels:
            return _OF_VALUES.get(labels[name], "")
    return ""
