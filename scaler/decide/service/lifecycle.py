"""How an instance restarts and ends: the run policy of the job, what the pods show, and at most one
step that follows.

A step concerns one instance and needs no slot, so it is taken whatever the ratio says, also while
the rule is paused. An instance with a step gets no other action in the decision. Must not admit,
complete or revoke. Instances that others make have no steps: their owners restart and end them.
Names of pods are listed only when a pod is wrong or the job has ended, so that a running instance
is a few numbers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from scaler.decide.world import Instance


class CleanPods(StrEnum):
    """Which pods of a finished job are deleted; the values are those of
    `spec.runPolicy.cleanPodPolicy`."""

    ALL = "All"
    RUNNING = "Running"
    """Pods that have not ended; ended pods stay for their logs."""
    NONE = "None"
    """Only pods that are not bound to a node: these could take room from others later."""


class Ending(StrEnum):
    """Why the scaler ended a job: the reason of its last condition."""

    JOB_SUCCEEDED = "JobSucceeded"
    POD_FAILED = "PodFailed"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"

    @property
    def outcome(self) -> str:
        """How the job ends: the type of its last condition."""
        return "Succeeded" if self is Ending.JOB_SUCCEEDED else "Failed"


class RunPolicy(msgspec.Struct, frozen=True, gc=False):
    """The run policy of a job. Times are seconds since the epoch, durations seconds."""

    backoff_limit: int = 0
    """Restarts that the job is allowed; 0 = any number."""
    retries: bool = False
    """Volcano retries failed pods (label `fault-retry-times`), as often as `Life.remaining`
    says."""
    clean: CleanPods = CleanPods.RUNNING
    ttl: int | None = None
    """Life of the job after it has finished; None = for ever."""
    deadline: int | None = None
    """Life of the job after its first start; None = for ever."""
    all_workers: bool = False
    """The job has succeeded when all its workers have, whatever the leader does."""
    started_at: float = 0.0
    finished_at: float = 0.0
    rounds: int = 0
    """How often all its pods were bound so far: the number of the round of its next pods."""


class FailedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod in phase Failed."""

    name: str
    exit_code: int
    """Exit code of its container `ascend`; -1 when there is none."""
    exit_code_decides: bool = False
    """Its replica type has restartPolicy ExitCode."""
    disrupted: bool = False
    """The cluster ended the pod: evicted, node shut down, refused by the kubelet."""


class Life(msgspec.Struct, frozen=True, gc=False):
    """What the pods of an instance show about restarts and ending, beside their counts."""

    policy: RunPolicy = RunPolicy()
    version: int = -1
    """The newest round of its pods; -1 without pods."""
    remaining: int | None = None
    """Retries that Volcano has left for the instance; None = not known."""
    failed: tuple[FailedPod, ...] = ()
    succeeded: int = 0
    workers: int = 0
    """Workers of the instance, and how many of them succeeded."""
    workers_succeeded: int = 0
    surplus: tuple[str, ...] = ()
    """Pods beyond the replicas of the job, the highest index first."""
    outgrown: bool = False
    """The PodGroup asks for another number of pods than the job does now."""
    unbound: tuple[str, ...] = ()
    """Names of pods, of a finished job only: not bound to a node; bound and still running;
    ended."""
    running_on: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


class InstanceAction(msgspec.Struct, frozen=True, gc=False, tag=True, tag_field="action"):
    uid: str


class Record(InstanceAction, frozen=True):
    """Note on the job that all its pods were bound. `rounds`: the version of its next pods."""

    rounds: int


class Remove(InstanceAction, frozen=True):
    """Delete these pods, one after the other in this order, and if `pod_group` the PodGroup too."""

    pods: tuple[str, ...]
    pod_group: bool = False


class Resize(InstanceAction, frozen=True):
    """Set the number of pods in the PodGroup to that of the job."""


class Finish(InstanceAction, frozen=True):
    """Write into the job's status that the job has succeeded or failed, for good."""

    reason: Ending
    message: str


class Expire(InstanceAction, frozen=True):
    """Delete a job whose time after its end is over; the garbage collector deletes what the job
    owns."""


LifeAction = Record | Remove | Resize | Finish | Expire


RETRYABLE_FROM = 128
"""restartPolicy ExitCode: exit codes from this one on are signals, and the pod is made anew."""

