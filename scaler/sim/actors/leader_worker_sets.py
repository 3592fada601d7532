"""A stand-in for LeaderWorkerSet's manager: one StatefulSet of leaders, and one of workers per
leader pod.

Needs the stand-in for StatefulSets, the garbage collector, and on the simulated API server its pod
webhook (`label_member`), which gives a leader its group's index and key, a worker its own index,
and with gang scheduling both the name of the group's PodGroup. Until then a leader has name,
worker-index 0, revision and size; a worker all but its index. Not modelled: subgroups, volume
claims, services and node selectors of exclusive topology. An update moves the partition and the
replicas of its StatefulSet of leaders, from the highest group down, `maxUnavailable` at a time,
with `maxSurge` groups more. Must not: make pods itself, or know of rules."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, STATEFUL_SETS, KubeApi, Object
from scaler.kube.errors import ForbiddenError
from scaler.sim.actors import making, objects
from scaler.sim.actors.stand_in import StandInController, key_of
from scaler.sim.actors.stateful_sets import ordinal_of
from scaler.sim.apiserver.server import Review
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS

_PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME = _PREFIX + "name"
GROUP_INDEX = _PREFIX + "group-index"
GROUP_KEY = _PREFIX + "group-key"
WORKER_INDEX = _PREFIX + "worker-index"
REVISION = _PREFIX + "template-revision-hash"
SIZE = _PREFIX + "size"
LEADER_NAME = _PREFIX + "leader-name"
REPLICAS = _PREFIX + "replicas"
EXCLUSIVE = _PREFIX + "exclusive-topology"
AFTER_START = _PREFIX + "experimental-recreate-group-after-start"


class GroupCondition(msgspec.Struct, frozen=True):
    """One group, by index: whether leader and workers are all ready, and all of the newest
    revision."""

    ready: bool = False
    updated: bool = False

    @property
    def done(self) -> bool:
        """Nothing of the update is left to do."""
        return self.ready and self.updated


class Leaders(msgspec.Struct, frozen=True):
    """The wanted fields of its leader StatefulSet."""

    partition: int
    replicas: int


class LeaderWorkerSets(StandInController):
    """Follows all LeaderWorkerSets. `gang`: a PodGroup per group, made together with its
    workers."""

    follows = (LEADER_WORKER_SETS, STATEFUL_SETS, PODS, POD_GROUPS)

    def __init__(self, api: KubeApi, *, gang: bool = True) -> None:
        super().__init__(api)
        self._gang = gang
        self._templates: dict[str, Object] = {}
        """Revision -> leaderWorkerTemplate."""

    async def keep(self, owner: Object) -> None:
        revision = revision_of(owner)
        self._templates.setdefault(revision, copy.deepcopy(template_of(owner)))
        here = objects.namespace(owner)
        name = objects.name(owner)
        members = []
        for pod in self.mirror.all(PODS):
            if objects.namespace(pod) == here and objects.labels_of(pod).get(NAME) == name:
                members.append(pod)
        await self._keep_leaders(owner, members, revision)
        for pod in members:
            if restarts_group(owner, pod, members):
                first = pod if _leads(pod) else self._leader_of(pod, members)
                if first is not None and not objects.terminating(first):
                    # in the foreground: the workers go before their leader
                    await self.delete(PODS, first, propagation_policy="Foreground")
        for leader in members:
            if _leads(leader) and not objects.terminating(leader):
                await self._keep_group(owner, leader)

    async def _keep_leaders(self, lws: Object, members: list[Object], revision: str) -> None:
        found = self.mirror.get(STATEFUL_SETS, *key_of(lws))
        if found is None:
            wanted = next_leaders(lws, None, (), new_revision=False, resized=False)
            await self.create(STATEFUL_SETS, _leaders(lws, wanted, revision))
            return
        rolling = (objects.spec(found).get("updateStrategy") or {}).get("rollingUpdate") or {}
        now = Leaders(int(rolling.get("partition") or 0), making.number(found))
        leaders = {objects.labels_of(pod).get(GROUP_INDEX): pod for pod in members if _leads(pod)}
        groups = []
        for index in range(now.replicas):
            groups.append(self._condition(lws, leaders.get(str(index)), revision))
        wanted = next_leaders(
            lws,
            now,
            groups,
            new_revision=objects.labels_of(found).get(REVISION) != revision,
            resized=objects.annotations_of(found).get(REPLICAS) != str(making.number(lws)),
        )
        body = _leaders(lws, wanted, revision)
        if _what_may_change(found) != _what_may_change(body):
            await self.renew(STATEFUL_SETS, found, body)
        status = {
            "replicas": int(objects.status(found).get("replicas") or 0),
            "readyReplicas": len([group for group in groups if group.ready]),
            "updatedReplicas": len([group for group in groups if group.updated]),
            "hpaPodSelector": f"{NAME}={objects.name(lws)},{WORKER_INDEX}=0",
            "observedGeneration": making.generation(lws),
        }
        await self.status(LEADER_WORKER_SETS, lws, status)

    def _condition(self, lws: Object, leader: Object | None, revision: str) -> GroupCondition:
        if leader is None:
            return GroupCondition()
        ready = making.ready(leader)
        updated = objects.labels_of(leader).get(REVISION) == revision
        if size_of(template_of(lws)) == 1:
            return GroupCondition(ready, updated)
        workers = self.mirror.get(STATEFUL_SETS, *key_of(leader))
        if workers is None:
            return GroupCondition()
        serving = objects.status(workers).get("readyReplicas") == making.number(workers)
        return GroupCondition(
            ready and serving, updated and objects.labels_of(workers).get(REVISION) == revision
        )

    async def _keep_group(self, lws: Object, leader: Object) -> None:
        revision = objects.labels_of(leader).get(REVISION, "")
        template = self._templates.get(revision) or template_of(lws)
        if self._gang:
            await self._keep_pod_group(lws, leader, template)
        late = objects.spec(lws).get("startupPolicy") == "LeaderReady" and not making.ready(leader)
        unplaced = EXCLUSIVE in objects.annotations_of(lws) and not objects.node_of(leader)
        present = self.mirror.get(STATEFUL_SETS, *key_of(leader)) is not None
        if size_of(template) > 1 and not (late or unplaced or present):
            await self.create(STATEFUL_SETS, _workers(lws, leader, template))

    async def _keep_pod_group(self, lws: Object, leader: Object, template: Object) -> None:
        name = objects.annotations_of(leader).get(objects.GROUP_NAME, "")
        if not name or self.mirror.get(POD_GROUPS, objects.namespace(leader), name) is not None:
            return
        size = size_of(template)
        parts = [_leader_template(template), *[template.get("workerTemplate") or {}] * (size - 1)]
        body = making.pod_group(
            name,
            making.Owner(leader, PODS),
            parts,
            labels={key: objects.labels_of(leader)[key] for key in (NAME, GROUP_INDEX, REVISION)},
            annotations=making.with_prefix(objects.annotations_of(lws), "volcano.sh/"),
            minMember=1 if objects.spec(lws).get("startupPolicy") == "LeaderReady" else size,
            queue=objects.annotations_of(lws).get("scheduling.volcano.sh/queue-name"),
        )
        await self.create(POD_GROUPS, body)

    def _leader_of(self, pod: Object, members: list[Object]) -> Object | None:
        """The leader to whose StatefulSet a worker belongs; none of another revision, and none that
        is younger."""
        leader_uid = ""
        for stateful_set in self.mirror.all(STATEFUL_SETS):
            if objects.uid(stateful_set) == objects.owner_uid(pod):
                leader_uid = objects.owner_uid(stateful_set)
        revision = objects.labels_of(pod).get(REVISION)
        for member in members:
            same_revision = objects.labels_of(member).get(REVISION) == revision
            if same_revision and objects.uid(member) == leader_uid:
                return member
        return None


def restarts_group(lws: Object, pod: Object, members: list[Object]) -> bool:
    """Whether the change of the pod restarts the whole group."""
    policy = template_of(lws).get("restartPolicy", "RecreateGroupOnPodRestart")
    if policy not in ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart"):
        return False
    restarted = objects.phase(pod) in ("Running", "Pending") and objects.has_restarted(pod)
    if not objects.terminating(pod) and not restarted:
        return False
    patient = policy == "RecreateGroupAfterStart" or AFTER_START in objects.annotations_of(lws)
    index = objects.labels_of(pod).get(GROUP_INDEX)
    group = [member for member in members if objects.labels_of(member).get(GROUP_INDEX) == index]
    phases = {objects.phase(member) for member in group}
    waiting = len(group) != size_of(template_of(lws)) or "Pending" in phases
    return not (patient and waiting)


def template_of(lws: Object) -> Object:
    found: Object = objects.spec(lws).get("leaderWorkerTemplate") or {}
    return found


def size_of(template: Object) -> int:
    """Pods of one group."""
    return int(template.get("size") or 1)


def revision_of(lws: Object) -> str:
    """The value of the label template-revision-hash."""
    return making.digest([template_of(lws), objects.spec(lws).get("networkConfig")])


def _leads(pod: Object) -> bool:
    return objects.labels_of(pod).get(WORKER_INDEX) == "0"


def _leader_template(template: Object) -> Object:
    return template.get("leaderTemplate") or template.get("workerTemplate") or {}


def _notes(lws: Object, template: Object) -> dict[str, str]:
    """Annotations of each pod of a group."""
    topology = objects.annotations_of(lws).get(EXCLUSIVE)
    return {SIZE: str(size_of(template)), **({EXCLUSIVE: topology} if topology else {})}


def _leaders(lws: Object, wanted: Leaders, revision: str) -> Object:
    name = objects.name(lws)
    template = template_of(lws)
    mark = {NAME: name, REVISION: revision}
    rolling = {
        "partition": wanted.partition,
        "maxUnavailable": _rolling(lws).get("maxUnavailable", 1),
    }
    spec = {
        "serviceName": name,
        "replicas": wanted.replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {NAME: name, WORKER_INDEX: "0"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": making.marked(
            _leader_template(template), {WORKER_INDEX: "0", **mark}, _notes(lws, template)
        ),
    }
    return making.body_of(
        STATEFUL_SETS,
        name,
        making.Owner(lws, LEADER_WORKER_SETS),
        labels={**objects.labels_of(lws), **mark},
        annotations={**objects.annotations_of(lws), REPLICAS: str(making.number(lws))},
        spec=spec,
    )


def _what_may_change(leaders: Object) -> list[Object]:
    """The parts of the leader StatefulSet that follow the LeaderWorkerSet."""
    spec = objects.spec(leaders)
    return [
        spec.get("replicas") or {},
        spec.get("updateStrategy") or {},
        spec.get("template") or {},
        objects.labels_of(leaders),
        objects.annotations_of(leaders),
    ]


def _rolling(lws: Object) -> Object:
    return (objects.spec(lws).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}


def _workers(lws: Object, leader: Object, template: Object) -> Object:
    mark = {key: objects.labels_of(leader)[key] for key in (GROUP_INDEX, GROUP_KEY, NAME, REVISION)}
    notes = {LEADER_NAME: objects.name(leader), **_notes(lws, template)}
    spec = {
        "serviceName": objects.name(lws),
        "replicas": size_of(template) - 1,
        "ordinals": {"start": 1},
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {key: mark[key] for key in (GROUP_INDEX, GROUP_KEY, NAME)}},
        "template": making.marked(template.get("workerTemplate") or {}, mark, notes),
    }
    return making.body_of(
        STATEFUL_SETS, objects.name(leader), making.Owner(leader, PODS), labels=mark, spec=spec
    )


# updates, as pure functions


def next_leaders(
    lws: Object,
    leaders: Leaders | None,
    groups: Sequence[GroupCondition],
    *,
    new_revision: bool,
    resized: bool,
) -> Leaders:
    """The next step. `leaders` is the present StatefulSet (None before it exists), `groups` has its
    replicas."""
    replicas = making.number(lws)
    rolling = _rolling(lws)
    surge = min(making.scaled(rolling.get("maxSurge", 0), replicas, up=True), replicas)
    unavailable = making.scaled(rolling.get("maxUnavailable", 1), replicas, up=False)
    least = int(rolling.get("partition") or 0)
    if leaders is None:
        return Leaders(max(0, least), replicas)
    if new_revision:
        size = (
            replicas
            if leaders.replicas < replicas
            else _groups_now(replicas, surge, unavailable, replicas)
        )
        return Leaders(max(min(replicas, leaders.replicas), least), size)
    if leaders.partition == 0 and leaders.replicas == replicas:
        return Leaders(max(0, least), replicas)
    if leaders.replicas < replicas:
        return Leaders(max(leaders.partition, least), replicas)
    behind = len([group for group in groups[:replicas] if not group.done])
    size = _groups_now(replicas, surge, unavailable, behind)
    if resized:
        return Leaders(max(min(leaders.partition, replicas + surge), least), size)
    step = unavailable + surge - (replicas + surge - leaders.replicas)
    return Leaders(max(_next_partition(groups, step, leaders.partition), least), size)


def _groups_now(replicas: int, surge: int, unavailable: int, behind: int) -> int:
    """Groups beyond the wanted ones stay while more than `unavailable` of the wanted ones are not
    updated."""
    return replicas + (max(0, behind - unavailable) if behind <= surge else surge)


def _next_partition(groups: Sequence[GroupCondition], step: int, partition: int) -> int:
    """Groups from here on are updated; moves down only."""
    number = len(groups)
    done = 0
    while done < number and groups[number - 1 - done].done:
        done += 1
    lowest = max(0, number - done - step)
    wanted = lowest + len([group for group in groups[:lowest] if not group.ready])
    for index in range(min(wanted, number - 1), lowest - 1, -1):
        if groups[index].ready and not groups[index].updated:
            break
        wanted = index
    return min(wanted, partition)


def label_member(review: Review) -> Object:
    """The hook, for clusters whose LeaderWorkerSet has Volcano as its scheduler provider, as
    MindCluster requires."""
    pod = label_without_gang(review)
    labels = objects.labels_of(pod)
    if review.operation == "CREATE" and review.resource == PODS and NAME in labels:
        group = f"{labels[NAME]}-{labels[GROUP_INDEX]}-{labels[REVISION]}"
        pod["metadata"]["annotations"][objects.GROUP_NAME] = group
    return pod


def label_without_gang(review: Review) -> Object:
    """The hook without a scheduler provider."""
    pod = review.object
    labels = objects.labels_of(pod)
    if review.operation != "CREATE" or review.resource != PODS or NAME not in labels:
        return pod
    if SIZE not in objects.annotations_of(pod):
        raise ForbiddenError(
            403, "Forbidden", f"size annotation is unexpectedly missing for pod {objects.name(pod)}"
        )
    ordinal = ordinal_of(pod)
    leads = labels.get(WORKER_INDEX) == "0"
    if leads:
        labels.setdefault(GROUP_INDEX, str(ordinal))
        unique = f"{review.namespace}/{objects.name(pod)}".encode()
        labels.setdefault(GROUP_KEY, hashlib.sha1(unique, usedforsecurity=False).hexdigest())
    else:
        labels[WORKER_INDEX] = str(ordinal)
    leader = objects.name(pod) if leads else objects.annotations_of(pod).get(LEADER_NAME, "")
    variables = {
        "LWS_LEADER_ADDRESS": f"{leader}.{labels[NAME]}.{review.namespace}",
        "LWS_GROUP_SIZE": objects.annotations_of(pod)[SIZE],
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    making.add_environment(pod["spec"], variables, first=True)
    return pod
