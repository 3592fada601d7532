"""Sees every commit in the store and who made it, and every request of a replica, and says which
promise it breaks.

It knows Kubernetes objects and the contract, and none of the controller's code: no caches, no
decision."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from scaler.kube import api
from scaler.kube.api import EventType, Object
from scaler.kube.errors import NotSentError, TooManyRequestsError
from scaler.names import MANAGED_BY, MANAGED_BY_LABEL, ROUNDS_ANNOTATION, VERSION_BEFORE
from scaler.sim.actors import objects
from scaler.sim.actors.volcano_jobs import JOB_NAME
from scaler.sim.apiserver.client import Request
from scaler.sim.apiserver.store import Change
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.instances import instance_of
from scaler.workloads.volcanojob import JOB_VERSION
from tests.chaos import hostile
from tests.chaos.view import GATE, gates_of, held
from tests.chaos.witness import Witness

COST = "controller.kubernetes.io/pod-deletion-cost"
HELD_COST = "-1000000000"
GROUP_NAME = "scheduling.k8s.io/group-name"
RULE = "mind-cluster/scaling-rule"
KEEP = "mind-cluster/keep"
MADE_FOR_INSTANCES = (api.PODS, api.POD_GROUPS, api.SERVICES)
OWN_SUFFIXES = ("-scaler-last-valid", "-scaler-evictions")
VERSION = {("metadata", name) for name in ("resourceVersion", "generation", "managedFields")}
ROUNDS = ("metadata", "annotations", ROUNDS_ANNOTATION)
"""The one annotation of a job that the scaler may write beside the status."""
ROOM = ("spec", "minResources")
LEASE = "mind-cluster-scaler"
WINDOW = 60.0
"""Seconds in which write attempts are counted."""
ORDERED = 15
"""Write attempts that an instance needs to come or to go when a user changes spec.replicas; of
three pods: 15, 8."""
TRIES = 5
"""How often the writer sends one write that is refused with certainty (429, or not sent), within
about two seconds."""
FOLLOWED = 10.0
"""Seconds in which that is written."""


class Writes:
    """`busiest` = most write attempts of one life in WINDOW seconds."""

    def __init__(
        self,
        cluster: SimCluster,
        witness: Witness,
        *,
        storm_bound: float = math.inf,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """`storm_bound`: write attempts in WINDOW that are too many; `sizes`: instances of each
        rule, by its name."""
        self.busiest = 0
        self.last_write = 0.0
        """When a life last changed anything but the Lease."""
        self.last_action = 0.0
        """When a life last made or removed an object of an instance."""
        self.released: set[str] = set()
        """uid and name of what is admitted or completed, until it is taken back: its pods may lose
        our gate (S1)."""
        self.evicted: set[str] = set()
        """The same of what some decision evicts: its pods may be deleted though bound (3b.4)."""
        self.witness = witness
        self.fail = witness.fail
        self.counts = witness.counts
        self._clock = witness.clock
        self._cluster = cluster
        self._storm_bound = storm_bound
        self._stormed: set[str] = set()
        self._sizes = sizes or {}
        self._orders: deque[tuple[float, int]] = deque()
        """When a user changed spec.replicas, and how many instances move by it."""
        self._actor: tuple[str, Request, bool] | None = None
        self._attempts: dict[str, deque[float]] = {}
        self._in_vain: Counter[tuple[str, ...]] = Counter()
        """Life, verb, kind, namespace and name of a write -> how many times in a row it certainly
        had no effect."""
        self._jobs: dict[str, dict[str, str]] = {}
        """uid -> labels of every AscendJob that ever was."""
        self._ruled: set[str] = set()
        """uid of every pod that named a rule itself."""
        self._shared: set[str] = set()
        """Names of the PodGroups that Volcano makes for pods under a rule."""
        self._writers: list[str] = []
        """Lives in the order of their first effective write."""
        cluster.observe(self.see)

    @contextmanager
    def acting(self, life: str, request: Request, *, late: bool = False) -> Iterator[None]:
        """What is committed inside is the effect of this request."""
        self._actor = (life, request, late)
        try:
            yield
        finally:
            self._actor = None

    def attempted(self, life: str, request: Request) -> None:
        """A life is about to send a write, whatever becomes of it. What is sent again after it
        certainly had no effect counts once for each TRIES: so often the writer sends it by
        itself."""
        if request.resource == api.LEASES:
            return
        now = self._clock.now()
        if request.namespace == hostile.NAMESPACE:
            self.counts["write for the hostile tenant"] += 1
            return
        if self._in_vain[_write(life, request)] % TRIES:
            self.counts["write sent again"] += 1
            return
        times = self._attempts.setdefault(life, deque())
        times.append(now)
        while times[0] < now - WINDOW:
            times.popleft()
        self.busiest = max(self.busiest, len(times))
        while self._orders and self._orders[0][0] < now - WINDOW - FOLLOWED:
            self._orders.popleft()
        bound = self._storm_bound + ORDERED * sum(moved for _, moved in self._orders)
        if len(times) >= bound and life not in self._stormed:
            self._stormed.add(life)
            self.fail(f"storm: {life} sent {len(times)} writes in {WINDOW:g} s")

    def answered(self, life: str, request: Request, error: Exception | None) -> None:
        if isinstance(error, TooManyRequestsError | NotSentError):
            self._in_vain[_write(life, request)] += 1
        else:
            self._in_vain.pop(_write(life, request), None)

    def see(self, change: Change) -> None:
        if change.resource == api.ASCEND_JOBS:
            metadata = change.after.object["metadata"]
            self._jobs[metadata["uid"]] = {
                **self._jobs.get(metadata["uid"], {}),
                **metadata.get("labels", {}),
            }
        elif change.resource == api.PODS and RULE in change.after.object["metadata"].get(
            "labels", {}
        ):
            pod = change.after.object
            self._ruled.add(pod["metadata"]["uid"])
            self._shared.add(f"podgroup-{objects.owner_uid(pod) or pod['metadata']['uid']}")
        elif (
            change.resource == api.ELASTIC_SERVICES
            and change.before is not None
            and self._actor is None
        ):
            size = self._sizes.get(change.after.object["spec"]["rule"], 0)
            pair = (change.before.object, change.after.object)
            was, now = (min(size, obj["spec"].get("replicas", size)) for obj in pair)
            self._orders.extend([(self._clock.now(), abs(was - now))] if was != now else [])
        who = self._actor[0] if self._actor else "-"
        self.witness.note(
            f"{change.version} {change.type.value} {change.resource.plural} {'/'.join(change.key)}"
            f" {who}"
        )
        # A namespace that a restore took comes back with the first object in it.
        if (
            self._actor is not None
            and not change.resource == api.NAMESPACES != self._actor[1].resource
        ):
            self._judge(change, *self._actor)

    def _judge(self, change: Change, life: str, request: Request, late: bool) -> None:
        what = f"{life} {request.verb} {request.resource.plural} {'/'.join(change.key)}"
        self.counts[f"{'late ' if late else ''}{request.verb} {request.resource.plural}"] += 1
        if change.resource == api.LEASES:
            if change.key[1] != LEASE:
                self.fail(f"S8: {what}: not its Lease")
            return
        self.last_write = self._clock.now()
        if not late:
            self._fence(life, what)
        if self._keeps(change, request):
            self.counts["keep"] += 1
            return
        if change.resource in MADE_FOR_INSTANCES:
            self.last_action = self.last_write
        if self._is_of_others(change):
            self._of_others(change, request, what)
        elif change.resource in MADE_FOR_INSTANCES:
            self._instance_object(change, what)
            if not late and change.resource != api.PODS and change.type is EventType.DELETED:
                self._left_alone(change, what)
        elif change.resource != api.EVENTS and (wrong := _wrong_object(change)):
            self.fail(f"S8: {what}: {wrong}")

    def _keeps(self, change: Change, request: Request) -> bool:
        """A patch that means this one pod, of an instance of ours, and says only whether evictions
        are kept from it."""
        if change.resource != api.PODS or change.before is None or request.verb != "patch":
            return False
        before = change.before.object
        ours = (
            RULE in before["metadata"].get("labels", {}) or objects.owner_uid(before) in self._jobs
        )
        keep = ("metadata", "labels", KEEP)
        said = changed(before, change.after.object) in (
            {keep: (None, "true")},
            {keep: ("true", None)},
        )
        return said and ours and _names(request.body, before)

    def _fence(self, life: str, what: str) -> None:
        """S7: after a new leader's first write nothing of an old one takes effect."""
        if life not in self._writers:
            self._writers.append(life)
        elif self._writers[-1] != life:
            self.fail(f"S7: {what}: after {self._writers[-1]} had written")

    def _is_of_others(self, change: Change) -> bool:
        """A pod that names a rule itself, or a PodGroup of such: it was made by others, or stands
        in for theirs."""
        subject = change.after.object if change.before is None else change.before.object
        if change.resource == api.PODS:
            return RULE in subject["metadata"].get("labels", {})
        owners = {owner["uid"] for owner in subject["metadata"].get("ownerReferences", ())}
        shared = change.key[1] in self._shared
        return change.resource == api.POD_GROUPS and (shared or not owners.isdisjoint(self._ruled))

    def _of_others(self, change: Change, request: Request, what: str) -> None:
        """Pods are released or, unbound, deleted; PodGroups are made, and Volcano's keep no room.
        Nothing else."""
        if change.before is None:
            if change.resource == api.PODS:
                self.fail(f"S8: {what}: others make its pods")
            return
        before = change.before.object
        after = change.after.object
        if request.verb == "patch" and change.resource == api.PODS:
            for wrong in wrong_patch(before, after, request.body):
                self.fail(f"S8: {what}: {wrong}")
            if held(before) and not held(after):
                self._pod_released(before, what)
        elif request.verb == "patch":
            for wrong in wrong_group_patch(before, after, volcanos=change.key[1] in self._shared):
                self.fail(f"S8: {what}: {wrong}")
        elif request.verb != "delete" or change.resource != api.PODS:
            self.fail(f"S8: {what}: not the scaler's to change")
        elif before["spec"].get("nodeName"):
            self._bound_pod_deleted(before, what)

    def _pod_released(self, pod: Object, what: str) -> None:
        self.counts["release"] += 1
        if self.released.isdisjoint(_names_of(pod)):
            self.fail(f"S1: {what}: no decision releases it")

    def _instance_object(self, change: Change, what: str) -> None:
        subject = change.after.object if change.before is None else change.before.object
        labels = self._jobs.get(objects.owner_uid(subject))
        if labels is None or not _is_ours(labels):
            self.fail(f"S8: {what}: of no job of ours")
        if change.before is None:
            return
        gone = (
            change.type is EventType.DELETED
            or "deletionTimestamp" in change.after.object["metadata"]
        )
        if not gone:
            self.fail(f"S8: {what}: only created and deleted objects were promised")
        elif change.resource == api.PODS and subject["spec"].get("nodeName"):
            self._bound_pod_deleted(subject, what)

    def _left_alone(self, change: Change, what: str) -> None:
        """The PodGroup or Service of an instance goes when no pod of it is left on a node."""
        uid = objects.owner_uid(change.after.object)
        for pod in self._cluster.peek(api.PODS, change.key[0]):
            stays = pod["spec"].get("nodeName") and not (
                objects.terminating(pod) or objects.ended(pod)
            )
            if stays and objects.owner_uid(pod) == uid:
                self.fail(
                    f"S3: {what}: its pod {pod['metadata']['name']} is bound to"
                    f" {pod['spec']['nodeName']}"
                )

    def _bound_pod_deleted(self, pod: Object, what: str) -> None:
        if not self.evicted.isdisjoint(_names_of(pod)):
            self.counts["eviction"] += 1
        else:
            self.fail(f"S3: {what}: bound to {pod['spec']['nodeName']}")


