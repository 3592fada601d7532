"""At which size a training job starts: 3d.2 of the contract. Reserves room; must not admit or
revoke.

    every minimum has its smallest size -> each job up to its recorded size -> scale-ups of services
    -> each job beyond its recorded size

In rounds, one size for each job, so jobs on the same nodes share them. For example three jobs may
have 4, 2 or 1 servers, and 7 nodes are left:

    minimums         1 + 1 + 1
    first round      2 + 2 + 2
    second round     one node is free, and 4 fit for nobody

A size has to fit whole, on room of the same kind as the minimum, and must not invalidate a
reservation: as a scale-up (3b.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scaler.decide.draft import Draft
from scaler.decide.nodes import Room
from scaler.decide.room.placement import Reservation
from scaler.decide.service.states import Member
from scaler.decide.sharing import gathering
from scaler.decide.sharing.order import scale_up_order
from scaler.decide.sharing.part import Part, ReservedMinimum
from scaler.decide.training.needs import of_size, training_of
from scaler.decide.training.remember import sizes_of
from scaler.decide.world import Instance, Training


class Start(msgspec.Struct, eq=False):
    """A job that starts. `arbitration.py` writes the size and the reservation that it comes to."""

    draft: Draft
    minimum: ReservedMinimum
    size: int
    """An index in `Training.sizes`."""

    @property
    def member(self) -> Member:
        return self.minimum.members[0]

    @property
    def training(self) -> Training:
        return training_of(self.member.instance)

    @property
    def is_held(self) -> bool:
        """Whether the scheduler has none of its pods, so that its size may be chosen."""
        return not self.member.is_with_the_scheduler


class Enlarged(msgspec.Struct, frozen=True, eq=False):
    """What a job came to: its size, and the reservation for it."""

    size: int
    minimum: ReservedMinimum


def starts_of(draft: Draft, minimum: ReservedMinimum) -> list[Start]:
    """The job that starts by this reservation, at its smallest size."""
    starts = []
    for member in minimum.members:
        training = member.instance.training
        if training is not msgspec.UNSET and not member.instance.bound:
            starts.append(Start(draft, minimum, len(training.sizes) - 1))
    return starts


def in_order(starts: Iterable[Start]) -> list[Start]:
    """3d.2: by priority, age and name."""
    return sorted(starts, key=lambda start: scale_up_order(start.draft))


def is_sized(start: Start) -> bool:
    """Whether its pods may be asked for at another size: they are not rounded up (3b.10c)."""
    return not any(request.rounded for request, _ in start.member.instance.unbound)


def goal(start: Start) -> int:
    """3d.2: the size up to which it goes before scale-ups: the one that it has with the scheduler,
    or that was chosen for this start, or that is recorded."""
    training = start.training
    if not start.is_held:
        return training.started if training.started >= 0 else start.size
    chosen = sizes_of(start.draft.memory_of(start.member.uid)).chosen
    named = [size.name for size in training.sizes]
    wanted = named.index(chosen) if chosen in named else training.recorded
    return max(wanted, largest_allowed(start.draft, training))


def largest_allowed(draft: Draft, training: Training) -> int:
    """3d.1: the largest size of at most `spec.replicas`; the smallest where none is."""
    for number, size in enumerate(training.sizes):
        if size.amount <= draft.demand.service.replicas:
            return number
    return len(training.sizes) - 1


def may_go_beyond(start: Start) -> bool:
    """3d.2: whether it may get a larger size than the recorded one. Where its owner makes its pods,
    a size that was chosen stays as long as it fits: the pods of another one would have to be made
    first."""
    if not start.is_held or start.minimum.room is not Room.FREE:
        return False
    if start.member.instance.made_by_us:
        return True
    was_chosen = bool(sizes_of(start.draft.memory_of(start.member.uid)).chosen)
    return not was_chosen and start.member.uid not in start.draft.admitted


def next_size(part: Part, start: Start, most: int) -> Enlarged | None:
    """The next larger size up to `most` that has not had its attempt (3d.3), reserved in place of
    the size that the job has; None where it does not fit whole, or might invalidate a reservation.
    Then the job has the reservation that it had."""
    larger = next(_larger_sizes(start, most), None)
    return None if larger is None else _in_place_of(part, start, larger)


def _larger_sizes(start: Start, most: int) -> Iterator[int]:
    """From the next larger one up to `most`."""
    tried = sizes_of(start.draft.memory_of(start.member.uid)).tried
    for size in range(start.size - 1, most - 1, -1):
        if start.training.sizes[size].name not in tried:
            yield size


def _in_place_of(part: Part, start: Start, size: int) -> Enlarged | None:
    """This size, reserved in place of what the job has; None where that does not go."""
    before = start.minimum
    larger = at_size(start.draft, start.member, size)
    part.placement.cancel(before.reservation)
    reserved = part.placement.reserve(larger.instance.unbound, before.room)
    if isinstance(reserved, Reservation):
        if before.room is not Room.FREE or not _may_harm(part, start, larger):
            return Enlarged(size, _with(before, larger, reserved))
        part.placement.cancel(reserved)
    again = part.placement.reserve(start.member.instance.unbound, before.room)
    if isinstance(again, Reservation):
        before.reservation.placed = again.placed
    return None


def _may_harm(part: Part, start: Start, larger: Member) -> bool:
    """3b.7b, 3b.7d: whether the scheduler may invalidate a reservation by these pods, or bind one
    on a node that is kept for a minimum. It has them already where nothing is held."""
    if not start.is_held:
        return False
    if gathering.kept_from(part, start.draft, larger) is not None:
        return True
    return part.may_invalidate(larger)


def _with(minimum: ReservedMinimum, member: Member, reserved: Reservation) -> ReservedMinimum:
    return msgspec.structs.replace(minimum, members=[member], reservation=reserved)


def smallest_of_others(draft: Draft) -> dict[str, int]:
    """3d.10: the jobs that start without a reservation: alone on their nodes, or as a probe."""
    sizes = {}
    for member in draft.demand.training:
        starts = member.uid in draft.chosen and not member.instance.bound
        if starts and member.uid not in draft.sizes:
            sizes[member.uid] = len(training_of(member.instance).sizes) - 1
    return sizes


# a job at a size


def at_size(draft: Draft, member: Member, size: int) -> Member:
    """A job of which nothing is bound, as if it had this size alone."""
    return msgspec.structs.replace(member, instance=of_size(as_read(draft, member.uid), size))


def needing(member: Member, size: int) -> Member:
    """A job that is bound, with the needs of another size."""
    needs = training_of(member.instance).sizes[size].needs
    instance = msgspec.structs.replace(member.instance, requests=needs, unbound=needs)
    return msgspec.structs.replace(member, instance=instance)


def as_released(draft: Draft, member: Member) -> Member:
    """An instance with the scheduler, with all pods that the scheduler has of it."""
    training = member.instance.training
    if training is msgspec.UNSET or member.instance.bound or training.started < 0:
        return member
    return at_size(draft, member, training.started)


def as_read(draft: Draft, uid: str) -> Instance:
    """The instance as the cluster shows it."""
    return next(one for one in draft.demand.service.instances if one.uid == uid)
