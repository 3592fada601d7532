"""What must hold at rest of services whose pods others make, counted anew from the store."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from tests.campaign import outside
from tests.campaign.gated_schedule import GatedSchedule, GatedService
from tests.campaign.judge import Judge, Standing
from tests.campaign.outside import Instance
from tests.campaign.things import GROUPS, Ratio
from tests.campaign.witness import Witness
from tests.simulation import kinds


class GatedJudge(Judge):
    """Held pods count as none: an instance has the pods that were released."""

    def __init__(
        self, cluster: SimCluster, made: GatedSchedule, witness: Witness, told: Mapping[str, tuple[Ratio, str]]
    ) -> None:
        super().__init__(cluster, made.world, witness)
        self._told = told
        self._services = made.services

    def at_rest(self, ladders: Mapping[str, tuple[Ratio, ...]]) -> list[str]:
        """As in Judge. During a rollout that cannot end there are no numbers to reach."""
        found = outside.instances(self._cluster)
        ready = outside.ready_nodes(self._cluster)
        ladders = {service.name: self._ladder(service, ladders[service.name], found) for service in self._services}
        for service in self._services:
            standings = [_standing(one, ready) for one in found if one.service == service.key]
            halves = {one.name for one in found if one.service == service.key and one.half}
            for half in (standing for standing in standings if standing.job in halves):
                if not self._may_wait(half, standings, ladders[service.name]):
                    self._fail(f"S2: {half.job} is half released at rest")
        for name in outside.unexplained(self._cluster, found):
            self._fail(f"L2: {name} is held without a reason")
        gaps: list[str] = []
        for service in self._services:
            own = [one for one in found if one.service == service.key]
            gaps += self._numbers(service, own, ladders[service.name])
        return gaps

    def _ladder(self, service: GatedService, ladder: tuple[Ratio, ...], found: list[Instance]) -> tuple[Ratio, ...]:
        """Without what nobody wants. Plain pods are not drained, and a pair of revisions may stay."""
        own = [one for one in found if one.service == service.key]
        rolls = len({(one.maker, one.revision) for one in own}) > len({one.maker for one in own})
        counted = [] if rolls or service.kind is kinds.PLAIN_PODS else own
        ready = outside.ready_nodes(self._cluster)
        return self._wanted(service.spot.namespace, service.name, ladder, [_standing(one, ready) for one in counted])

    def _numbers(self, service: GatedService, own: list[Instance], ladder: tuple[Ratio, ...]) -> list[str]:
        if any(len({one.revision for one in own if one.maker == maker}) > 1 for maker in {one.maker for one in own}):
            self.half_made = True
            if self._must_end(service, ladder):
                self._fail(f"3.8: the rollout of {service.name} does not end")
            return [f"{service.name}: its rollout does not end"]
        ready = outside.ready_nodes(self._cluster)
        standings = [_standing(one, ready) for one in own]
        self.half_made |= any(s.bound and s.bound < s.expected for s in standings)
        self._no_surplus_waits(service.name, standings, ladder)
        self._reached(service.name, service.spot.pool, standings, ladder)
        return []

    def _must_end(self, service: GatedService, ladder: tuple[Ratio, ...]) -> bool:
        """A rollout of instances none of which has to be held, with nodes for one more of each group."""
        wanted = self._told[service.name][0]
        none_held = all(number <= most for number, most in zip(wanted, ladder[0], strict=True))
        return none_held and self._free_nodes(service.spot.pool) >= sum(service.kind.pods)


def _standing(one: Instance, ready: frozenset[str]) -> Standing:
    group = GROUPS[kinds.GROUPS.index(one.group)]
    bound = [pod for pod in one.staying if objects.node_of(pod)]
    runs = [pod for pod in bound if objects.phase(pod) == "Running" and objects.node_of(pod) in ready]
    ended = sum(objects.ended(pod) for pod in bound)
    return Standing(one.name, group, one.size, len(runs), len(bound), ended, len(one.released))
