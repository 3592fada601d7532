"""What users, machines and other operators do to the world, by the names that schedules use.

A subject is a node, a replica of the scaler, a service, or a job of one. What is not there has
nothing done to it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence

from scaler.clock import Clock
from scaler.kube import api
from scaler.kube.api import Object, PatchType, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import NodeFate, change_node, exit_pod
from scaler.sim.actors.operator import NAMESPACE as OPERATOR_NAMESPACE
from scaler.sim.actors.stand_in import key_of
from scaler.sim.cluster import SimCluster
from tests.chaos import hostile, inventory
from tests.chaos.inventory import HEALTHY, Inventory, Service
from tests.chaos.replica import Replica
from tests.chaos.schedule import SCALED, Event
from tests.chaos.view import Instance, view_of
from tests.chaos.witness import HealthyTenant
from tests.chaos.writes import LEASE, OWN_SUFFIXES
from tests.sim.manifests import apply_pruned
from tests.simulation import kinds
from tests.simulation.kinds import Ratio
from tests.stand_ins import DEPLOYMENT, deployment

BROKEN = ("{", "", "[]", '{"elastic_scaling_list": [{}]}')
FATES = {
    "node not ready": NodeFate.NOT_READY,
    "node gone": NodeFate.GONE,
    "node cordoned": NodeFate.CORDONED,
    "node back": NodeFate.READY,
}
RESTORED = 120.0
"""Seconds in which everything has found its way back after a restore of etcd."""
DECODE = (inventory.GROUPS[1], kinds.GROUPS[1])


class NothingThereError(Exception):
    """There is nothing to do it to."""


class Operations:
    """`ladders` has the ladder that the user wrote last, per service; `specs` the instances and the
    image that the user of a service whose pods others make wrote last; `healthy` is about the
    healthy service, where there is one."""

    def __init__(
        self, cluster: SimCluster, clock: Clock, planned: Inventory, replicas: list[Replica]
    ) -> None:
        self.ladders: dict[str, tuple[Ratio, ...]] = {
            service.name: service.ladder for service in planned.services
        }
        self.specs: dict[str, tuple[Ratio, str]] = {
            service.name: (service.jobs, kinds.Spot().image) for service in planned.services
        }
        self.healthy: HealthyTenant | None = None
        self._applied: dict[str, Sequence[Object]] = {}
        self._cluster = cluster
        self._clock = clock
        self._inventory = planned
        self._replicas = replicas
        self._taken: list[tuple[str, str]] = []
        self._furnished = clock.now() + 1.0

    async def do(self, event: Event) -> bool:
        """Whether there was anything to do it to."""
        try:
            await self._do(event)
        except (KubeError, NothingThereError):
            return False
        return True

    async def _do(self, event: Event) -> None:
        if event.what in FATES:
            await self.fate(event.subject, FATES[event.what])
        elif event.what in ("crash", "stop", "freeze", "roll"):
            getattr(self._replicas[int(event.subject)], event.what)(event.amount)
        elif event.what.startswith("hostile "):
            await self._hostile(event)
        elif event.what == "healthy hurt":
            assert self.healthy is not None
            self.healthy.expect(event.amount)
            await self._end(event, self._cluster.peek(api.PODS, HEALTHY.namespace)[:1])
        elif event.what == "clock stepped":
            self._replicas[int(event.subject)].ahead += event.amount
        elif event.subject:
            await self._to_service(event, self._inventory.service_of(event.subject))
        else:
            await self._to_cluster(event.what, event.amount)

    async def _to_service(self, event: Event, service: Service) -> None:
        if event.what.startswith(("job ", "group label", "rule label", "name taken")):
            await self._to_job(event, service)
        elif event.what.startswith(("pod ", "instance ")):
            await self._end(event, _victims(event, self._instances(service, event.subject)))
        elif event.what == "node under it lost":
            found = self._instances(service, event.subject)
            pods = [
                pod
                for one in found
                if one.group in DECODE
                for pod in one.pods
                if objects.phase(pod) == "Running"
            ]
            if not pods:
                raise NothingThereError
            await self.fate(objects.node_of(pods[0]), NodeFate.NOT_READY)
        elif event.what == SCALED or event.what.startswith("rule "):
            await self._to_rule(event, service)
        else:
            await self._to_makers(event, service)

    async def fate(self, node: str, fate: NodeFate) -> None:
        spec = next(spec for spec in self._inventory.nodes if spec.name == node)
        await change_node(self._cluster, spec, fate)

    async def _to_cluster(self, what: str, seconds: float = 0.0) -> None:
        if what == "compaction":
            self._cluster.compact()
        elif what == "lease deleted":
            await self._cluster.delete(api.LEASES, "default", LEASE)
        elif what == "lease emptied":
            await self._merge(api.LEASES, "default", LEASE, {"spec": {"holderIdentity": ""}})
        elif what == "operator comes":
            self._cluster.apply([deployment()])
        elif what == "operator goes":
            await self._cluster.delete(api.DEPLOYMENTS, OPERATOR_NAMESPACE, DEPLOYMENT)
        else:
            if what == "etcd restored":  # what was bound since is not there any more, or not bound
                then = max(self._clock.now() - seconds, self._furnished)
                self._cluster.restore(self._cluster.server.store.back_up(then))
            self._cluster.cut_all_watches()
            for replica in self._replicas:
                if replica.life is not None:
                    replica.life.cut_watches()
            if what == "etcd restored" and self.healthy is not None:
                self.healthy.expect(RESTORED, hurt=RESTORED)

    async def _hostile(self, event: Event) -> None:
        """What is refused has been tried."""
        die = random.Random(f"{event.what}-{event.at}")
        if event.what in hostile.WRITES:
            for obj in hostile.WRITES[event.what](die, int(event.amount)):
                with contextlib.suppress(KubeError):
                    self._cluster.apply([obj])
            return
        found = [
            (kind, obj)
            for kind in (api.ASCEND_JOBS, api.CONFIG_MAPS, api.PODS)
            for obj in self._cluster.peek(kind, hostile.NAMESPACE)
        ]
        if not found:
            raise NothingThereError
        for number in range(int(event.amount)):
            kind, obj = die.choice(found)
            made: Object = {"annotations": {"touched": str(number)}}
            if event.what != "hostile flood":
                made = {
                    "labels": hostile.some_labels(die),
                    "annotations": hostile.some_annotations(die),
                }
            with contextlib.suppress(KubeError):
                await self._merge(kind, hostile.NAMESPACE, objects.name(obj), {"metadata": made})

    async def _end(self, event: Event, pods: Sequence[Object]) -> None:
        """They fail, are evicted, or are gone at once."""
        if not pods:
            raise NothingThereError
        for pod in pods:
            if event.what == "pod failed":
                await exit_pod(self._cluster, pod, now=self._clock.now(), code=1)
            else:
                grace = None if event.what == "pod evicted" else 0
                await self._cluster.delete(api.PODS, *key_of(pod), grace_period_seconds=grace)

    def _instances(self, service: Service, subject: str) -> list[Instance]:
        """The one of the job that is the subject, or all of the service; pods that outlive their
        job count."""
        if service.kind is not None:
            return [one for one in view_of(self._cluster).instances if one.service == service.key]
        there = self._cluster.peek(api.PODS, service.namespace)
        pods = [pod for pod in there if objects.controller(pod).get("name") == subject]
        return [Instance(service.key, inventory.group_of(subject), subject, len(pods), pods=pods)]

    async def _to_job(self, event: Event, service: Service) -> None:
        place = (service.namespace, event.subject)
        job = inventory.server_job(service, event.subject)
        if event.what == "name taken":
            self._taken.append((service.namespace, f"{event.subject}-master-0"))
            await self._cluster.create(
                api.PODS, service.namespace, inventory.foreign_pod(*self._taken[-1])
            )
        elif event.what == "job applied":
            try:
                await self._cluster.get(api.ASCEND_JOBS, *place)
            except NotFoundError:
                await self._cluster.create(api.ASCEND_JOBS, service.namespace, job)
        elif event.what == "group label changed":
            await self._relabel(*place, {"mind-cluster/group-name": "group1"})
        elif event.what == "rule label removed":
            await self._relabel(*place, {"mind-cluster/scaling-rule": None})
        else:
            await self._cluster.delete(api.ASCEND_JOBS, *place)
            if event.what == "job applied anew":
                await self._cluster.create(api.ASCEND_JOBS, service.namespace, job)

    async def _to_makers(self, event: Event, service: Service) -> None:
        (prefill, decode), image = self.specs[service.name]
        number = int(event.amount)
        if event.what == "scaled":
            self.specs[service.name] = ((max(1, service.jobs[0] + number % 3 - 1), decode), image)
        elif event.what == "updated":
            self.specs[service.name] = ((prefill, decode), f"server:{number}")
        elif event.what == "applied anew" and service.kind is kinds.ASCEND_JOBS:
            # Ascend Operator takes the pods of the job before for the new one's, and never looks
            # again when they go.
            raise NothingThereError
        elif event.what == "applied anew":
            await apply_pruned(self._cluster, (), self._applied[service.name])
        await self.apply(service)

    async def apply(self, service: Service) -> None:
        """`kubectl apply --prune` of what the user of a service whose pods others make wrote
        last."""
        made = inventory.made_by_others(service, *self.specs[service.name])
        before = self._applied.get(service.name, ())
        await apply_pruned(self._cluster, made, before)
        self._applied[service.name] = made

    async def _relabel(self, namespace: str, job: str, labels: Mapping[str, str | None]) -> None:
        await self._merge(api.ASCEND_JOBS, namespace, job, {"metadata": {"labels": dict(labels)}})

    async def _merge(self, kind: Resource, namespace: str, name: str, patch: Object) -> None:
        await self._cluster.patch(kind, namespace, name, patch, patch_type=PatchType.MERGE)

    async def _to_rule(self, event: Event, service: Service) -> None:
        number = int(event.amount)
        if event.what == SCALED:
            found = view_of(self._cluster).elastic_service(service.namespace, service.name)
            if found is None:
                raise NothingThereError
            replicas = {"spec": {"replicas": number}}
            await self._merge(
                api.ELASTIC_SERVICES, service.namespace, objects.name(found), replicas
            )
        elif event.what == "rule deleted":
            await self._cluster.delete(api.CONFIG_MAPS, service.namespace, service.name)
        elif event.what == "rule broken":
            self.write_rule(service, BROKEN[number % len(BROKEN)])
        elif event.what == "rule paused":
            self.write_rule(service, paused="true")
        else:
            if event.what == "rule edited":
                self.ladders[service.name] = edited(service.ladder, number)
            self.write_rule(service)

    def write_rule(self, service: Service, text: str | None = None, **annotations: str) -> None:
        """The user's last ladder, or this text instead."""
        self._cluster.apply(
            [inventory.rule(service, self.ladders[service.name], text, **annotations)]
        )

    async def heal(self, lost_nodes: tuple[str, ...]) -> None:
        """What broke is fixed: nodes but the lost ones, labels, rules, names; what others make is
        applied again."""
        for namespace, name in self._taken:
            pods = {objects.name(pod): pod for pod in self._cluster.peek(api.PODS, namespace)}
            if name in pods and not objects.owner_uid(pods[name]):
                self._cluster.remove(api.PODS, namespace, name)
        for node in self._inventory.nodes:
            with contextlib.suppress(NotFoundError):
                await self.fate(
                    node.name, NodeFate.GONE if node.name in lost_nodes else NodeFate.READY
                )
        if not self._inventory.gated:
            with contextlib.suppress(NotFoundError):
                await self._to_cluster("operator goes")
        self._throw_out()
        for replica in self._replicas:
            replica.ahead = 0.0
        for service in self._inventory.services:
            # A rule that is created again inherits its annotations, so it has to be said that it
            # goes on.
            self.write_rule(service, paused="false")
            if service.kind is not None:
                await self.apply(service)
                continue
            for job in self._cluster.peek(api.ASCEND_JOBS, service.namespace):
                name = objects.name(job)
                if name in service.job_names():
                    labels = inventory.server_job(service, name)["metadata"]["labels"]
                    await self._relabel(service.namespace, name, labels)

    def _throw_out(self) -> None:
        """The hostile tenant has to go, and all that it wrote."""
        for kind in (api.ASCEND_JOBS, api.PODS, api.CONFIG_MAPS, api.ELASTIC_SERVICES):
            for obj in self._cluster.peek(kind, hostile.NAMESPACE):
                ours = objects.name(obj).endswith(OWN_SUFFIXES)
                if not ours and (kind == api.ASCEND_JOBS or not objects.owner_uid(obj)):
                    self._cluster.remove(kind, hostile.NAMESPACE, objects.name(obj))


def _victims(event: Event, found: list[Instance]) -> list[Object]:
    """Instances and pods are chosen by the event's number; only a pod on a node can fail."""
    pods = [
        pod
        for one in found
        for pod in one.pods
        if event.what != "pod failed" or objects.node_of(pod)
    ]
    if event.what == "instance killed" and pods:
        with_pods = [one for one in found if one.pods]
        return with_pods[int(event.amount) % len(with_pods)].pods
    return [pods[int(event.amount) % len(pods)]] if pods else []


def edited(ladder: tuple[Ratio, ...], number: int) -> tuple[Ratio, ...]:
    """Another valid ladder: more or fewer prefill instances at the top, or another minimum."""
    (prefill, decode), *rest = ladder
    return (
        ((prefill + 1, decode), *ladder),
        tuple(rest) or ((1, 1),),
        (*ladder, (1, 1)) if ladder[-1] != (1, 1) else ladder,
        ((prefill, decode + 1), *rest),
    )[number % 4]
