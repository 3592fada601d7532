"""What a training job needs: 3d.1 of the contract. Section 3 and 3b see a training job as an
instance that needs its smallest size. So its minimum reserves room as any minimum does.

    nothing is bound   -> the smallest size
    bound, and whole   -> what it has
    bound, and broken  -> its smallest size, less the pods that are well: the others keep their room

For example a job of 8 servers may be started with 2:

    held               needs 2
    with the scheduler needs 2, and `enlarge.py` keeps the room of the other 6
    lost a node        7 pods are well, so it needs nothing more: all are deleted, and it competes

Pure: an instance in, an instance out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from scaler.decide.memory import InstanceMemory, SizeMemory
from scaler.decide.nodes import PodRequests
from scaler.decide.world import Instance, OnFault, Policy, Training

USUAL_COST = 60.0
"""Seconds that one restart takes from the training, where nobody says how many."""
COSTS_OF_INTERVAL = 10
"""A job is not restarted for growth before so many times that: growth takes at most an eleventh of
its time."""
LONGEST_INTERVAL = 86400.0


def training_of(instance: Instance) -> Training:
    """The sizes of a training job. Raises TypeError for an instance with one size."""
    if instance.training is msgspec.UNSET:
        raise TypeError(f"{instance.name} has one size")
    return instance.training


def as_needed(instance: Instance) -> Instance:
    """The instance as section 3 and 3b see it. What was rounded up (3b.10c) stays as it is: such a
    job is started at its recorded size alone."""
    if instance.training is msgspec.UNSET or _is_rounded(instance):
        return instance
    if instance.bound:
        return _bound(instance, instance.training)
    return _unbound(instance, instance.training, len(instance.training.sizes) - 1)


def of_size(instance: Instance, size: int) -> Instance:
    """A job of which nothing is bound, as if it had this size alone. Where its owner makes the pods
    of a held one, it has none unless these are the pods of this size."""
    training = training_of(instance)
    needed = _unbound(instance, training, size)
    is_held = instance.pods == instance.gated
    if is_held and not instance.made_by_us and size != training.recorded:
        return replace(needed, pods=0, gated=0)
    return needed


def _unbound(instance: Instance, training: Training, size: int) -> Instance:
    """A job of which nothing is bound, with the needs of a size. A held one has pods only while
    they are those of the recorded size."""
    chosen = training.sizes[size]
    needed = replace(instance, requests=chosen.needs, unbound=chosen.needs)
    if instance.pods > instance.gated:  # the scheduler has it, at its started size
        return needed
    needed = replace(needed, expected=chosen.pods)
    if instance.made_by_us or _is_made(instance, training):
        return needed
    return replace(needed, pods=0, gated=0)


def _is_rounded(instance: Instance) -> bool:
    return any(request.rounded for request, _ in instance.unbound)


def _is_made(instance: Instance, training: Training) -> bool:
    """Whether its owner has made exactly the pods of the recorded size, and no old pod has one of
    their names."""
    expected = training.sizes[training.recorded].pods
    return instance.gated == instance.pods == expected and not training.awaited


def _bound(instance: Instance, training: Training) -> Instance:
    """A broken job is started anew as a whole. Until all its pods have gone none is made again, and
    nothing more is reserved than its smallest size lacks. Where its owner alone heals it
    (`OnFault.OFF`), it is an instance as any."""
    if not is_hurt(instance):
        return instance
    well = instance.bound_pods if not instance.faulty else ()
    lacks = _less(training.smallest.needs, Counter([request for _, request in well]))
    return replace(instance, unbound=lacks, displaced=True)


def is_hurt(instance: Instance) -> bool:
    """3d.4: whether a pod of a job that is bound is gone, ends, has ended, or is on something
    faulty, or a restart of it is not over."""
    i = instance
    if not training_of(i).is_of_recorded_size:
        return i.bound > 0
    is_healed = training_of(i).on_fault is OnFault.OFF
    is_ill = bool(i.ended or i.terminating or i.faulty) or not i.may_go_on
    return i.bound > 0 and is_ill and not is_healed


def restart_due(instance: Instance, memory: InstanceMemory, policy: Policy) -> float | None:
    """3d.4: the time from which a broken job is restarted; None = it is not. What others delete is
    restarted at once, 0.0, and so is a restart that is not over."""
    i = instance
    if i.training is msgspec.UNSET or not i.bound:
        return None
    is_under_way = i.training.is_marked or not i.training.is_of_recorded_size
    if is_under_way:
        return 0.0
    is_left_alone = i.training.has_exited or i.training.on_fault is OnFault.OFF
    if is_left_alone or not (is_hurt(i) or memory.gives_way):
        return None
    if i.training.repair:
        return memory.broken_since + max(i.training.repair, policy.restart_after)
    if i.terminating or memory.gives_way:
        return 0.0
    return memory.broken_since + policy.restart_after


def may_grow(instance: Instance) -> bool:
    """3d.5, G5: whether a job may be restarted at a larger size while it is healthy, if it fits."""
    training = instance.training
    return training is not msgspec.UNSET and training.grows and training.started > 0


def may_change_size(instance: Instance, replicas: int) -> bool:
    """Whether a job that runs may be restarted by us: to grow, or because fewer are wanted."""
    training = instance.training
    if training is msgspec.UNSET or training.started < 0:
        return False
    return may_grow(instance) or training.sizes[training.started].amount > replicas


def interval_of(sizes: SizeMemory, training: Training, policy: Policy) -> float:
    """3d.5, G2: seconds between the start of a job and its growth."""
    cost = training.restart_cost or USUAL_COST
    interval = max(policy.grow_interval, COSTS_OF_INTERVAL * cost)
    return max(interval, min(interval * 2.0**sizes.doublings, LONGEST_INTERVAL))


def grows_from(instance: Instance, memory: InstanceMemory, policy: Policy) -> float:
    """3d.5, G1, G2, G4: from when on a job may be restarted at a larger size; 0.0 = it does not
    run, or no larger size fits."""
    sizes = memory.sizes
    if sizes is msgspec.UNSET or not (sizes.runs_since and sizes.fits_since):
        return 0.0
    interval = interval_of(sizes, training_of(instance), policy)
    return max(
        sizes.runs_since + policy.stable_after,
        instance.newest + interval,
        sizes.fits_since + policy.grow_patience,
    )


def moments_of_sizes(instance: Instance, memory: InstanceMemory, policy: Policy) -> Iterator[float]:
    """3d.4: the times at which time alone may change what is decided about a job."""
    if instance.training is msgspec.UNSET:
        return
    due = restart_due(instance, memory, policy)
    if due:
        yield due
    sizes = memory.sizes
    if sizes is msgspec.UNSET:
        return
    if sizes.lost_at:
        yield sizes.lost_at + policy.spare_patience
    if sizes.grown_at:
        yield sizes.grown_at + interval_of(sizes, instance.training, policy)
    yield grows_from(instance, memory, policy)


def _less(needs: PodRequests, there: Counter[object]) -> PodRequests:
    """These pods without those that are there already."""
    left = []
    for request, number in needs:
        lacking = number - there[request]
        if lacking > 0:
            left.append((request, lacking))
    return tuple(left)