def _wrong_object(change: Change) -> str:
    """What is wrong with a write of a job or of an object of the scaler's own; "" = nothing."""
    after = change.after.object
    labels = after["metadata"].get("labels") or {}
    is_own = labels.get(MANAGED_BY_LABEL) == MANAGED_BY
    exists = change.before is not None and change.type is not EventType.DELETED
    found = changed(change.before.object, after) if change.before is not None else {}
    more = any(path[0] != "status" and path != ROUNDS for path in found)
    keeps = {"matchLabels": {KEEP: "true"}}
    promises = {
        api.ASCEND_JOBS: (
            ("a job that is not labelled", not _is_ours(labels)),
            ("a job was made or removed", not exists),
            ("more than its status and rounds", more),
        ),
        api.CONFIG_MAPS: (
            ("a ConfigMap that is not its own", not change.key[1].endswith(OWN_SUFFIXES)),
        ),
        api.ELASTIC_SERVICES: (
            ("more than its status", exists and more),
            ("an ElasticService that is not its own", not exists and not is_own),
        ),
        api.DISRUPTION_BUDGETS: (
            ("a budget never changes", exists),
            ("a budget that is not its own", not is_own),
            (
                "a budget over pods that it did not label",
                after.get("spec", {}).get("selector") != keeps,
            ),
        ),
    }
    judged = promises.get(change.resource, (("not a kind that it may write", True),))
    return next((words for words, wrong in judged if wrong), "")


