"""Which sizes of a training job have had their attempt: 3d.3 of the contract. Asks only: must not
write.

Each size that is released, or chosen and not made by its owner, has `minimum_timeout` to be bound,
whoever waits. Then the next smaller one that fits is tried. The smallest size has the attempt of
the minimum (3b.5), and after it follows the backoff. So no job waits for ever for a size that the
scheduler does not bind though it fits in thought."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scaler.decide.draft import Draft
from scaler.decide.events import NoSizeChosen, OfSize, SizeChosen, SizeTried
from scaler.decide.nodes import Room
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.decide.training.enlarge import Start
from scaler.decide.training.remember import sizes_of
from scaler.decide.world import Size, Training


def size_that_had_its_attempt(
    part: Part, draft: Draft, minimum: ReservedMinimum
) -> SizeTried | None:
    """The size that a job was to start at and that was not bound in time, if it has a smaller
    one."""
    if minimum.room is not Room.FREE or not part.is_late(draft.memory):
        return None
    for member in minimum.members:
        training = member.instance.training
        if training is not msgspec.UNSET and not member.instance.bound:
            chosen = sizes_of(draft.memory_of(member.uid)).chosen
            size = _under_way(training, chosen)
            if size is not None and size != training.smallest:
                return SizeTried(member.uid, size.name, part.now)
    return None


def _under_way(training: Training, chosen: str) -> Size | None:
    """The size of the start under way: that of its released pods, or the one that was chosen."""
    if training.started >= 0:
        return training.sizes[training.started]
    for size in training.sizes:
        if size.name == chosen:
            return size
    return None


def events_of_sizes(draft: Draft, starts: Iterable[Start]) -> Iterator[OfSize]:
    """3d.2, after the last step: at which size each job of the service is to start."""
    if not draft.demand.training:
        return
    chosen = {}
    for start in starts:
        if start.draft is draft and start.minimum.room is Room.FREE:
            chosen[start.member.uid] = start.training.sizes[start.size].name
    for member in draft.demand.training:
        before = sizes_of(draft.memory_of(member.uid)).chosen
        name = chosen.get(member.uid, "")
        if name and name != before:
            yield SizeChosen(member.uid, name)
        elif before and not name:
            yield NoSizeChosen(member.uid)
