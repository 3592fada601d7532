"""How long a reservation waits for expected room: 3b.5a of the contract. Asks only: must not write.

A reservation that waits keeps free nodes from others as well. Pods may end one after another, and
one pod may have a grace period of a year. So the reservation has a clock, from when it began to
wait, whatever it waits for later. For example `due_back` is 5 min:

    at  0 min   two nodes are free, a pod ends on a third      expects_until = 5 min
    at  4 min   it has ended, another takes the node and ends  expects_until = 5 min
    at  5 min   nothing is reserved for one backoff: others may use the two nodes

A service that served may lose a second instance while it waits for the room of the first. That one
has its full time as well:

    at  0 min   a node is away, and p0 with it                 expects_until = 5 min
    at  3 min   a node is away, and p1 with it                 expects_until = 8 min"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from scaler.decide.draft import Draft, Why
from scaler.decide.events import ExpectedInVain, ExpectsRoom
from scaler.decide.memory import ServiceMemory
from scaler.decide.sharing import preemption
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.reasons.reasons import Reason


def is_over(part: Part, draft: Draft) -> bool:
    """Whether the minimum has waited for expected room as long as it may."""
    return 0 < draft.memory.expects_until <= part.now


def begins(part: Part, draft: Draft, reserved: ReservedMinimum) -> ExpectsRoom:
    """5a: `due_back` from when it began to wait. Where it waits for victims or for its own pods,
    until `due_back` after their grace period, and where its service lost another instance
    meanwhile, until `due_back` after that; at most `start_timeout`."""
    policy = part.policy
    since = draft.memory.expects_since or part.now
    missing = len(reserved.members)
    lost_at = _last_loss_at(part, draft, missing)
    until = since + policy.due_back
    for begins_at in (lost_at, *_own_ends(part, draft, reserved)):
        until = max(until, min(begins_at + policy.due_back, since + policy.start_timeout))
    return ExpectsRoom(part.now, until, missing, lost_at)


def _last_loss_at(part: Part, draft: Draft, missing: int) -> float:
    """5a: when the service, which served, lost another instance while it waited: more of them are
    missing than ever since it began. So what comes and goes counts once."""
    memory = draft.memory
    if memory.served and 0 < memory.expects_missing < missing:
        return part.now
    return memory.expects_lost_at


def _own_ends(part: Part, draft: Draft, reserved: ReservedMinimum) -> Iterator[float]:
    """When the terminating pods of victims and of the chosen instances should be gone."""
    for victim in preemption.victims_of(part, draft):
        yield victim.member.instance.ends_by
    for member in reserved.members:
        yield member.instance.ends_by


def ends(part: Part, draft: Draft, reserved: ReservedMinimum) -> ExpectedInVain:
    """5a: it has waited long enough. Its instances have had their attempt only where it waited for
    victims."""
    waited_for_victims = draft.memory.has_evicted or bool(draft.memory.victims)
    tried = reserved.members if waited_for_victims else ()
    uids = tuple([member.uid for member in tried if member.instance.unbound])
    return ExpectedInVain(part.now, uids)


def why_in_vain(memory: ServiceMemory) -> Why:
    """The reason during the backoff that follows, with words."""
    until = datetime.fromtimestamp(memory.backoff_until, UTC).strftime("%H:%M:%S UTC")
    words = f"the expected room did not become free in time; it may reserve room again at {until}"
    return Why(Reason.MINIMUM_DOES_NOT_FIT, (words,))
