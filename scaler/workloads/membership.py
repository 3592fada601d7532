"""Values: where a pod belongs, a job that is one instance, labels, and what owners know of instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scaler.clock import seconds_of
from scaler.decide.lifecycle import RunPolicy
from scaler.decide.world import Reason, ServiceKey
from scaler.kube.metadata import Owner, sharing
from scaler.names import GROUP_LABEL, JOB_ID_LABEL, RULE_LABEL
from scaler.rules.finding import shown
from scaler.rules.limits import MAX_PODS
from scaler.rules.values import as_count, as_text

MOST_FAULTS = 10
"""Of a job that are said."""
OwnerName = tuple[str, str, str]
"""Kind, namespace and name of an object that makes pods, or makes their makers."""
JOB_KINDS = {"AscendJob": "mindxdl.gitee.com/", "Job": "batch.volcano.sh/"}
"""Kinds of jobs that are instances by themselves, and how the apiVersion of an owner reference to them begins."""


class Membership(msgspec.Struct, frozen=True, gc=False):
    """A pod's instance, as far as the pod itself says: what its kind knows, then what its labels say."""

    instance: str
    """Identity of the instance within the cluster; the same after its pods were made anew, unless it is mortal."""
    name: str
    """The instance's name for people, and the second key of the order of admission."""
    size: int = 0
    """Pods of the instance; 0 = the objects of `described_by` know."""
    mortal: bool = False
    """The instance ends with its pods: what comes instead is another one."""
    maker: str = ""
    """Identity of the object whose revisions replace each other (a Deployment, a LeaderWorkerSet); "" without any."""
    revision: str = ""
    """Of the pod's template."""
    described_by: tuple[OwnerName, ...] = ()
    """The objects that say its size, newest revision and age, the most important first."""
    shares_pod_group: bool = False
    """Left alone, its pods share a PodGroup with other instances, or are spread over several."""
    kind: str = ""
    key: ServiceKey = ServiceKey("", "", "")
    group: str | None = None
    label_problem: Reason | None = None
    mislabelled: str = ""
    """As `Job.mislabelled`."""


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
    """How the names of its expected pods begin (`p0-worker-`) and how many there are of each, leader first; empty when
    its numbers of replicas cannot be read. Not the names themselves: 2 KB of JSON may mean 1,000 pods."""
    pod_group: str
    policy: RunPolicy
    members: int = 0
    """minMember of its PodGroup: the pods that must be there before any of them starts."""
    exit_code_pods: tuple[str, ...] = ()
    """How the names of pods begin whose replica type has restartPolicy ExitCode."""
    ending: str = ""
    """Why it has finished, in the words of its condition; "" when it has not or does not say."""
    restart_limit: int | None = None
    """Restarts after which the controller that makes its pods gives it up; None = never."""
    restarts: int = 0
    """How many of them are used up, where the job itself says it."""
    label_problem: Reason | None = None
    mislabelled: str = ""
    """What is wrong with its labels and what to write, where `key` and `group` are those with which it was admitted."""
    faults: tuple[str, ...] = ()
    """All that keeps pods from being made of it, each as `InvalidReplicaSpec: what was found`; empty when nothing."""
    refused: str = ""
    """Why Ascend Operator could not read it, in its own words; "" when it could."""
    names_rule: bool = False
    """The label that names the rule stands on the job itself."""
    hardware: tuple[Any, ...] = ()
    """What its labels and annotations say of the rank table that its pods need."""

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its expected pods, made anew; fixed, so creating one twice is harmless."""
        return tuple([f"{start}{index}" for start, number in self.replicas for index in range(number)])

    @property
    def leader(self) -> str:
        """The name of its first pod; "" when it has none."""
        return next((f"{start}0" for start, number in self.replicas if number), "")


def said_by_metadata(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a Job that every kind of job says in its metadata."""
    name, uid = as_text(meta.get("name")), as_text(meta.get("uid"))
    return {
        "namespace": as_text(meta.get("namespace")),
        "name": name,
        "uid": uid,
        "created": seconds_of(as_text(meta.get("creationTimestamp"))),
        "generation": as_count(meta.get("generation")),
        "deleting": bool(meta.get("deletionTimestamp")),
        "pod_group": f"{name}-{uid}",
    }


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The three labels that say where an instance belongs; "" for one that is missing or empty."""

    rule: str = ""
    group: str = ""
    job_id: str = ""

    @property
    def problem(self) -> Reason | None:
        """What is wrong with them, on something that names a rule."""
        if not self.rule:
            return Reason.RULE_MISSING
        if not self.job_id:
            return Reason.JOB_ID_MISSING
        return None if self.group else Reason.GROUP_LABEL_MISSING


NO_LABELS = Labels()
_shared = sharing(1 << 12)


class OwnerFacts(msgspec.Struct, frozen=True, gc=False):
    """What an object that makes pods, or makes their makers, says of their instances."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    maker: str = ""
    """Identity as in Membership.maker; "" when it says nothing of revisions."""
    revision: str = ""
    """The revision it stands for."""
    rank: int = 0
    """Of several objects of one maker, the one with the highest rank stands for the newest revision."""
    size: int = 0
    """Pods of one instance; 0 when it does not say."""
    wanted: int = 0
    """Instances that it should have, where it is itself a maker; 0 when it does not say."""
    leader_first: bool = False
    """The other pods of an instance are made only when its leader is ready."""


