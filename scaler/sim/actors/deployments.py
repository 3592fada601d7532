"""Stand-ins for the Deployment and ReplicaSet controllers.

A Deployment has a ReplicaSet per pod template, is scaled, and is updated within maxSurge and
maxUnavailable: one step per round, as the original writes once and waits for the effect. A
ReplicaSet keeps its number of active pods, and chooses which surplus pods go first. Not modelled:
history, rollback, progress deadlines and hash collisions. Must not: know of nodes or rules."""

from __future__ import annotations

from collections import Counter

import msgspec

from scaler.kube.api import DEPLOYMENTS, PODS, REPLICA_SETS, Object
from scaler.sim.actors import making, objects
from scaler.sim.actors.placement import matches
from scaler.sim.actors.stand_in import StandInController
from scaler.timestamps import seconds_of

HASH = "pod-template-hash"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MOST = "deployment.kubernetes.io/max-replicas"
_REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", _DESIRED, _MOST, _REVISION}
)


Sizes = dict[str, int]
"""ReplicaSet name -> its new number of replicas."""


class Rollout(msgspec.Struct, frozen=True):
    """A Deployment with its ReplicaSets: `new` has the present template, `old` are the others,
    oldest first."""

    deployment: Object
    new: Object | None
    old: tuple[Object, ...]

    @property
    def replicas(self) -> int:
        return making.number(self.deployment)

    @property
    def all(self) -> tuple[Object, ...]:
        return (*self.old, self.new) if self.new is not None else self.old

    @property
    def living(self) -> list[Object]:
        """ReplicaSets that should have pods."""
        return [found for found in self.all if making.number(found) > 0]

    @property
    def recreates(self) -> bool:
        return (objects.spec(self.deployment).get("strategy") or {}).get("type") == "Recreate"

    @property
    def fence_posts(self) -> tuple[int, int]:
        """(maxSurge, maxUnavailable) in pods."""
        if self.recreates:
            return 0, 0
        given = (objects.spec(self.deployment).get("strategy") or {}).get("rollingUpdate") or {}
        return making.fence_posts(
            given.get("maxSurge", "25%"), given.get("maxUnavailable", "25%"), self.replicas
        )

    @property
    def most(self) -> int:
        """The largest number of pods at once."""
        return self.replicas + self.fence_posts[0] if self.replicas else 0

    @property
    def total(self) -> int:
        """The pods that all ReplicaSets should have now."""
        return sum(map(making.number, self.all))

    @property
    def without_old(self) -> Sizes:
        """Sizes that end all pods of old templates."""
        return dict.fromkeys(map(objects.name, self.old), 0)


class Deployments(StandInController):
    """Follows all Deployments and their ReplicaSets; pods only to see the end of those of a
    Recreate."""

    follows = (DEPLOYMENTS, REPLICA_SETS, PODS)

    async def keep(self, owner: Object) -> None:
        rollout = _rollout(owner, self.mirror.owned(REPLICA_SETS, owner))
        await self.status(DEPLOYMENTS, owner, _status(rollout))
        marks = {objects.annotations_of(found).get(_DESIRED) for found in rollout.living}
        if marks - {None, str(rollout.replicas)} or objects.spec(owner).get("paused"):
            await self._resize(rollout, scale(rollout))
        elif rollout.recreates and self._old_pods_run(rollout):
            await self._resize(rollout, rollout.without_old)
        elif rollout.new is None:
            await self.create(REPLICA_SETS, _replica_set(rollout, grown(rollout, 0)))
        else:
            await self._resize(rollout, roll(rollout))

    def _old_pods_run(self, rollout: Rollout) -> bool:
        for old in rollout.old:
            for pod in self.mirror.owned(PODS, old):
                if not objects.ended(pod):
                    return True
        return False

    async def _resize(self, rollout: Rollout, sizes: Sizes) -> None:
        marks = {_DESIRED: str(rollout.replicas), _MOST: str(rollout.most)}
        for replica_set in rollout.all:
            size = sizes.get(objects.name(replica_set), making.number(replica_set))
            marked = {**objects.annotations_of(replica_set), **marks}
            if size != making.number(replica_set) or marked != objects.annotations_of(replica_set):
                patch: Object = {"spec": {"replicas": size}, "metadata": {"annotations": marks}}
                await self.patch(REPLICA_SETS, replica_set, patch)


