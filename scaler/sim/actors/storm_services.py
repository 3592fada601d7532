"""Stand-ins for AIBrix: StormServices make RoleSets, RoleSets make pods or PodSets, PodSets make
their pods.

A role with podGroupSize above 1 consists of PodSets, each one instance; else each pod is one. All
roles of a RoleSet are scaled together, one that depends on others when those are ready, and updated
one after the other. Not modelled: StormServices
that replace whole RoleSets (every update is in place), pausing, in-place image updates, services,
and gang strategies other than Volcano's. Must not: bind pods, make PodGroups for pods without a
strategy, or know of rules."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scaler.kube.api import POD_GROUPS, PODS, Object, Resource
from scaler.sim.actors import making, objects
from scaler.sim.actors.making import add_environment, shortened
from scaler.sim.actors.stand_in import StandInController
from scaler.workloads.stormservice import POD_SETS, ROLE_SETS, STORM_SERVICES

STORM_SERVICE = "storm-service-name"
ROLE = "role-name"
TEMPLATE_HASH = "role-template-hash"
_PREFIX = "stormservice.orchestration.aibrix.ai/"
REPLICA_INDEX = _PREFIX + "role-replica-index"
POD_SET = _PREFIX + "podset-name"
POD_INDEX = _PREFIX + "pod-group-index"
ROLE_SET_INDEX = _PREFIX + "roleset-index"
_REVISION = "storm-service-revision"


class StormServices(StandInController):
    """All three controllers, as AIBrix runs them in one process."""

    follows = (STORM_SERVICES, ROLE_SETS, POD_SETS, PODS, POD_GROUPS)

    async def reconcile(self) -> None:
        for storm in self.living(STORM_SERVICES):
            await self._keep_storm(storm)
        for role_set in self.living(ROLE_SETS):
            members = [*self.mirror.owned(PODS, role_set), *self.mirror.owned(POD_SETS, role_set)]
            await self._keep_role_set(role_set, members)
        for pod_set in self.living(POD_SETS):
            await self._keep_pod_set(pod_set, self.mirror.owned(PODS, pod_set))

    async def _keep_storm(self, storm: Object) -> None:
        own = objects.staying(self.mirror.owned(ROLE_SETS, storm))
        own.sort(key=_index_of)
        wanted = making.number(storm)
        for index in range(len(own), wanted):
            await self.create(ROLE_SETS, _role_set(storm, index))
        for surplus in own[wanted:]:
            await self.delete(ROLE_SETS, surplus)
        for found in own[:wanted]:
            body = _role_set(storm, _index_of(found))
            if objects.spec(found) != body["spec"]:
                await self.renew(ROLE_SETS, found, body)
        await self.status(STORM_SERVICES, storm, {"replicas": len(own)})

    async def _keep_role_set(self, role_set: Object, members: list[Object]) -> None:
        await self._keep_pod_group(role_set, ROLE_SETS)
        roles = objects.spec(role_set).get("roles") or []
        scaled = False
        for role in roles:
            if _of(role, members) or _may_begin(role, roles, members):
                scaled |= await self._apply(role_set, role, members, update=False)
        if scaled:
            return
        for role in sorted(roles, key=lambda role: int(role.get("upgradeOrder") or 0)):
            await self._apply(role_set, role, members, update=True)
            if not _role(role).is_up_to_date(_members_of(role, members)):
                return  # one role after the other

    async def _apply(
        self, role_set: Object, role: Object, members: list[Object], *, update: bool
    ) -> bool:
        """One step of scaling, or of an update; False when none was due."""
        numbered = bool(role.get("stateful")) or group_size(role) > 1
        if update:
            step = roll_stateful if numbered else roll_stateless
        else:
            step = scale_stateful if numbered else scale_stateless
        own = _of(role, members)
        change = step(_role(role), _members_of(role, members))
        resource = POD_SETS if group_size(role) > 1 else PODS
        for slot in change.create:
            await self.create(resource, _made(role_set, role, slot))
        for member in own:
            if objects.name(member) in change.delete:
                await self.delete(resource, member)
        return bool(change)

    async def _keep_pod_group(self, owner: Object, resource: Resource) -> None:
        """Only if the owner names Volcano as its scheduling strategy."""
        wanted = _volcano(objects.spec(owner))
        if wanted is not None:
            group = making.body_of(
                POD_GROUPS, objects.name(owner), making.Owner(owner, resource), spec=wanted
            )
            await self.ensure(POD_GROUPS, group)

    async def _keep_pod_set(self, pod_set: Object, pods: list[Object]) -> None:
        await self._keep_pod_group(pod_set, POD_SETS)
        size = making.number(pod_set, "podGroupSize")
        counted = [pod for pod in pods if not objects.ended(pod)]
        restarted = [pod for pod in objects.staying(counted) if objects.restarts(pod)]
        if len(counted) < size and restarted:
            for pod in restarted:  # unhealthy pods are deleted before missing ones are created
                await self.delete(PODS, pod)
        elif len(counted) < size:
            present = {objects.labels_of(pod).get(POD_INDEX) for pod in pods}
            for index in range(size):
                if str(index) not in present:
                    await self.create(PODS, _member(pod_set, index, size))
        in_order = sorted(counted, key=lambda pod: int(objects.labels_of(pod).get(POD_INDEX) or 0))
        for surplus in in_order[size:]:
            await self.delete(PODS, surplus)
        serving = sum(map(making.ready, counted))
        phase = "Ready" if serving == size else "Running" if serving else "Pending"
        await self.status(
            POD_SETS, pod_set, {"totalPods": len(counted), "readyPods": serving, "phase": phase}
        )


def _may_begin(role: Object, roles: list[Object], members: list[Object]) -> bool:
    """Whether all instances of the roles on which it depends are ready."""
    for other in roles:
        if other.get("name") in (role.get("dependencies") or ()):
            ready = [one for one in _of(other, members) if _is_ready(one)]
            if len(ready) < int(other.get("replicas") or 0):
                return False
    return True


def _is_ready(member: Object) -> bool:
    return making.ready(member) or objects.status(member).get("phase") == "Ready"


def group_size(role: Object) -> int:
    """Pods per instance of the role."""
    return int(role.get("podGroupSize") or 1)


def _role(role: Object) -> Role:
    replicas = int(role.get("replicas") or 0)
    strategy = role.get("updateStrategy") or {}
    surge, unavailable = making.fence_posts(
        strategy.get("maxSurge", 0), strategy.get("maxUnavailable", 0), replicas
    )
    return Role(replicas, _hash(role), surge, min(unavailable, replicas))


def _index_of(role_set: Object) -> int:
    return int(objects.annotations_of(role_set).get(ROLE_SET_INDEX) or 0)


def _of(role: Object, members: Iterable[Object]) -> list[Object]:
    """The PodSets of a role whose instances have several pods, else its pods."""
    found = []
    for member in members:
        named = objects.labels_of(member).get(ROLE) == role.get("name")
        if named and _is_pod_set(member) == (group_size(role) > 1):
            found.append(member)
    return found


def _members_of(role: Object, members: Iterable[Object]) -> list[Member]:
    return [_member_of(member) for member in _of(role, members)]


def _is_pod_set(member: Object) -> bool:
    return "podGroupSize" in objects.spec(member)


def _member_of(obj: Object) -> Member:
    slot = objects.annotations_of(obj).get(REPLICA_INDEX, "")
    return Member(
        name=objects.name(obj),
        slot=int(slot) if slot.isdecimal() else None,
        hash=objects.labels_of(obj).get(TEMPLATE_HASH, ""),
        ready=objects.phase(obj) == "Ready" if _is_pod_set(obj) else making.ready(obj),
        active=making.active(obj),
        terminating=objects.terminating(obj),
    )


def _hash(role: Object) -> str:
    return making.digest(role.get("template"))


def _volcano(spec: Object) -> Any:
    return (spec.get("schedulingStrategy") or {}).get("volcanoSchedulingStrategy")


def _role_set(storm: Object, index: int) -> Object:
    template = copy.deepcopy(objects.spec(storm).get("template") or {})
    metadata = template.get("metadata") or {}
    revision = f"{objects.name(storm)}-{making.digest(template)}"
    return making.body_of(
        ROLE_SETS,
        f"{objects.name(storm)[:48]}-roleset-",
        making.Owner(storm, STORM_SERVICES),
        labels={
            **(metadata.get("labels") or {}),
            STORM_SERVICE: objects.name(storm),
            _REVISION: revision,
        },
        annotations={
            **(metadata.get("annotations") or {}),
            ROLE_SET_INDEX: str(index),
            _PREFIX + "revision": revision,
        },
        spec=template.get("spec") or {},
    )


def _marks(
    role_set: Object, role: Object, slot: int | None
) -> tuple[str, dict[str, str], dict[str, str]]:
    """Name, labels and annotations of a pod or a PodSet of a role."""
    labels = {
        "roleset-name": objects.name(role_set),
        ROLE: str(role.get("name")),
        TEMPLATE_HASH: _hash(role),
        STORM_SERVICE: objects.labels_of(role_set).get(STORM_SERVICE, ""),
    }
    annotations = {ROLE_SET_INDEX: objects.annotations_of(role_set).get(ROLE_SET_INDEX, "")}
    if slot is not None:
        labels[REPLICA_INDEX] = annotations[REPLICA_INDEX] = str(slot)
    if _volcano(objects.spec(role_set)) is not None:
        labels[objects.GROUP_NAME] = annotations[objects.GROUP_NAME] = objects.name(role_set)
    name = f"{objects.name(role_set)}-{role.get('name')}"
    name = shortened(name, 57) + "-" if slot is None else shortened(f"{name}-{_hash(role)}-{slot}")
    return name, labels, annotations


def _made(role_set: Object, role: Object, slot: int | None) -> Object:
    """A member of a role: a pod, or a PodSet."""
    name, labels, annotations = _marks(role_set, role, slot)
    variables = {
        "STORM_SERVICE_NAME": labels[STORM_SERVICE],
        "ROLESET_NAME": objects.name(role_set),
        "ROLESET_INDEX": annotations[ROLE_SET_INDEX],
        "ROLE_NAME": str(role.get("name")),
        "ROLE_TEMPLATE_HASH": _hash(role),
        **({} if slot is None else {"ROLE_REPLICA_INDEX": str(slot)}),
    }
    template = copy.deepcopy(role.get("template") or {})
    add_environment(template.get("spec") or {}, variables, first=True)
    if group_size(role) == 1:
        host = {"subdomain": labels[STORM_SERVICE], **({} if slot is None else {"hostname": name})}
        return making.pod_of(
            template,
            name,
            making.Owner(role_set, ROLE_SETS),
            labels=labels,
            annotations=annotations,
            **host,
        )
    spec: Object = {
        "podGroupSize": group_size(role),
        "template": template,
        "stateful": bool(role.get("stateful")),
    }
    if _volcano(role) is not None:
        spec["schedulingStrategy"] = role["schedulingStrategy"]
        annotations[objects.GROUP_NAME] = name
    return making.body_of(
        POD_SETS,
        name,
        making.Owner(role_set, ROLE_SETS),
        labels=labels,
        annotations=annotations,
        spec=spec,
    )


def _member(pod_set: Object, index: int, size: int) -> Object:
    """A pod with the PodSet's labels and annotations, unless the template has its own."""
    template = objects.spec(pod_set).get("template") or {}
    given = template.get("metadata") or {}
    name = shortened(f"{objects.name(pod_set)}-{index}")
    own = {POD_SET: objects.name(pod_set), POD_INDEX: str(index)}
    pod = making.pod_of(
        template,
        name,
        making.Owner(pod_set, POD_SETS),
        labels={**objects.labels_of(pod_set), **(given.get("labels") or {}), **own},
        annotations={**objects.annotations_of(pod_set), **(given.get("annotations") or {})},
        hostname=name,
        subdomain=objects.labels_of(pod_set).get(STORM_SERVICE, ""),
    )
    place = {
        "PODSET_NAME": objects.name(pod_set),
        "POD_GROUP_INDEX": str(index),
        "POD_GROUP_SIZE": str(size),
    }
    add_environment(pod["spec"], place, first=True)
    return pod


