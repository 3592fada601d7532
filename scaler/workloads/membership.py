"""Values: the instance of a pod, a job that is one instance, labels, and facts of owners about
instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from scaler.decide.nodes import PodRequest
from scaler.decide.world import RunPolicy, ServiceKey
from scaler.kube.metadata import LONGEST_NAME, Metadata, Stored
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.reasons.reasons import Reason
from scaler.remembered import Sharing
from scaler.rules.finding import shown
from scaler.rules.limits import MAX_INSTANCES, MAX_PODS
from scaler.rules.short import Stage
from scaler.rules.values import as_count, as_list, as_text, at
from scaler.timestamps import seconds_of
from scaler.workloads.npu_rules import NO_JOB, NpuJob
from scaler.workloads.pod_requests import pod_request_of

MOST_FAULTS = 10
"""Faults of a job that are reported."""
OwnerName = tuple[str, str, str]
"""Kind, namespace and name of an object that makes pods, or makes the objects that make pods."""


class Membership(msgspec.Struct, frozen=True, gc=False):
    """The instance of a pod, as far as the pod shows: first by its kind, then by its labels."""

    instance: str
    """Identity of the instance within the cluster; the same after its pods were created again,
    unless it is mortal."""
    name: str
    """Name of the instance for people, and the second key of the order of admission."""
    size: int = 0
    """Pods of the instance; 0 = only the objects of `described_by` have the number."""
    mortal: bool = False
    """The instance ends with its pods: pods that come later are another instance."""
    owner: str = ""
    """Identity of the object that makes the pods, whose revisions replace each other where it has
    some (a Deployment, a LeaderWorkerSet); "" where there is none, or the pod itself returns."""
    revision: str = ""
    described_by: tuple[OwnerName, ...] = ()
    """The objects with its size, newest revision and age, the most important first."""
    shares_pod_group: bool = False
    """Without the scaler, its pods share a PodGroup with other instances, or are spread over
    several PodGroups."""
    kind: str = ""
    key: ServiceKey = ServiceKey("", "", "")
    group: str | None = None
    label_problem: Reason | None = None
    mislabelled: str = ""


class LaterPods(msgspec.Struct, frozen=True, gc=False):
    """Pods of a job that are created only when others of it are ready."""

    start: str
    """The start of their names, as in `Job.replicas`."""
    after: tuple[tuple[str, int], ...]
    """The start of the names of those others, and how many of them have to be ready; of each
    group."""
    after_any: bool = False
    """One of these groups is enough."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """An AscendJob, or another job that is one instance, as the decision sees it."""

    namespace: str
    name: str
    uid: str
    created: float
    generation: int
    key: ServiceKey
    group: str | None
    deleting: bool
    finished: bool
    replicas: tuple[tuple[str, int], ...]
    """The start of the names of its expected pods (`p0-worker-`) and the number of each, leader
    first; empty when its numbers of replicas are invalid. Not the names themselves: 2 KB of JSON
    may mean 1,000 pods."""
    pod_group: str
    policy: RunPolicy
    members: int = 0
    """minMember of its PodGroup: the pods that must exist before any of them starts."""
    exit_code_pods: tuple[str, ...] = ()
    """The start of the names of pods whose replica type has restartPolicy ExitCode."""
    ending: str = ""
    """Why the job has finished, in the words of its condition; "" when it has not, or has no such
    condition."""
    restart_limit: int | None = None
    """Restarts after which the controller that makes its pods gives the job up; None = never."""
    restarts: int = 0
    """Restarts used so far, if the job itself has the number."""
    label_problem: Reason | None = None
    mislabelled: str = ""
    """What is wrong with its labels, and the remedy, when `key` and `group` are those of its
    admission instead."""
    faults: tuple[str, ...] = ()
    """Everything that prevents its pods, each as `InvalidReplicaSpec: what was found`; empty when
    nothing does."""
    refused: str = ""
    """Why Ascend Operator could not read the job, in its own words; "" when it could."""
    names_rule: bool = False
    """The job itself has the label that names the rule."""
    later: tuple[LaterPods, ...] = ()
    """Pods that the controller which makes them creates only when others are ready."""
    hardware: tuple[Any, ...] = ()
    """Labels and annotations of the job that its rank table depends on."""
    npus: NpuJob = NO_JOB
    """What MindCluster's scheduler reads of the job."""
    stage: Stage = ""
    """Prefill or decode, where the labels of the job say it. Shown, never decided by."""
    tier: str = ""
    """`PodRequest.tier`: all its pods have to be in one HyperNode."""

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its expected pods, made on each call; fixed, so creating a pod twice is
        harmless."""
        return tuple(
            [f"{start}{index}" for start, number in self.replicas for index in range(number)]
        )

    @property
    def leader(self) -> str:
        """The name of its first pod; "" when it has none."""
        return next((f"{start}0" for start, number in self.replicas if number), "")


class JobHead(NamedTuple):
    """What the metadata of a job says, of every kind of job: fields of `Job`."""

    namespace: str
    name: str
    uid: str
    created: float
    generation: int
    deleting: bool
    pod_group: str


def job_head(meta: Mapping[str, Any]) -> JobHead:
    name = as_text(meta.get("name"))
    uid = as_text(meta.get("uid"))
    return JobHead(
        namespace=as_text(meta.get("namespace")),
        name=name,
        uid=uid,
        created=seconds_of(as_text(meta.get("creationTimestamp"))),
        generation=as_count(meta.get("generation")),
        deleting=bool(meta.get("deletionTimestamp")),
        pod_group=f"{name}-{uid}",
    )


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The three labels that say where an instance belongs; "" for a missing or empty label."""

    rule: str = ""
    group: str = ""
    job_id: str = ""

    @property
    def problem(self) -> Reason | None:
        """The problem of the labels of an object that names a rule."""
        if not self.rule:
            return Reason.RULE_MISSING
        if not self.job_id:
            return Reason.JOB_ID_MISSING
        return None if self.group else Reason.GROUP_LABEL_MISSING


