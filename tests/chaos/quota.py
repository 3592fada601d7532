"""A quota system that holds pods by a gate of its own and takes the gate off after a moment."""

from __future__ import annotations

from scaler.clock import Clock, seconds_of
from scaler.kube.api import PODS, KubeApi, Object, PatchType
from scaler.sim.actors import objects
from scaler.sim.actors.stand_in import StandIn, key_of
from scaler.sim.apiserver.server import Review
from tests.chaos.view import gates_of

QUOTA = "acme.io/quota"
"""Its gate, and the label of the namespaces whose pods get it."""
PAUSE = 4.0
"""Seconds for which it holds a pod."""
_TAKE_OFF = {"spec": {"schedulingGates": [{"$patch": "delete", "name": QUOTA}]}}


def hold_for_quota(review: Review) -> Object:
    """The hook that puts the gate on."""
    if review.operation == "CREATE" and review.resource == PODS and QUOTA in review.namespace_labels:
        review.object["spec"].setdefault("schedulingGates", []).append({"name": QUOTA})
    return review.object


class Quota(StandIn):
    """Takes the gate off."""

    def __init__(self, api: KubeApi, clock: Clock) -> None:
        super().__init__(api, PODS)
        self._clock = clock

    async def _round(self) -> float | None:
        waiting = [pod for pod in self.mirror.all(PODS) if QUOTA in gates_of(pod)]
        for pod in waiting:
            if self._clock.now() - seconds_of(pod["metadata"]["creationTimestamp"]) >= PAUSE:
                patch = {"metadata": {"uid": objects.uid(pod)}, **_TAKE_OFF}
                await self.attempt(self.api.patch(PODS, *key_of(pod), patch, patch_type=PatchType.STRATEGIC))
        return 1.0 if waiting else None
