"""What the steps of one decision know: 3b of the contract, words.

A part is the services that share nodes, directly or through others. The steps of sharing, one file
per clause of 3b, read a `Part` and answer with a value. They may reserve room in the trial
placement. `arbitration.py` and `minimum.py` alone write the answers, into the drafts and into the
fields of `Part`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from scaler.decide import attempts
from scaler.decide.decision import State
from scaler.decide.draft import Draft, Why, requests_of
from scaler.decide.memory import Attempt
from scaler.decide.nodes import PodRequest, PodRequests, Room
from scaler.decide.room.placement import Placement, Reservation
from scaler.decide.room.shortage import Shortage
from scaler.decide.service.states import Member, is_made
from scaler.decide.sharing.order import scale_up_order
from scaler.decide.work import Steps
from scaler.decide.world import World

DraftsOfPart = Callable[[float], Sequence[Draft]]
"""(highest priority) -> the drafts of all services of the part; none if each has a higher priority
than that."""


Gatherers = Mapping[frozenset[PodRequest], Draft]
"""The requests of the pods that a minimum misses -> a service that misses such pods."""


class Victim(msgspec.Struct, frozen=True, eq=False):
    """An instance that may be evicted, for another service or for a missing instance of the same
    service."""

    draft: Draft
    member: Member


class Shrunk(msgspec.Struct, frozen=True, eq=False):
    """3d.6: a training job that gives room and goes on at a smaller size."""

    victim: Victim
    size: int
    """An index in `Training.sizes`."""


class ReservedMinimum(msgspec.Struct, frozen=True, eq=False):
    """The instances chosen for the minimum of a service, and the reservation for all of them."""

    members: list[Member]
    """Instances that are bound in part, then candidates."""
    room: Room
    reservation: Reservation
    victims: tuple[Victim, ...] = ()
    shrunk: tuple[Shrunk, ...] = ()
    for_shrunk: Reservation | None = None
    """The room at which the shrunk jobs go on."""

    @property
    def all_victims(self) -> tuple[Victim, ...]:
        """All whose pods are to end for it."""
        return (*self.victims, *[one.victim for one in self.shrunk])

    @property
    def has_unmade(self) -> bool:
        """Whether the owner of a chosen instance has not made its pods yet, though it waits for no
        other role (2)."""
        for member in self.members:
            if member.state is State.HELD and not (is_made(member) or member.follows):
                return True
        return False


class Admitted(msgspec.Struct, frozen=True, eq=False):
    """A scale-up is admitted. `reserved`: it has room; a service that is alone needs none, and
    `lacks` says what is missing then."""

    reserved: bool
    lacks: tuple[str, ...] = ()


class Held(msgspec.Struct, frozen=True, eq=False):
    """A scale-up stays held. `lacks_room`: it does not fit. `for_now`: another one
    that asks for the same may be admitted: only pods that still have to go are in its way, or a
    minimum that others may pass."""

    why: Why
    lacks_room: bool = False
    for_now: bool = False


class Questions(Protocol):
    """Questions that many services of a part ask alike: `questions.py` answers them."""

    def find(self, part: Part, draft: Draft, /) -> ReservedMinimum | Shortage: ...

    def why_too_large(self, draft: Draft, /) -> Shortage | None: ...

    def would_fit(self, part: Part, draft: Draft, /) -> bool: ...

    def scale_up(
        self, part: Part, draft: Draft, member: Member, others: Sequence[Member], /
    ) -> Admitted | Held: ...


class WithScheduler:
    """What the scheduler may bind at any moment, and has a reservation."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.pods: Counter[PodRequest] = Counter()

    def add(self, draft: Draft, pods: PodRequests) -> None:
        """Add the unbound pods of an instance, as they are reserved."""
        self.drafts.append(draft)
        self.pods.update(dict(pods))

    def take_back(self, pods: PodRequests) -> None:
        """These pods are not added after all: their instance gets others."""
        self.pods -= Counter(dict(pods))


