"""A stand-in for the ReplicaSet controller: so many active pods, and whom it deletes first when there are too many.

Must not: know of Deployments (sim.actors.deployments), nodes or rules.
"""

from __future__ import annotations

from scaler.clock import seconds_of
from scaler.kube.api import PODS, REPLICA_SETS, KubeApi, Object
from scaler.sim.actors import making, objects
from scaler.sim.actors.making import Hands
from scaler.sim.actors.mirror import Mirror

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets:
    """Follows all ReplicaSets and their pods."""

    def __init__(self, api: KubeApi) -> None:
        self._mirror = Mirror(api, REPLICA_SETS, PODS)
        self._hands = Hands(api, self._mirror)

    async def run(self) -> None:
        """Keep the numbers until cancelled."""
        await self._mirror.drive(self._round, "replica sets")

    async def _round(self) -> float | None:
        if self._hands.settled:
            pods = making.by_owner(self._mirror.all(PODS))
            for replica_set in self._mirror.all(REPLICA_SETS):
                if not objects.terminating(replica_set):
                    await self._keep(replica_set, [p for p in pods[objects.uid(replica_set)] if making.active(p)])
        return self._hands.pause

    async def _keep(self, replica_set: Object, pods: list[Object]) -> None:
        wanted = making.number(replica_set, "replicas")
        for _ in range(wanted - len(pods)):
            if not await self._hands.create(PODS, _pod(replica_set)):
                break  # the original aborts the batch at the first refusal
        for victim in victims(pods, len(pods) - wanted):
            await self._hands.delete(PODS, victim)
        await self._hands.status(REPLICA_SETS, replica_set, _status(replica_set, pods))


def victims(pods: list[Object], number: int) -> list[Object]:
    """Those of the active pods that go first, in the order of the original."""
    crowd = {node: sum(objects.node_of(pod) == node for pod in pods) for node in map(objects.node_of, pods)}

    def order(pod: Object) -> tuple[float, ...]:
        is_ready = making.ready(pod)
        return (
            bool(objects.node_of(pod)),
            _PHASES.get(objects.phase(pod), 0),
            is_ready,
            _cost(pod),
            -crowd[objects.node_of(pod)],
            -_ready_since(pod) if is_ready else 0.0,
            -_restarts(pod),
            -seconds_of(pod["metadata"].get("creationTimestamp")),
        )

    return sorted(pods, key=order)[: max(0, number)]


def _cost(pod: Object) -> int:
    try:
        return int(objects.annotations_of(pod).get(_COST, "0"))
    except ValueError:
        return 0


def _ready_since(pod: Object) -> float:
    conditions = objects.status(pod).get("conditions") or []
    return next((seconds_of(c.get("lastTransitionTime")) for c in conditions if c.get("type") == "Ready"), 0.0)


def _restarts(pod: Object) -> int:
    return max((int(c.get("restartCount") or 0) for c in objects.status(pod).get("containerStatuses") or []), default=0)


def _pod(replica_set: Object) -> Object:
    template = objects.spec(replica_set).get("template") or {}
    return making.pod_of(template, f"{objects.name(replica_set)}-", replica_set, REPLICA_SETS)


def _status(replica_set: Object, pods: list[Object]) -> Object:
    serving = sum(making.ready(pod) for pod in pods)
    return {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods),
        "readyReplicas": serving,
        "availableReplicas": serving,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
