"""What is done about the sizes of training jobs, as actions: 3d.2 of the contract. Asks only."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.decide.decision import Cause, Restart, State
from scaler.decide.draft import Draft

ONE_SIZE = -1


def starting_size(draft: Draft, uid: str) -> int:
    """The size at which an admitted instance is started; `ONE_SIZE` where it has one."""
    for member in draft.demand.training:
        training = member.instance.training
        if member.uid == uid and training is not msgspec.UNSET:
            return draft.sizes.get(uid, training.recorded)
    return ONE_SIZE


def changes_of_size(draft: Draft) -> Iterator[Restart]:
    """3d.2: the size of a job that starts is recorded at once, where its owner makes its pods:
    before these exist. Where we make them, that is a part of the admission."""
    for member in draft.demand.training:
        training = member.instance.training
        if training is msgspec.UNSET or member.instance.made_by_us:
            continue
        size = draft.sizes.get(member.uid, training.recorded)
        starts = member.state in (State.HELD, State.TERMINATING)
        if starts and size != training.recorded and member.uid not in draft.revoked:
            yield Restart(member.uid, size, Cause.START)
