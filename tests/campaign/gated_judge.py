"""What must hold at rest of services whose pods others make, counted anew from the store."""

from __future__ import annotations

from collections.abc import Mapping

from scaler.sim.cluster import SimCluster
from tests.campaign import outside
from tests.campaign.judge import Judge
from tests.campaign.outside import Instance
from tests.campaign.things import Service, World
from tests.campaign.witness import Witness
from tests.simulation import kinds
from tests.simulation.kinds import Ratio


class GatedJudge(Judge):
    """`told`: the instances and the image that the user of each service asked for last."""

    def __init__(
        self, cluster: SimCluster, world: World, witness: Witness, told: Mapping[str, tuple[Ratio, str]]
    ) -> None:  # fmt: skip
        super().__init__(cluster, world, witness)
        self._told = told

    def at_rest(self, ladders: Mapping[str, tuple[Ratio, ...]]) -> list[str]:
        """As in Judge. During a rollout that cannot end there are no numbers to reach."""
        found = outside.instances(self._cluster)
        for name in outside.unexplained(self._cluster, found):
            self._fail(f"L2: {name} is held without a reason")
        gaps: list[str] = []
        for service in self._world.services:
            own = [one for one in found if one.service == service.key]
            ladder = self._ladder(service, ladders[service.name], own)
            self._whole(service, own, ladder)
            gaps += self._numbers(service, own, ladder)
        return gaps

    def _ladder(self, service: Service, ladder: tuple[Ratio, ...], own: list[Instance]) -> tuple[Ratio, ...]:
        """Without what nobody wants. Plain pods are not drained, and a pair of revisions may stay."""
        rolls = len({(one.maker, one.revision) for one in own}) > len({one.maker for one in own})
        counted = [] if rolls or service.kind is kinds.PLAIN_PODS else own
        return self._wanted(service, ladder, self._standings(service, counted))

    def _whole(self, service: Service, own: list[Instance], ladder: tuple[Ratio, ...]) -> None:
        """S2: all of an instance is released or none of it."""
        standings = self._standings(service, own)
        for one, standing in zip(own, standings, strict=True):
            if one.half and not self._may_wait(standing, standings, ladder):
                self._fail(f"S2: {one.name} is half released at rest")

    def _numbers(self, service: Service, own: list[Instance], ladder: tuple[Ratio, ...]) -> list[str]:
        if any(len({one.revision for one in own if one.maker == maker}) > 1 for maker in {one.maker for one in own}):
            self.half_made = True
            if self._must_end(service, ladder):
                self._fail(f"3.8: the rollout of {service.name} does not end")
            return [f"{service.name}: its rollout does not end"]
        standings = self._standings(service, own)
        self.half_made |= any(s.bound and s.bound < s.expected for s in standings)
        self._no_surplus_waits(service.name, standings, ladder)
        self._reached(service, standings, ladder)
        return []

    def _must_end(self, service: Service, ladder: tuple[Ratio, ...]) -> bool:
        """A rollout of instances none of which has to be held, with nodes for one more of each group."""
        wanted = self._told[service.name][0]
        none_held = all(number <= most for number, most in zip(wanted, ladder[0], strict=True))
        return none_held and self._free_nodes(service.pool) >= sum(service.pods)
