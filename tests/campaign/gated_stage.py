"""The stage of services whose pods others make: the same storm, with their makers, admission and an Ascend Operator.

The scaler runs in mode auto. Must not: judge.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine
from typing import Any

from scaler.names import BESIDE_LABEL, NAMESPACE_LABEL
from scaler.sim import loop
from scaler.sim.actors.lws_webhook import label_member
from scaler.sim.actors.nodes import node_object
from scaler.sim.webhooks import webhooks
from tests.campaign import things
from tests.campaign.gated_deeds import GatedDeeds
from tests.campaign.gated_judge import GatedJudge
from tests.campaign.gated_schedule import GatedSchedule, GatedService
from tests.campaign.quota import QUOTA, Quota, hold_for_quota
from tests.campaign.schedule import Schedule
from tests.campaign.stage import QUEUE, Result, Stage, play
from tests.deployed_operator import deployment
from tests.repeat import played
from tests.simulation.kinds import ASCEND_JOBS
from tests.simulation.kinds_stage import machines, makers


def play_gated(made: GatedSchedule, *, keep_trace: bool = False, option: str = "--gated") -> Result:
    """As tests.campaign.stage.play."""
    played(f"tests.campaign {option} --seed {made.seed} -v")
    return loop.run(GatedStage(made, keep_trace=keep_trace).play(), seed=made.seed)


def play_any(made: Schedule, *, keep_trace: bool = False, family: str = "") -> Result:
    """Whoever makes the pods in it; `family` of tests.campaign.aimed that it is of, if any."""
    aimed = f"--aimed {shlex.quote(family)}" if family else ""
    if isinstance(made, GatedSchedule):
        return play_gated(made, keep_trace=keep_trace, option=aimed or "--gated")
    return play(made, keep_trace=keep_trace, option=aimed)


class GatedStage(Stage):
    mode = "auto"
    admission = (label_member, hold_for_quota, *webhooks())

    def __init__(self, made: GatedSchedule, *, keep_trace: bool) -> None:
        super().__init__(made, keep_trace=keep_trace, surgeon=None)
        self._gated = made

    def sizes(self) -> dict[str, int]:
        """Pods count: each is released by itself."""
        return {service.name: service.kind.nodes_for(service.replicas) for service in self._gated.services}

    def _furnish(self) -> None:
        made = self._gated
        self.deeds = deeds = GatedDeeds(self.cluster, self.clock, made, self.replicas)
        self.judge = GatedJudge(self.cluster, made, self.witness, deeds.told)
        self.cluster.apply([QUEUE, *(node_object(spec) for spec in made.world.nodes), things.training_job()])
        if any(service.kind is ASCEND_JOBS for service in made.services):
            self.cluster.apply([deployment()])
        for service in made.services:
            self.cluster.apply([_namespace(service), things.foreign_config_map(service.spot.namespace)])
            deeds.write_rule(service, None)

    def _actors(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        def api(name: str) -> Any:
            return self.cluster.client(name)

        others = [Quota(api("quota"), self.clock), *makers(api("makers"), self.clock)]
        everybody = [*others, *machines(api("machines"), self.clock, self._made.seed, gangs=self._made.gangs)]
        return [actor.run for actor in everybody]

    async def _storm(self) -> None:
        for service in self._gated.services:
            await self.deeds.apply(service)  # type: ignore[attr-defined]  # made in _furnish
        await super()._storm()


def _namespace(service: GatedService) -> dict[str, Any]:
    labels = {NAMESPACE_LABEL: "enabled", BESIDE_LABEL: "true", **({QUOTA: "held"} if service.quota else {})}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": service.spot.namespace, "labels": labels}}