# the steps, as pure functions


def scale(rollout: Rollout) -> Sizes:
    """The ReplicaSets' sizes after the Deployment's replicas changed: all to one, or in proportion
    during a rollout."""
    living = rollout.living
    if len(living) <= 1:
        only = living[0] if living else rollout.new or next(reversed(rollout.old), None)
        return {objects.name(only): rollout.replicas} if only is not None else {}
    size = making.number(rollout.new or {})
    marked = objects.annotations_of(rollout.new or {}).get(_DESIRED)
    if size == rollout.replicas == _available(rollout.new) and marked == str(size):
        return rollout.without_old
    return _in_proportion(rollout) if not rollout.recreates else {}


def roll(rollout: Rollout) -> Sizes:
    """The next step of an update: first the new ReplicaSet grows, then the old ones shrink; {} when
    no step is due."""
    if rollout.new is None:
        return {}
    size = making.number(rollout.new)
    wanted = grown(rollout, size)
    if wanted != size:
        return {objects.name(rollout.new): wanted}
    return _shrunk(rollout)


def grown(rollout: Rollout, size: int) -> int:
    """The size of the new ReplicaSet, now `size`, within the surge."""
    if rollout.recreates or size > rollout.replicas:
        return rollout.replicas
    room = rollout.replicas + rollout.fence_posts[0] - rollout.total
    return size + max(0, min(room, rollout.replicas - size))


def _shrunk(rollout: Rollout) -> Sizes:
    """Old ReplicaSets first lose unavailable pods, then as many available ones as can be spared."""
    least = rollout.replicas - rollout.fence_posts[1]
    starting = making.number(rollout.new or {}) - _available(rollout.new)
    spare = rollout.total - least - starting
    sizes = {objects.name(old): making.number(old) for old in rollout.old}
    if spare <= 0 or not any(sizes.values()):
        return {}
    for old in rollout.old:  # cleanupUnhealthyReplicas
        unhealthy = min(max(0, sizes[objects.name(old)] - _available(old)), spare)
        sizes[objects.name(old)] -= unhealthy
        spare -= unhealthy
    spare = sum(map(_available, rollout.all)) - least
    for old in rollout.old:
        taken = min(sizes[objects.name(old)], max(0, spare))
        sizes[objects.name(old)] -= taken
        spare -= taken
    return sizes


def _in_proportion(rollout: Rollout) -> Sizes:
    """The difference is divided by size; the rounding error goes to the largest."""
    sizes = {objects.name(found): making.number(found) for found in rollout.living}
    missing = rollout.most - sum(sizes.values())
    living = reversed(rollout.living) if missing > 0 else rollout.living
    ordered = sorted(living, key=lambda found: -sizes[objects.name(found)])
    left = missing
    for found in ordered:
        size = sizes[objects.name(found)]
        before = int(objects.annotations_of(found).get(_MOST) or rollout.replicas) or 1
        share = round(size * rollout.most / before) - size
        share = max(0, min(share, left)) if missing > 0 else min(0, max(share, left))
        sizes[objects.name(found)] = size + share
        left -= share
    sizes[objects.name(ordered[0])] = max(0, sizes[objects.name(ordered[0])] + left)
    return sizes


# reading and making objects


def _rollout(deployment: Object, found: list[Object]) -> Rollout:
    selector = objects.spec(deployment).get("selector")
    own = [one for one in objects.staying(found) if matches(selector, objects.labels_of(one))]
    own.sort(key=lambda one: (one["metadata"].get("creationTimestamp", ""), objects.name(one)))
    template = _plain(objects.spec(deployment).get("template") or {})
    new = None
    old = []
    for one in own:
        same = _plain(objects.spec(one).get("template") or {}) == template
        if same and new is None:
            new = one
        else:
            old.append(one)
    return Rollout(deployment, new, tuple(old))