NO_LABELS = Labels()
M = TypeVar("M", Membership, Job)
_shared = Sharing(2**21)


class LaterRole(msgspec.Struct, frozen=True, gc=False):
    """A role of which the owner makes instances only when instances of other roles are ready."""

    name: str
    labels: Labels
    instances: int
    """Instances that the role will have."""
    size: int
    """Pods of one instance."""
    request: PodRequest
    """Of each pod, as the template says."""
    after: tuple[str, ...]
    """The roles that have to be ready first."""


class RoleTemplate(msgspec.Struct, frozen=True, gc=False):
    """What the pods of one instance request, as the templates of their owner say now."""

    first: PodRequest
    """Of the first pod, the leader where there is one."""
    others: PodRequest
    """Of each other pod."""
    size: int = 0
    """Pods of one instance; 0 when the templates do not say it."""
    role: str = ""
    """The role that this is about; "" where the owner has no roles."""


class OwnerFacts(Stored, frozen=True, gc=False):
    """Facts about instances from an object that makes pods, or makes the objects that make pods."""

    kind: str
    created: float
    owner: str = ""
    """Identity as in Membership.owner; "" when the object has no revisions."""
    revision: str = ""
    rank: int = 0
    """The object with the highest rank has the newest revision of its owner."""
    size: int = 0
    """Pods of one instance; 0 when the object has no such number."""
    wanted: int = 0
    """Instances that the object should have, if each of its replicas is one; 0 when it has no such
    number."""
    leader_first: bool = False
    """The other pods of an instance are created only when its leader is ready."""
    one_by_one: bool = False
    """Each pod of an instance is created only when those before it are ready."""
    later: tuple[LaterRole, ...] = ()
    """Roles of which it makes instances only when others are ready."""
    templates: tuple[RoleTemplate, ...] = ()
    """Of each role whose pods name a rule."""