def _names_of(pod: Object) -> set[str]:
    """By which decisions may know its instance."""
    return {instance_of(pod, {})[0], objects.owner_uid(pod), objects.uid(pod)}


def _is_ours(labels: Mapping[str, str]) -> bool:
    """A job with these labels: under a rule, or of MindIE."""
    return RULE in labels or {"app", "jobID"} <= labels.keys()


def _write(life: str, request: Request) -> tuple[str, ...]:
    return life, request.verb, request.resource.plural, request.namespace, request.name


Changes = dict[tuple[str, ...], tuple[Any, Any]]
"""Path of a field -> what it was and what it became, None for nothing."""


def changed(before: Object, after: Object) -> Changes:
    """What became of an object, but for its version; of labels, annotations and the like each
    one."""
    old = _fields(before)
    new = _fields(after)
    paths = sorted(
        path
        for path in old.keys() | new.keys()
        if path not in VERSION and old.get(path) != new.get(path)
    )
    return {path: (old.get(path), new.get(path)) for path in paths}


def _fields(value: Any, *path: str) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict) or len(path) == len(ROUNDS):
        return {path: value}
    return {
        found: one
        for key, inner in value.items()
        for found, one in _fields(inner, *path, key).items()
    }


def wrong_patch(before: Object, after: Object, body: Any) -> Iterator[str]:
    """S8: everything that a patch did to a pod besides taking our gate off or marking the pod of a
    Volcano Job for its deletion, or that it did not mean this pod only."""
    if not _names(body, before):
        yield "names no uid, or another pod's"
    gates = gates_of(before)
    left = gates_of(after)
    if left not in (gates, [gate for gate in gates if gate != GATE]):
        yield f"gates {gates} became {left}"
    named, cost = (("metadata", "annotations", key) for key in (GROUP_NAME, COST))
    marks = [("metadata", "annotations", key) for key in (JOB_VERSION, VERSION_BEFORE)]
    for path, (old, new) in changed(before, after).items():
        allowed = path == named and new is not None and not before["spec"].get("nodeName")
        allowed |= (path, old, new) == (cost, HELD_COST, None)
        allowed |= path == ("spec", "schedulingGates")
        allowed |= path in marks and before["metadata"]["labels"].get(JOB_NAME) is not None
        if not allowed:
            yield f"{'.'.join(path)}: {old} became {new}"


def _names(body: Any, pod: Object) -> bool:
    """Whether a patch names the uid of this pod."""
    named: Object = (body.get("metadata") if isinstance(body, dict) else None) or {}
    return bool(named.get("uid") == pod["metadata"]["uid"])


def wrong_group_patch(before: Object, after: Object, *, volcanos: bool) -> Iterator[str]:
    """S8: everything that a patch did to a PodGroup besides giving it owners that are pods, or,
    where Volcano made it, letting it keep no room."""
    found = changed(before, after)
    if volcanos:
        right = after["spec"].get("minResources") == {} and all(path[:2] == ROOM for path in found)
    else:
        old, new = (owners or [] for owners in found.pop(("metadata", "ownerReferences"), ([], [])))
        pods = all(one["kind"] == "Pod" and not one["controller"] for one in new[len(old) :])
        right = new[: len(old)] == old and pods and not found
    if not right:
        yield f"changed {changed(before, after)}"
