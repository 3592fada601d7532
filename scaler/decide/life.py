"""How an instance restarts and ends, as values: what its job asks for, what its pods show, what is done about it.

`decide.lifecycle` decides on them. Names of pods are listed only where something is wrong with them or the job has
ended, so that an instance that runs stays a handful of numbers.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class CleanPods(StrEnum):
    """Which pods of a finished job are deleted; the values are those of `spec.runPolicy.cleanPodPolicy`."""

    ALL = "All"
    RUNNING = "Running"
    """Those that have not ended; what has ended stays, for its logs."""
    NONE = "None"
    """Those that are not bound to a node, which could only take room from others."""


class Outcome(StrEnum):
    """How a job ends; the values are the types of its last condition."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Ending(StrEnum):
    """Why the scaler ended a job: the reason of its last condition."""

    JOB_SUCCEEDED = "JobSucceeded"
    POD_FAILED = "PodFailed"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"


class RunPolicy(msgspec.Struct, frozen=True, gc=False):
    """What a job asks for. Times are seconds since the epoch, durations seconds."""

    backoff_limit: int = 0
    """Restarts that the job is allowed; 0 = any number."""
    retries: bool = False
    """Pods that fail are Volcano's to retry (label `fault-retry-times`), as often as it says there is left."""
    clean: CleanPods = CleanPods.RUNNING
    ttl: int | None = None
    """Life of the job after it has finished; None = for ever."""
    deadline: int | None = None
    """Life of the job after its first start; None = for ever."""
    all_workers: bool = False
    """It has succeeded when all its workers have, whatever the leader does."""
    started_at: float = 0.0
    finished_at: float = 0.0
    rounds: int = 0
    """How often it has been whole so far: the round that its next pods belong to."""


class FailedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod in phase Failed."""

    name: str
    exit_code: int
    """Of its container `ascend`; -1 when it left none."""
    exit_code_decides: bool = False
    """Its replica type has restartPolicy ExitCode."""
    disrupted: bool = False
    """Ended by the cluster and not by itself: evicted, node shut down, refused by the kubelet."""


class Life(msgspec.Struct, frozen=True, gc=False):
    """What the pods of an instance show of its way through life, beside their counts."""

    policy: RunPolicy = RunPolicy()
    version: int = -1
    """The newest round that one of its pods belongs to; -1 without pods."""
    remaining: int | None = None
    """Retries that Volcano has left for it; None when Volcano has not said."""
    failed: tuple[FailedPod, ...] = ()
    succeeded: int = 0
    workers: int = 0
    """Workers that the instance consists of, and how many of them succeeded."""
    workers_succeeded: int = 0
    surplus: tuple[str, ...] = ()
    """Pods that it has beyond the replicas of its job, the highest index first."""
    outgrown: bool = False
    """Its PodGroup asks for another number of pods than its job does by now."""
    unbound: tuple[str, ...] = ()
    """Names, of a finished job only: pods not bound to a node, pods bound that run on, pods that have ended."""
    running_on: tuple[str, ...] = ()
    over: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, gc=False, tag="Record", tag_field="action"):
    """Note on the job that it has been whole: `rounds` is what its next pods carry as their version."""

    uid: str
    rounds: int


class Remove(msgspec.Struct, frozen=True, gc=False, tag="Remove", tag_field="action"):
    """Delete these pods, one after the other in this order, and the PodGroup too if nothing needs it any more."""

    uid: str
    pods: tuple[str, ...]
    pod_group: bool = False


class Resize(msgspec.Struct, frozen=True, gc=False, tag="Resize", tag_field="action"):
    """Let the PodGroup ask for as many pods as the job does."""

    uid: str


class Finish(msgspec.Struct, frozen=True, gc=False, tag="Finish", tag_field="action"):
    """Write into the job's status that it has succeeded or failed, for good."""

    uid: str
    outcome: Outcome
    reason: Ending
    message: str


class Expire(msgspec.Struct, frozen=True, gc=False, tag="Expire", tag_field="action"):
    """Delete a job that has finished long enough ago; the garbage collector takes what it owns."""

    uid: str


LifeAction = Record | Remove | Resize | Finish | Expire
