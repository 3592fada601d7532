"""A stand-in for the ReplicaSet controller: so many active pods, and whom it deletes first when there are too many.

Must not: know of Deployments (sim.actors.deployments), nodes or rules.
"""

from __future__ import annotations

from scaler.clock import seconds_of
from scaler.kube.api import PODS, REPLICA_SETS, KubeApi, Object
from scaler.sim.actors import making, objects
from scaler.sim.actors.controller import Controller

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets(Controller):
    """Follows all ReplicaSets and their pods."""

    def __init__(self, api: KubeApi) -> None:
        super().__init__(api, REPLICA_SETS, PODS)

    async def reconcile(self) -> None:
        for replica_set in self.living(REPLICA_SETS):
            await self._keep(replica_set, [p for p in self.mirror.owned(PODS, replica_set) if making.active(p)])

    async def _keep(self, replica_set: Object, pods: list[Object]) -> None:
        wanted = making.number(replica_set)
        template = objects.spec(replica_set).get("template") or {}
        for _ in range(wanted - len(pods)):
            pod = making.pod_of(template, f"{objects.name(replica_set)}-", replica_set, REPLICA_SETS)
            if not await self.create(PODS, pod):
                break  # the original aborts the batch at the first refusal
        for victim in victims(pods, len(pods) - wanted):
            await self.delete(PODS, victim)
        serving = sum(making.ready(pod) for pod in pods)
        status = {"replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": serving}
        more = {"availableReplicas": serving, "observedGeneration": making.generation(replica_set)}
        await self.status(REPLICA_SETS, replica_set, {**status, **more})


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
            -seconds_of(objects.condition(pod, "Ready").get("lastTransitionTime")) if is_ready else 0.0,
            -max((int(c.get("restartCount") or 0) for c in objects.containers(pod)), default=0),
            -seconds_of(pod["metadata"].get("creationTimestamp")),
        )

    return sorted(pods, key=order)[: max(0, number)]


def _cost(pod: Object) -> int:
    try:
        return int(objects.annotations_of(pod).get(_COST, "0"))
    except ValueError:
        return 0
