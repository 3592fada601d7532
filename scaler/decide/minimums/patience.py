"""How long the arbiter waits for what, and what it remembers of it: the fit can be wrong in both directions.

A minimum that fits and is not bound in time gives its place to others; one that does not fit is tried all the same after
a while. Values in, values out; must not decide who goes first.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scaler.decide.nodes import Capacity, NodeClass
from scaler.decide.world import MinimumMemory, Policy

LONGEST_PAUSE = 300.0
"""Seconds; pauses double up to it."""
LONGEST_PATIENCE = 3600.0
MUTED_AFTER = 2
"""So many failures, and a minimum blocks nobody any more."""


class Outlook(msgspec.Struct, frozen=True):
    """What a minimum could hope for on the nodes that it may use."""

    mark: int
    """Changes when anything about these nodes or what is free on them does."""
    room: tuple[int, ...]
    """How much is free on them in all."""


def outlook(capacity: Capacity, kinds: frozenset[NodeClass]) -> Outlook:
    """Of these kinds of nodes."""
    mark, room = 0, [0] * len(capacity.resources)
    for each in capacity.rooms:
        if each.schedulable and each.kind in kinds:
            amounts = (*each.allocatable, *each.free)
            mark += each.count * (1 + sum(amount * 31**at for at, amount in enumerate(amounts))) ** 2
            room = [so_far + max(0, free) * each.count for so_far, free in zip(room, each.free, strict=True)]
    return Outlook(mark % (1 << 61), tuple(room))


def is_muted(memory: MinimumMemory) -> bool:
    return memory.failures >= MUTED_AFTER


def renewed(memory: MinimumMemory, now: Outlook) -> MinimumMemory:
    """A change on its nodes starts the count anew: the scheduler may just have been busy with others there. More room
    than there was ends the pause as well, since the next try may go well."""
    if not memory.failed_at or now.mark == memory.mark:
        return memory
    grown = any(is_ > was for is_, was in zip(now.room, memory.room, strict=False))
    return msgspec.structs.replace(memory, failures=0, retry_at=0.0 if grown else memory.retry_at)


def is_overdue(memory: MinimumMemory, now: float, policy: Policy) -> bool:
    """It was all admitted long enough ago, and the scheduler bound none of it."""
    return memory.admitted_since > 0 and now - memory.admitted_since >= policy.minimum_timeout


def failed(memory: MinimumMemory, now: float, policy: Policy, seen: Outlook) -> MinimumMemory:
    """It goes to the end of the order, and is tried again after a pause that doubles each time."""
    failures = memory.failures + 1
    pause = min(policy.minimum_timeout * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE)
    return msgspec.structs.replace(
        memory, failures=failures, failed_at=now, retry_at=now + pause, mark=seen.mark, room=seen.room,
        admitted_since=0.0, evicted="", begun=False,
    )  # fmt: skip


def admitted(memory: MinimumMemory, now: float) -> MinimumMemory:
    """Some of it is in the scheduler's hands, and nothing bound."""
    return msgspec.structs.replace(
        memory, admitted_since=memory.admitted_since or now, held_since=0.0, probe_since=0.0, probes=0, begun=True
    )


def reserved(memory: MinimumMemory) -> MinimumMemory:
    """It fits; either it has to wait for others, or the scheduler has begun to bind it."""
    return msgspec.structs.replace(memory, admitted_since=0.0, held_since=0.0, probe_since=0.0, probes=0)


def held(memory: MinimumMemory, now: float) -> MinimumMemory:
    """It does not fit."""
    if memory.held_since and not (memory.admitted_since or memory.probe_since or memory.begun):
        return memory
    since = memory.held_since or now
    return msgspec.structs.replace(memory, admitted_since=0.0, held_since=since, probe_since=0.0, begun=False)


def idle(memory: MinimumMemory) -> MinimumMemory:
    """It waits for nothing that a clock could bring."""
    if not (memory.admitted_since or memory.held_since or memory.probe_since or memory.begun):
        return memory
    return msgspec.structs.replace(memory, admitted_since=0.0, held_since=0.0, probe_since=0.0, begun=False)


def served(memory: MinimumMemory) -> MinimumMemory:
    """It serves: all is forgotten but a trade for more."""
    return MinimumMemory(short_since=memory.short_since, evicted=memory.evicted if memory.short_since else "")


def is_patient(memory: MinimumMemory, now: float, policy: Policy) -> bool:
    """Too early to try what does not fit."""
    return not memory.held_since or now - memory.held_since < _patience(memory, policy)


def is_probing(memory: MinimumMemory, now: float, policy: Policy) -> bool:
    """It is being tried although it does not fit."""
    return memory.probe_since > 0 and now - memory.probe_since < policy.minimum_timeout


def probed(memory: MinimumMemory, now: float) -> MinimumMemory:
    """The probe begins."""
    return msgspec.structs.replace(memory, probe_since=now)


def probed_in_vain(memory: MinimumMemory, now: float) -> MinimumMemory:
    return msgspec.structs.replace(memory, probe_since=0.0, probes=memory.probes + 1, held_since=now, begun=False)


def moments(memory: MinimumMemory, policy: Policy) -> Iterator[float]:
    """When time alone may change what is decided about this minimum."""
    if memory.admitted_since:
        yield memory.admitted_since + policy.minimum_timeout
    if memory.retry_at:
        yield memory.retry_at
    if memory.probe_since:
        yield memory.probe_since + policy.minimum_timeout
    elif memory.held_since:
        yield memory.held_since + _patience(memory, policy)
    if memory.short_since:
        yield memory.short_since + policy.trade_after


def _patience(memory: MinimumMemory, policy: Policy) -> float:
    return min(policy.fit_patience * 2.0 ** min(memory.probes, 16), LONGEST_PATIENCE)