def _plain(template: Object) -> Object:
    """A pod template without the label that the controller has added."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH}
    return {
        "labels": labels,
        "annotations": metadata.get("annotations") or {},
        "spec": template.get("spec"),
    }


def _available(replica_set: Object | None) -> int:
    return int(objects.status(replica_set or {}).get("availableReplicas") or 0)


def _pods_made(replica_set: Object | None) -> int:
    return int(objects.status(replica_set or {}).get("replicas") or 0)


def _replica_set(rollout: Rollout, size: int) -> Object:
    spec = objects.spec(rollout.deployment)
    mark = {HASH: making.digest(_plain(spec.get("template") or {}))}
    template = making.marked(spec.get("template") or {}, mark)
    selector = spec.get("selector") or {}
    selector = {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **mark}}
    annotations = dict(objects.annotations_of(rollout.deployment))
    for name in _NOT_COPIED:
        annotations.pop(name, None)
    annotations |= {
        _DESIRED: str(rollout.replicas),
        _MOST: str(rollout.most),
        _REVISION: str(len(rollout.old) + 1),
    }
    return making.body_of(
        REPLICA_SETS,
        f"{objects.name(rollout.deployment)}-{mark[HASH]}",
        making.Owner(rollout.deployment, DEPLOYMENTS),
        labels=template["metadata"]["labels"],
        annotations=annotations,
        spec={"replicas": size, "selector": selector, "template": template},
    )


def _status(rollout: Rollout) -> Object:
    total = sum(map(_pods_made, rollout.all))
    available = sum(map(_available, rollout.all))
    return {
        "replicas": total,
        "updatedReplicas": _pods_made(rollout.new),
        "readyReplicas": available,
        "availableReplicas": available,
        "unavailableReplicas": max(0, max(rollout.replicas, total) - available),
        "observedGeneration": making.generation(rollout.deployment),
    }


_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets(StandInController):
    follows = (REPLICA_SETS, PODS)

    async def keep(self, owner: Object) -> None:
        pods = [pod for pod in self.mirror.owned(PODS, owner) if making.active(pod)]
        wanted = making.number(owner)
        template = objects.spec(owner).get("template") or {}
        for _ in range(wanted - len(pods)):
            pod = making.pod_of(
                template, f"{objects.name(owner)}-", making.Owner(owner, REPLICA_SETS)
            )
            if not await self.create(PODS, pod):
                break  # the original ends the batch at the first refusal
        for victim in victims(pods, len(pods) - wanted):
            await self.delete(PODS, victim)
        serving = sum(map(making.ready, pods))
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": serving,
            "availableReplicas": serving,
            "observedGeneration": making.generation(owner),
        }
        await self.status(REPLICA_SETS, owner, status)


def victims(pods: list[Object], number: int) -> list[Object]:
    """The active pods that go first, in the order of the original."""
    on_node = Counter(map(objects.node_of, pods))

    def order(pod: Object) -> tuple[float, ...]:
        is_ready = making.ready(pod)
        ready_since = 0.0
        if is_ready:
            ready_since = seconds_of(objects.condition(pod, "Ready").get("lastTransitionTime"))
        return (
            bool(objects.node_of(pod)),
            _PHASES.get(objects.phase(pod), 0),
            is_ready,
            _cost(pod),
            -on_node[objects.node_of(pod)],
            -ready_since,
            -max(objects.restarts_of_each(pod), default=0),
            -seconds_of(pod["metadata"].get("creationTimestamp")),
        )

    return sorted(pods, key=order)[: max(0, number)]


def _cost(pod: Object) -> int:
    try:
        return int(
            objects.annotations_of(pod).get("controller.kubernetes.io/pod-deletion-cost", "0")
        )
    except ValueError:
        return 0
