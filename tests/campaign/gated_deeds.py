"""What users do to services whose pods others make; machines and replicas of the scaler are tests.campaign.deeds'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from scaler.clock import Clock
from scaler.kube.api import Object
from scaler.kube.errors import NotFoundError
from scaler.sim.actors import objects
from scaler.sim.cluster import SimCluster
from tests.campaign import outside
from tests.campaign.deeds import UNDER, Deeds
from tests.campaign.gated_schedule import GatedSchedule, GatedService
from tests.campaign.lives import Replica
from tests.campaign.outside import Instance
from tests.campaign.schedule import SCALED, Event
from tests.campaign.things import Ratio
from tests.simulation.applying import apply
from tests.simulation.kinds import ASCEND_JOBS, GROUPS, rule

DECODE = GROUPS[1]


class GatedDeeds(Deeds):
    """`ladders` by service, as in Deeds; `told` are the replicas and images that the user wrote last."""

    def __init__(self, cluster: SimCluster, clock: Clock, made: GatedSchedule, replicas: list[Replica]) -> None:
        super().__init__(cluster, clock, made.world, replicas)
        self._services = {service.name: service for service in made.services}
        self.ladders = {service.name: service.ladder for service in made.services}
        self._first_ladders = dict(self.ladders)
        self.told: dict[str, tuple[Ratio, str]] = {
            service.name: (service.replicas, service.spot.image) for service in made.services
        }
        self._applied: dict[str, Sequence[Object]] = {}

    async def apply(self, service: GatedService) -> None:
        """`kubectl apply --prune` of what the user wrote last."""
        replicas, image = self.told[service.name]
        spot = msgspec.structs.replace(service.spot, image=image)
        made = service.kind.objects(spot, replicas)
        self._applied[service.name] = await apply(self._cluster, made, prune=self._applied.get(service.name, ()))

    async def _do(self, event: Event) -> None:
        service = self._services.get(event.subject)
        if service is None:
            await super()._do(event)
        elif event.what == SCALED or event.what.startswith("rule "):

            def write(text: str | None, annotations: Mapping[str, str]) -> None:
                self.write_rule(service, text, **annotations)

            await self._to_rule(event, service.spot.namespace, service.name, write)
        elif event.what == UNDER:
            await self._lose_node(self._decode_pods(service))
        elif event.what.startswith(("pod ", "instance ")):
            await self._to_pods_of(service, event)
        else:
            await self._to_makers(service, event)

    async def _to_makers(self, service: GatedService, event: Event) -> None:
        (prefill, decode), image = self.told[service.name]
        number = int(event.amount)
        if event.what == "scaled":
            self.told[service.name] = ((max(1, service.replicas[0] + number % 3 - 1), decode), image)
        elif event.what == "updated":
            self.told[service.name] = ((prefill, decode), f"server:{number}")
        elif event.what == "applied anew" and service.kind is ASCEND_JOBS:
            # Ascend Operator takes the pods of the job before for the new one's, and never looks again when they go.
            raise NotFoundError(404, "NotFound", "not with this operator")
        elif event.what == "applied anew":
            await apply(self._cluster, (), prune=self._applied[service.name])
        await self.apply(service)

    def _decode_pods(self, service: GatedService) -> list[Object]:
        found = [one for one in outside.instances(self._cluster) if (one.service, one.group) == (service.key, DECODE)]
        return [pod for one in found for pod in one.pods]

    async def _to_pods_of(self, service: GatedService, event: Event) -> None:
        found = [one for one in outside.instances(self._cluster) if one.service == service.key]
        await self._end(event, service.spot.namespace, _victims(event, found))

    def write_rule(self, service: GatedService, text: str | None, **annotations: str) -> None:
        """The user's last ladder, or this text instead."""
        self._cluster.apply(
            [rule(service.spot, service.kind, *self.ladders[service.name], text=text, **annotations)]
        )  # fmt: skip

    async def heal(self, lost_nodes: tuple[str, ...]) -> None:
        """Nodes but the lost ones and rules are mended, and everything is applied once more."""
        await self._heal_nodes(lost_nodes)
        for service in self._services.values():
            self.write_rule(service, None, paused="false")
            await self.apply(service)


def _victims(event: Event, found: list[Instance]) -> list[Object]:
    """Instances and pods are chosen by the event's number; only a pod on a node can fail."""
    pods = [pod for one in found for pod in one.pods if event.what != "pod failed" or objects.node_of(pod)]
    if not pods:
        return []
    if event.what == "instance killed":
        with_pods = [one for one in found if one.pods]
        return with_pods[int(event.amount) % len(with_pods)].pods
    return [pods[int(event.amount) % len(pods)]]