def identity(kind: str, namespace: str, *names: str) -> str:
    """What kinds and owners call an object, or an instance that has no object, within the cluster."""
    return "/".join((kind, namespace, *names))


def number_in(text: str, largest: int = MAX_PODS) -> int:
    """The number of pods that a label or annotation says; 0 when it says nothing usable."""
    number = int(text) if len(text) <= len(str(largest)) and text.isdecimal() and text.isascii() else 0
    return number if number <= largest else 0


def labels_of(labels: Mapping[str, Any]) -> Labels:
    """Those of an object."""
    rule, group, job_id = (as_text(labels.get(name)) for name in (RULE_LABEL, GROUP_LABEL, JOB_ID_LABEL))
    return _shared(Labels(rule, group, job_id))


def as_admitted(found: Membership | Job, then: Labels, *, no_such_rule: bool = False) -> dict[str, Any]:
    """What an instance whose labels lack something counts as: what they lack is taken from those with which it was
    admitted. Empty where nothing is lacking, some value is not known at all, or both rule and group were taken off.

    `no_such_rule`: there never was a rule of the name that the label has.
    """
    key, group = found.key, found.group
    lacks = {RULE_LABEL: no_such_rule or not key.rule, JOB_ID_LABEL: not key.job_id, GROUP_LABEL: not group}
    right = Labels(then.rule if lacks[RULE_LABEL] else key.rule, group or then.group, key.job_id or then.job_id)
    if not (any(lacks.values()) and right.rule and right.job_id and right.group and (key.rule or group)):
        return {}
    values = {RULE_LABEL: right.rule, JOB_ID_LABEL: right.job_id, GROUP_LABEL: right.group}
    missing = [name for name, lacking in lacks.items() if lacking]
    wrong = f"label {' and '.join(missing)} is missing or empty"
    if key.rule and lacks[RULE_LABEL]:
        wrong = f"label {RULE_LABEL} is {shown(key.rule)}, and there was never such a rule"
    return {
        "key": ServiceKey(key.namespace, right.rule, right.job_id),
        "group": right.group,
        "label_problem": Reason.RULE_MISSING if lacks[RULE_LABEL] else found.label_problem,
        "mislabelled": f"{wrong}: write {', '.join(f'{name}={values[name]}' for name in missing)}",
    }


def job_uid(owner: Owner) -> str:
    """The uid of a controller that is a job of ours to know, else ""."""
    group = JOB_KINDS.get(owner.kind)
    return owner.uid if group is not None and owner.api_version.startswith(group) else ""
