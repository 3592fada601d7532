"""How an instance restarts and ends: the run policy of the job, what the pods show, and at most one
step that follows.

A step concerns one instance and needs no slot, so it is taken whatever the ratio says, also while
the rule is paused. An instance with a step gets no other action in the decision. Must not admit,
complete or revoke. Instances that others make are restarted and ended by their owners; their only
step is the removal of a pod that its kubelet refused. Names of pods are listed only when a pod is
wrong or the job has ended, so that a running instance is a few numbers."""

from __future__ import annotations

from collections.abc import Iterator

from scaler.decide.decision import Ending, Expire, Finish, LifeAction, Record, Remove, Resize
from scaler.decide.world import FIRST_PAUSE, LONGEST_PAUSE, CleanPods, FailedPod, Instance

RETRYABLE_FROM = 128
"""restartPolicy ExitCode: exit codes from this one on are signals, and the pod is made anew."""


def next_step(instance: Instance, now: float) -> LifeAction | None:
    """The next step of the instance; None nearly always."""
    if instance.owner_deleting or instance.label_problem:
        return None
    if not instance.made_by_us:
        removes = instance.refused and _affords_removal(instance)
        return _removal_of_refused(instance, now) if removes else None
    if instance.owner_finished:
        return _after_the_end(instance, now)
    if instance.faults:  # the objects of a job that cannot be read stay as they are
        return None
    return _step_of_living(instance, now)


def _step_of_living(instance: Instance, now: float) -> LifeAction | None:
    life = instance.life
    if life.surplus or life.outgrown:
        return Resize(instance.uid) if life.outgrown else Remove(instance.uid, life.surplus)
    ending = _ending(instance, now)
    if ending is not None:
        return Finish(instance.uid, *ending)
    ended = _replaced_without_pause(instance)
    if ended and now >= _replace_at(instance):
        return Remove(instance.uid, ended)
    if instance.refused:
        return _after_a_refusal(instance, now)
    # A round is counted when every pod is bound, not when pods are lost. So no loss is missed,
    # whichever replica was leader when the pods were lost.
    if instance.bound == instance.expected > 0 and life.version >= life.policy.rounds:
        return Record(instance.uid, life.version + 1)
    return None


def _replaced_without_pause(instance: Instance) -> tuple[str, ...]:
    """The failed pods that are replaced without the pause of a refusal."""
    ended = []
    for pod in instance.life.failed:
        if is_replaced(pod) and pod.name not in instance.refused:
            ended.append(pod.name)
    return tuple(ended)


def _after_a_refusal(instance: Instance, now: float) -> LifeAction | None:
    """A pod that its kubelet refused is made anew after a pause. The round in which that happened
    does not count as a restart."""
    counted = instance.life.policy.rounds - 1
    if instance.bound == instance.expected and instance.life.version == counted:
        return Record(instance.uid, counted)
    return _removal_of_refused(instance, now)


def _removal_of_refused(instance: Instance, now: float) -> Remove | None:
    if is_pausing(instance, now):
        return None
    return Remove(instance.uid, instance.refused)


def _affords_removal(instance: Instance) -> bool:
    """Whether the owner makes a removed pod again, and does not end its job for it."""
    budget = instance.budget
    return budget is None or budget.used < budget.limit


def is_pausing(instance: Instance, now: float) -> bool:
    """Whether the pause runs that follows when a kubelet refused a pod of the instance."""
    for refusal in instance.refusals:
        if now < refusal.over_at:
            return True
    return False


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


def _first_fatal(instance: Instance) -> FailedPod | None:
    """The first failed pod that is not replaced."""
    for pod in instance.life.failed:
        if not is_replaced(pod) and pod.name not in instance.refused:
            return pod
    return None


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
    fatal = _first_fatal(instance)
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
