"""Pods that others made and that our gate holds, for tests of the whole controller."""

from __future__ import annotations

from typing import Any

from scaler.kube.api import PODS, Object
from scaler.names import GATE
from tests.jobs import NAMESPACE, manifest


def held(
    name: str, group: str, *, owner: str = "engine-5d8", rule: str = "rule", job_id: str = "mindie",
    gates: tuple[str, ...] = (GATE,), annotations: dict[str, str] | None = None, scheduler: str = "", **labels: str,
) -> Object:  # fmt: skip
    """A held pod of a ReplicaSet, or of nobody."""
    names = {"mind-cluster/scaling-rule": rule, "mind-cluster/group-name": group, "jobID": job_id, **labels}
    names["pod-template-hash"] = owner.rpartition("-")[2]
    spec: dict[str, Any] = {
        "containers": [{"name": "server", "image": "server"}],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    if scheduler:
        spec["schedulerName"] = scheduler
    made = manifest(PODS, name, NAMESPACE, labels=names, annotations=annotations or {}, spec=spec)
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}"}
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made