class Member(msgspec.Struct, frozen=True):
    """A pod or a PodSet of one role."""

    name: str
    slot: int | None
    hash: str
    ready: bool
    active: bool = True
    terminating: bool = False


class Role(msgspec.Struct, frozen=True):
    """The spec of a role. `hash` is that of its present pod template."""

    replicas: int
    hash: str
    surge: int
    unavailable: int

    def slots(self, members: Iterable[Member]) -> dict[int, list[Member]]:
        """The active members of every slot."""
        slots: dict[int, list[Member]] = {}
        for slot in range(self.replicas):
            slots[slot] = []
        for member in members:
            if member.active and member.slot in slots:
                slots[member.slot].append(member)
        return slots

    def room(self, members: Iterable[Member]) -> int:
        """How many more members are allowed; terminating ones still count."""
        present = [m for m in members if m.active or m.terminating]
        return max(0, self.replicas + self.surge - len(present))

    def spare(self, ready: int) -> int:
        """How many ready members may be deleted."""
        return max(0, ready - (self.replicas - self.unavailable))

    def is_up_to_date(self, members: Sequence[Member]) -> bool:
        """Whether there are as many members as specified, all ready and of the present template."""
        for member in members:
            if not (member.active and member.ready and member.hash == self.hash):
                return False
        return len(members) == self.replicas

    def outdated(self, members: Iterable[Member]) -> list[Member]:
        """Those of another template than the present one."""
        return [member for member in members if member.hash != self.hash]

    def outdated_first(self, members: Iterable[Member]) -> list[Member]:
        """The members, those of another template first, then by name."""
        return sorted(members, key=lambda member: (member.hash == self.hash, member.name))


