"""What is remembered of the sizes of a training job: 3d of the contract. Nothing else writes a
`SizeMemory`. The steps of a decision hand on events, and `attempts.py` asks here what they change.

For example a job may have 8, 4 or 2 servers:

    at   0 s   8 fit, and are released     SizeChosen("8")
    at  30 s   the scheduler bound none    SizeTried("8")     tried = 8
    at  31 s   4 are released              SizeChosen("4")
    at  40 s   it runs                                        tried = nothing"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from scaler.decide.events import (
    Grew,
    GrowthLasted,
    GrowthUndone,
    JobRuns,
    NoRoomToGrow,
    NoSizeChosen,
    OfSize,
    PodsLost,
    Restarted,
    RoomToGrow,
    SizeChosen,
    SizeTried,
)
from scaler.decide.memory import InstanceMemory, SizeMemory

MOST_DOUBLINGS = 16
"""From then on the interval is a day in any case."""


def sizes_of(memory: InstanceMemory) -> SizeMemory:
    """What is remembered of the sizes of an instance."""
    return SizeMemory() if memory.sizes is msgspec.UNSET else memory.sizes


def after_event(memory: SizeMemory, event: OfSize) -> SizeMemory:
    """The memory of the sizes of a job after this event."""
    match event:
        case SizeChosen(name=name):  # 3d.2
            return replace(memory, chosen=name)
        case NoSizeChosen():  # 3d.2
            return replace(memory, chosen="")
        case SizeTried(name=name, at=at):  # 3d.3
            tried = tuple(dict.fromkeys([*memory.tried, name]))
            return replace(memory, chosen="", tried=tried, tried_at=at)
        case PodsLost(at=at):  # 3d.4
            return replace(memory, lost_at=memory.lost_at or at, runs_since=0.0, fits_since=0.0)
        case Restarted(cause=cause, words=words):  # 3d.4 to 3d.6
            memory = replace(memory, runs_since=0.0, fits_since=0.0)
            return replace(memory, chosen="", cause=cause, about=words)
        case _:
            return _growth(memory, event)


def _growth(memory: SizeMemory, event: OfSize) -> SizeMemory:
    """3d.5."""
    match event:
        case JobRuns(at=at):  # G1
            return replace(memory, runs_since=at)
        case RoomToGrow(at=at):  # G4
            return replace(memory, fits_since=at)
        case NoRoomToGrow():  # G4
            return replace(memory, fits_since=0.0)
        case Grew(at=at, before=before):
            return replace(memory, grown_at=at, grown_from=before)
        case GrowthUndone():
            doublings = min(memory.doublings + 1, MOST_DOUBLINGS)
            return replace(memory, grown_at=0.0, grown_from=0, doublings=doublings)
        case GrowthLasted():
            return replace(memory, grown_at=0.0, grown_from=0, doublings=0)
    raise AssertionError(f"no such event: {event}")


def with_sizes(memory: InstanceMemory, sizes: SizeMemory) -> InstanceMemory:
    """The memory of an instance with this memory of its sizes; nothing is kept of nothing."""
    kept = msgspec.UNSET if sizes == SizeMemory() else sizes
    return replace(memory, sizes=kept)


def tried_again(memory: InstanceMemory) -> InstanceMemory:
    """3d.3: the memory of a job whose sizes may all be tried again, so that one is chosen anew:
    people changed it, or nodes that it may use appeared."""
    sizes = sizes_of(memory)
    if not sizes.tried:
        return memory
    return with_sizes(memory, replace(sizes, chosen="", tried=(), tried_at=0.0))


def of_one_that_runs(memory: InstanceMemory) -> SizeMemory | msgspec.UnsetType:
    """What a job that runs still remembers: what its growth depends on."""
    if memory.sizes is msgspec.UNSET:
        return msgspec.UNSET
    sizes = memory.sizes
    kept = SizeMemory(
        runs_since=sizes.runs_since,
        fits_since=sizes.fits_since,
        grown_at=sizes.grown_at,
        grown_from=sizes.grown_from,
        doublings=sizes.doublings,
    )
    return msgspec.UNSET if kept == SizeMemory() else kept