class Part:
    """One part of the cluster in one decision: the world, the services, and what the steps so far
    came to."""

    # Wiring: everything that the steps of one part of the cluster work with.
    def __init__(  # noqa: PLR0913
        self,
        world: World,
        placement: Placement,
        drafts: dict[int, Draft],
        drafts_of_part: DraftsOfPart,
        questions: Questions,
        *,
        is_probed: bool,
        expects_room: bool,
    ) -> None:
        """`drafts`: of services with something to weigh; `drafts_of_part` adds those of the others
        when victims are looked for."""
        self.world = world
        self.now = world.now
        self.policy = world.policy
        self.placement = placement
        self.all = drafts
        self.drafts = sorted(drafts.values(), key=scale_up_order)
        self.drafts_of_part = drafts_of_part
        self.questions = questions
        self.is_probed = is_probed
        """The minimum of some service of the world is probed now. `minimum.py` sets it when a probe
        begins, and `weigh.py` hands it on to the next part."""
        self.expects_room = expects_room
        """Pods may end or nodes may return, so that there may be more than free room. `minimum.py`
        sets it when it chooses victims."""
        self.kept: dict[str, Reservation] = {}
        """Uid of an instance that cannot be revoked -> its reservation."""
        self.minimums: list[Draft] = []
        """2: the services with missing instances of their minimum, in the order in which they
        reserve."""
        self.on_free_room: list[tuple[Draft, ReservedMinimum]] = []
        """Services whose minimum has a reservation on free room, in the order of minimums."""
        self.gatherers: Gatherers = {}
        """7d: services whose minimum found no room, and would fit on empty nodes. None is in
        backoff, and none of what they miss has had its attempt."""
        self.reserved_with_scheduler = WithScheduler()
        self.waited_long: list[Draft] = []
        """Services that have waited for `backoff_max`."""
        self.scale_ups_that_waited: list[Draft] = []
        """7a: services whose scale-ups go before minimums that had an attempt, in their order."""
        self.attempts_ended_in: Counter[str] = Counter()
        """Namespace -> the number of its services that had an attempt; empty where no scale-up has
        waited for `backoff_max`."""
        self.not_understood: list[Draft] = []
        """7b: services whose minimum needs a resource that no node offers, and waits for its first
        probe."""
        self.is_careful = False
        """10c: more unlike minimums have reservations than are weighed against each other."""
        self.trading: list[Draft] = []
        """Services that serve, with surplus that is to give way to a missing instance."""
        self.being_revoked: list[tuple[Draft, Member]] = []
        """Instances that this decision revokes. Their pods exist for a moment longer."""

    def understood(self, pods: PodRequests) -> PodRequests:
        """7b: these pods as scale-ups are placed: without the resources that no node offers. What
        was rounded up stays as it is (10c)."""
        if any(request.rounded for request, _ in pods):
            return pods
        return self.placement.nodes.understood(pods)

    def count_with_scheduler(self, draft: Draft, members: Iterable[Member]) -> None:
        """The scheduler may bind these instances at any moment, and they have reservations."""
        for member in members:
            self.reserved_with_scheduler.add(draft, self.understood(member.instance.unbound))

    def may_invalidate(self, member: Member, *, own: bool = False) -> bool:
        """6b, 7b: whether the scheduler may invalidate a reservation by binding this instance and
        what is with it already. `own`: count the reservations of its own kind of pods too."""
        pods = self.understood(member.instance.unbound)
        others = self.reserved_with_scheduler.pods.items()
        return self.placement.may_invalidate(pods, others, own=own)

    def asking(self, member: Member, *, own: bool = False) -> Steps[bool]:
        """As `may_invalidate`, step by step. The same question after it costs little."""
        pods = self.understood(member.instance.unbound)
        return self.placement.asking(pods, self.reserved_with_scheduler.pods.items(), own=own)

    def drafts_of_all(self) -> Sequence[Draft]:
        """The drafts of all services of the part, also of those with nothing to weigh."""
        return self.drafts_of_part(math.inf)

    def is_crowded(self, draft: Draft) -> bool:
        """6a: whether pods that this decision revokes, and that exist for a moment, do not fit
        beside all reservations."""
        near: list[Member] = []
        for other, member in self.being_revoked:
            if draft.shares_nodes_with(other):
                near.append(member)
        return bool(near) and self.placement.fits(self.understood(requests_of(near))) is not None

    def is_late(self, attempt: Attempt) -> bool:
        """5c: whether the attempt made no progress within `minimum_timeout`."""
        return attempts.is_late(attempt, self.now, self.policy)

    def fits_when_returned(self, pods: PodRequests) -> bool:
        """4f: whether these pods would fit without an eviction if nodes and chips that are away for
        a moment were there, and only then."""
        if self.placement.fits(pods, Room.EXPECTED) is None:
            return False
        return self.placement.fits(pods, Room.RETURNING) is None

    def has_room_for(self, pods: PodRequests, room: Room = Room.FREE) -> bool:
        """Whether these pods fit on that room beside all reservations."""
        return self.placement.fits(pods, room) is None
