"""Rounds, failures and endings of one instance: values in, at most one step out. Pure.

A step is about this instance alone and needs no slot, so it is taken whatever the ratio says, also while the rule is
paused. Must not admit, complete or revoke: an instance with a step is left alone by the rest of the decision.
Instances that others make have no steps: whoever makes them minds their life.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.life import CleanPods, Ending, Expire, FailedPod, Finish, LifeAction, Outcome, Record, Remove, Resize
from scaler.decide.world import Instance

RETRYABLE_FROM = 128
"""restartPolicy ExitCode: codes from here on are signals, and the pod is made anew."""

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds from one start to the next, as the kubelet's own for containers: the first replacement comes at once."""


def next_step(instance: Instance, now: float) -> LifeAction | None:
    """What the life of the instance asks for now; None nearly always."""
    if _is_uneventful(instance) or instance.owner_deleting or instance.label_problem or not instance.made_by_us:
        return None
    if instance.owner_finished:
        return _after_the_end(instance, now)
    if instance.faults:  # nothing of a job that cannot be read is touched
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
    return _record(instance)


def _is_uneventful(instance: Instance) -> bool:
    """The short cut for nearly all instances at nearly all times: nothing below would have anything to say."""
    life = instance.life
    policy = life.policy
    return (
        life.version < policy.rounds
        and policy.deadline is None
        and not (life.failed or life.succeeded or life.workers_succeeded)
        and not (life.surplus or life.outgrown or instance.owner_finished)
        and (instance.pods == instance.expected or not policy.backoff_limit)
    )


def recheck_at(instance: Instance) -> Iterator[float]:
    """The moments at which time alone asks for a step."""
    life, policy = instance.life, instance.life.policy
    if instance.owner_finished:
        if policy.ttl is not None:
            yield policy.finished_at + policy.ttl
        return
    if policy.deadline is not None and policy.started_at:
        yield policy.started_at + policy.deadline
    if life.failed:
        yield _replace_at(instance)


def is_replaced(pod: FailedPod) -> bool:
    """Whether a pod that ended with an error is made anew by us: the cluster ended it, or its exit code says so."""
    return pod.disrupted or (pod.exit_code_decides and not 0 <= pod.exit_code < RETRYABLE_FROM)


def _replace_at(instance: Instance) -> float:
    """Pods that lived long are replaced at once; those that ended soon after their start with growing pauses, so that
    a pod which cannot live does not keep scheduler and API server busy."""
    version = instance.life.version
    return instance.admitted_at + (min(FIRST_PAUSE * 2.0 ** min(version - 1, 16), LONGEST_PAUSE) if version > 0 else 0)


def _record(instance: Instance) -> Record | None:
    """Whole = every pod bound. Counted when it is reached, not when it is lost, so that no loss is ever missed: what
    comes after it is the next round, whoever was leader when the pods went."""
    life = instance.life
    if instance.bound == instance.expected > 0 and life.version >= life.policy.rounds:
        return Record(instance.uid, life.version + 1)
    return None


def _ending(instance: Instance, now: float) -> tuple[Outcome, Ending, str] | None:
    life, name = instance.life, instance.name
    policy = life.policy
    if _has_succeeded(instance):
        return Outcome.SUCCEEDED, Ending.JOB_SUCCEEDED, f"Job {name} successfully completed."
    if policy.deadline is not None and policy.started_at and now >= policy.started_at + policy.deadline:
        return Outcome.FAILED, Ending.DEADLINE_EXCEEDED, f"It was started more than {policy.deadline} s ago."
    fatal = next((pod for pod in life.failed if not is_replaced(pod)), None)
    if fatal is not None and not (policy.retries and (life.remaining is None or life.remaining > 0)):
        left = " and Volcano has no retries left" if policy.retries else ", and the job allows no retries"
        return Outcome.FAILED, Ending.POD_FAILED, f"Pod {fatal.name} {_exit_words(fatal)}{left}."
    if 0 < policy.backoff_limit < policy.rounds and instance.pods < instance.expected:
        return Outcome.FAILED, Ending.BACKOFF_LIMIT_EXCEEDED, f"It has used up its {policy.backoff_limit} restarts."
    return None


def _has_succeeded(instance: Instance) -> bool:
    life = instance.life
    if life.policy.all_workers and life.workers:
        return life.workers_succeeded == life.workers
    return life.succeeded == instance.expected > 0


def _exit_words(pod: FailedPod) -> str:
    return f"exited with code {pod.exit_code}" if pod.exit_code >= 0 else "failed"


def _after_the_end(instance: Instance, now: float) -> LifeAction | None:
    """Clean up as the job asks, then delete the job when its time has come."""
    life, policy = instance.life, instance.life.policy
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
