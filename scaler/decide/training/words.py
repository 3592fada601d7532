"""The reasons of training jobs, with their words: section 5 and 3d of the contract."""

from __future__ import annotations

import msgspec

from scaler.decide.decision import Cause, State
from scaler.decide.draft import Why
from scaler.decide.memory import InstanceMemory
from scaler.decide.service.states import Member
from scaler.decide.training.remember import sizes_of
from scaler.decide.world import shown
from scaler.reasons.reasons import Reason

_OF_CAUSE = {
    Cause.FAULT: Reason.RESTARTED_FOR_FAULT,
    Cause.GROWTH: Reason.GROWING,
    Cause.LIMIT: Reason.GROWING,
    Cause.PREEMPTION: Reason.PREEMPTED,
}


def is_restarting(member: Member) -> bool:
    """Whether all its pods end because a restart was ordered."""
    cause = sizes_of(member.memory).cause
    return member.state is State.TERMINATING and cause in _OF_CAUSE


def why_restarted(memory: InstanceMemory) -> Why:
    """The reason of a job whose pods end, and what was wrong."""
    sizes = sizes_of(memory)
    cause = Cause(sizes.cause)
    about = [sizes.about] if sizes.about else []
    if cause is Cause.PREEMPTION:
        about.insert(0, shown(memory.preempted_for))
    return Why(_OF_CAUSE[cause], tuple(about))


def why_it_runs(member: Member) -> Why:
    """The reason of an instance that runs as it should: whether that is at its full size."""
    training = member.instance.training
    if training is msgspec.UNSET or training.started <= 0:
        return Why(Reason.RUNNING, ())
    now = training.sizes[training.started].amount
    return Why(Reason.RUNNING_SMALLER, (f"{now} of {training.sizes[0].amount}",))