class Change(msgspec.Struct, frozen=True):
    """Slots for new members (None: one without a number), and names to delete."""

    create: tuple[int | None, ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def scale_stateful(role: Role, members: list[Member]) -> Change:
    """Fill empty slots, leave one member per slot, delete members that have ended or have no
    slot."""
    slots = role.slots(members)
    delete = _ended(members)
    for member in members:
        if member.active and member.slot not in slots:
            delete.append(member)
    for held in slots.values():
        delete += _superfluous(role, held)
    empty = [slot for slot, held in slots.items() if not held]
    return Change(tuple(empty[: role.room(members)]), _names(delete))


def roll_stateful(role: Role, members: list[Member]) -> Change:
    """The next members to replace: in their slots when they can be spared, else beside them."""
    alone = []
    slots_ready = 0
    for held in role.slots(members).values():
        if len(held) == 1:
            alone.append(held[0])
        if _ready(held):
            slots_ready += 1
    outdated = role.outdated(alone)
    serving = _ready(outdated)
    spare = role.spare(slots_ready)
    beside = serving[spare:]
    delete = [m for m in outdated if m not in beside]
    room = max(0, role.replicas + role.surge - len(members))
    return Change(tuple(m.slot for m in beside[:room]), _names(delete))


def scale_stateless(role: Role, members: list[Member]) -> Change:
    """Reach the number; outdated or unready members are deleted first."""
    active = _active(members)
    missing = role.replicas - len(active)
    if missing > 0:
        return Change((None,) * min(missing, role.room(members)), _names(_ended(members)))
    serving = role.outdated_first(_ready(active))
    spare = serving[: role.spare(len(serving))]
    surplus = [*role.outdated_first(_not_ready(active)), *spare][: len(active) - role.replicas]
    return Change((), _names([*_ended(members), *surplus]))


def roll_stateless(role: Role, members: list[Member]) -> Change:
    """The next members to replace."""
    active = _active(members)
    outdated = sorted(role.outdated(active), key=lambda member: member.name)
    spare = role.spare(len(_ready(active)))
    delete = [*_not_ready(outdated), *_ready(outdated)[:spare]]
    wanted = role.replicas - (len(active) - len(outdated))
    return Change((None,) * max(0, min(role.room(members), wanted)), _names(delete))


def _names(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(member.name for member in members)


def _active(members: Iterable[Member]) -> list[Member]:
    return [member for member in members if member.active]


def _ready(members: Iterable[Member]) -> list[Member]:
    return [member for member in members if member.ready]


def _not_ready(members: Iterable[Member]) -> list[Member]:
    return [member for member in members if not member.ready]


def _ended(members: Iterable[Member]) -> list[Member]:
    return [m for m in members if not m.active and not m.terminating]


def _superfluous(role: Role, held: list[Member]) -> list[Member]:
    """Of several members in one slot: a ready new one stays alone; until then a ready old and a new
    one stay."""
    if len(held) < 2:
        return []
    old = role.outdated(held)
    new = [member for member in held if member not in old]
    stay = _ready(new)[:1] or [*_ready(old)[:1], *new[:1]]
    return [member for member in held if member not in stay]