def identity(kind: str, namespace: str, *names: str) -> str:
    """The identity, within the cluster, of an object, or of an instance that has no object."""
    return "/".join((kind, namespace, *names))


def pod_alone(pod: Metadata) -> Membership:
    """A pod that is the whole instance, and does not return. Volcano puts all pods of one owner
    into one PodGroup."""
    owner = ""
    if pod.owner.kind and pod.owner.name:
        owner = identity(pod.owner.kind, pod.namespace, pod.owner.name)
    return Membership(pod.uid, pod.name, 1, mortal=True, owner=owner, shares_pod_group=True)


def number_in(text: str, largest: int = MAX_PODS) -> int:
    """The number of pods in a label or annotation; 0 when it is no usable number."""
    number = (
        int(text) if len(text) <= len(str(largest)) and text.isdecimal() and text.isascii() else 0
    )
    return number if number <= largest else 0


def labels_of(labels: Mapping[str, Any]) -> Labels:
    rule, group, job_id = (
        as_text(labels.get(name)) for name in (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL)
    )
    return _shared(Labels(rule, group, job_id))


def as_admitted(found: M, then: Labels, *, no_such_rule: bool = False) -> M:
    """`found` with the labels that count where some are missing: those of its admission. `found`
    itself if none is missing, if a value is unknown, or if both rule and group were removed.
    `no_such_rule`: there never was the rule of the label."""
    key = found.key
    lacks_rule = no_such_rule or not key.rule
    right = Labels(
        rule=then.rule if lacks_rule else key.rule,
        group=found.group or then.group,
        job_id=key.job_id or then.job_id,
    )
    missing = {}
    if lacks_rule:
        missing[RULE_LABEL] = right.rule
    if not key.job_id:
        missing[JOB_ID_LABEL] = right.job_id
    if not found.group:
        missing[GROUP_LABEL] = right.group
    says_anything = key.rule or found.group
    if not (missing and says_anything and right.rule and right.job_id and right.group):
        return found
    wrong = f"label {' and '.join(missing)} is missing or empty"
    if key.rule and lacks_rule:
        wrong = f"label {RULE_LABEL} is {shown(key.rule)}, and there was never such a rule"
    remedy = ", ".join(f"{name}={value}" for name, value in missing.items())
    return msgspec.structs.replace(
        found,
        key=ServiceKey(key.namespace, right.rule, right.job_id),
        group=right.group,
        label_problem=Reason.RULE_MISSING if lacks_rule else found.label_problem,
        mislabelled=f"{wrong}: write {remedy}",
    )


def role_templates(
    first: Any, others: Any, *, size: int = 0, role: str = ""
) -> tuple[RoleTemplate, ...]:
    """What the pods of an instance request, from two pod templates of any shape; none where neither
    names a rule. The others are as the first where they have no template of their own, and the
    other way round."""
    first = at(first or others)
    others = at(others or first)
    labels = [at(template, "metadata", "labels") for template in (first, others)]
    if not any(labels_of(one).rule for one in labels):
        return ()
    of_first = pod_request_of(first.get("spec"))
    of_others = of_first if others is first else pod_request_of(others.get("spec"))
    return (RoleTemplate(of_first, of_others, min(size, MAX_PODS), role[:LONGEST_NAME]),)


def later_role(role: Mapping[str, Any], template: Mapping[str, Any], size: int) -> LaterRole | None:
    """The role, of any shape, with this pod template; None for one that depends on no other."""
    after = [as_text(name) for name in as_list(role.get("dependencies"))]
    if not any(after):
        return None
    replicas = as_count(role["replicas"], MAX_INSTANCES) if "replicas" in role else 1
    return LaterRole(
        name=as_text(role.get("name"))[:LONGEST_NAME],
        labels=labels_of(at(template, "metadata", "labels")),
        instances=replicas,
        size=max(1, min(size, MAX_PODS)),
        request=pod_request_of(template.get("spec")),
        after=tuple(after),
    )