FIRST_PAUSE = 10.0
LONGEST_PAUSE = 300.0
"""Seconds from one start to the next, as the kubelet has for containers. The first replacement has
no pause."""


def next_step(instance: Instance, now: float) -> LifeAction | None:
    """The next step of the instance; None nearly always."""
    if instance.owner_deleting or instance.label_problem or not instance.made_by_us:
        return None
    if instance.owner_finished:
        return _after_the_end(instance, now)
    if instance.faults:  # the objects of a job that cannot be read stay as they are
        return None
    life = instance.life
    if life.surplus or life.outgrown:
        return Resize(instance.uid) if life.outgrown else Remove(instance.uid, life.surplus)
    ending = _ending(instance, now)
    if ending is not None:
        return Finish(instance.uid, *ending)
    ended = tuple(pod.name for pod in life.failed if is_replaced(pod))
    if ended and now >= _replace_at(instance):
        return Remove(instance.uid, ended)
    # A round is counted when every pod is bound, not when pods are lost. So no loss is missed,
    # whichever replica was leader when the pods were lost.
    if instance.bound == instance.expected > 0 and life.version >= life.policy.rounds:
        return Record(instance.uid, life.version + 1)
    return None


def recheck_at(instance: Instance) -> Iterator[float]:
    """The times at which a step may follow by time alone."""
    life = instance.life
    policy = instance.life.policy
    if instance.owner_finished:
        if policy.ttl is not None:
            yield policy.finished_at + policy.ttl
        return
    if policy.deadline is not None and policy.started_at:
        yield policy.started_at + policy.deadline
    if life.failed:
        yield _replace_at(instance)


def is_replaced(pod: FailedPod) -> bool:
    """Whether the scaler replaces a failed pod: the cluster ended the pod, or its exit code is a
    signal."""
    return pod.disrupted or (pod.exit_code_decides and not 0 <= pod.exit_code < RETRYABLE_FROM)


def _replace_at(instance: Instance) -> float:
    """When failed pods are replaced: at once after a long life, after growing pauses when they
    ended soon after their start. So pods that always fail do not keep scheduler and API server
    busy."""
    version = instance.life.version
    return instance.admitted_at + (
        min(FIRST_PAUSE * 2.0 ** min(version - 1, 16), LONGEST_PAUSE) if version > 0 else 0
    )


def _ending(instance: Instance, now: float) -> tuple[Ending, str] | None:
    life = instance.life
    policy = instance.life.policy
    has_succeeded = life.succeeded == instance.expected > 0
    if policy.all_workers and life.workers:
        has_succeeded = life.workers_succeeded == life.workers
    if has_succeeded:
        return Ending.JOB_SUCCEEDED, f"Job {instance.name} successfully completed."
    if (
        policy.deadline is not None
        and policy.started_at
        and now >= policy.started_at + policy.deadline
    ):
        return Ending.DEADLINE_EXCEEDED, f"It was started more than {policy.deadline} s ago."
    fatal = next((pod for pod in life.failed if not is_replaced(pod)), None)
    if fatal is not None and not (
        policy.retries and (life.remaining is None or life.remaining > 0)
    ):
        left = (
            " and Volcano has no retries left"
            if policy.retries
            else ", and the job allows no retries"
        )
        how = f"exited with code {fatal.exit_code}" if fatal.exit_code >= 0 else "failed"
        return Ending.POD_FAILED, f"Pod {fatal.name} {how}{left}."
    if 0 < policy.backoff_limit < policy.rounds and instance.pods < instance.expected:
        return Ending.BACKOFF_LIMIT_EXCEEDED, f"It has used up its {policy.backoff_limit} restarts."
    return None


def _after_the_end(instance: Instance, now: float) -> LifeAction | None:
    life = instance.life
    policy = instance.life.policy
    pods = life.unbound
    if policy.clean is not CleanPods.NONE:
        pods += life.running_on
    if policy.clean is CleanPods.ALL:
        pods += life.over
    needed = policy.clean is CleanPods.NONE and bool(life.running_on)
    if pods or (instance.leftovers and not needed):
        return Remove(instance.uid, pods, pod_group=not needed)
    if policy.ttl is not None and now >= policy.finished_at + policy.ttl:
        return Expire(instance.uid)
    return None
