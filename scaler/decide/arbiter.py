"""The second pure function: all services' plans together, before anything is acted on. Minimums first.

    what each would do alone -> minimums and climbs -> promises of room, in order -> rulings -> the plans that are left

Section 3b of the contract. It may turn admissions into holds and take admissions back; it never adds an admission. Must
not do I/O, read a clock or log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import msgspec

from scaler.decide.minimums import patience
from scaler.decide.minimums.blockades import Blockades
from scaler.decide.minimums.looks import Look, Looks
from scaler.decide.minimums.loose import Loose
from scaler.decide.minimums.neighbours import Neighbours
from scaler.decide.minimums.parties import (
    NOT_WAITING,
    Minimum,
    Part,
    Party,
    may_be_taken_back,
    order_of,
)
from scaler.decide.minimums.patience import Outlook, outlook
from scaler.decide.minimums.rulings import Fate, Ruling, Why
from scaler.decide.minimums.trade import Ground, victim
from scaler.decide.nodes import Capacity, PodRequests, Room, joined
from scaler.decide.room.placement import Board
from scaler.decide.room.promises import Placement
from scaler.decide.room.shortage import Shortage
from scaler.decide.world import ArbiterMemory, Instance, MinimumMemory, Plan, Policy, Reason, ServiceKey, Snapshot


class Tally(msgspec.Struct):
    """What the metrics say of one arbitration."""

    serving: int = 0
    """Services that run their smallest ratio at least; of those that take part."""
    minimums_waiting: int = 0
    climbs_yielding: int = 0
    minimums_not_scheduled: int = 0
    """They fit, and the scheduler bound none of them in time, again and again."""
    probing: int = 0
    """Minimums that are tried although they do not fit."""
    taken_back: int = 0
    evicted: int = 0
    idle: dict[str, int] = {}
    """What the bound pods of services that do not serve hold to no use, by resource."""


class Arbitration(msgspec.Struct, frozen=True):
    plans: tuple[Plan, ...]
    """The plans to act on, in the order in which they were given."""
    memory: ArbiterMemory
    recheck_at: float = 0.0
    """When time alone may change the outcome; 0.0 = never."""
    tally: Tally | None = None
    """None where nodes may not be read: each service has decided alone."""


def arbitrate(
    decided: Sequence[tuple[Snapshot, Plan]],
    capacity: Capacity | None,
    memory: ArbiterMemory,
    *,
    now: float,
    policy: Policy,
    homes: Mapping[str, Room] | None = None,
    looks: Looks | None = None,
) -> Arbitration:
    """Weigh every service in scope, those at rest too, each with its newest snapshot and the plan made of it.

    `capacity` must have been made for the needs of all instances given; None = it is not known. `homes`: by name, the
    room of the nodes that bound pods of services with surplus are on; without it there are no trades.
    `looks`: the same in each call, it saves looking again at services whose snapshot and plan are as they were.
    """
    if capacity is None:
        return Arbitration(tuple(plan for _, plan in decided), ArbiterMemory())
    session = Session(decided, capacity, memory, now=now, policy=policy, looks=looks or Looks())
    session.decide()
    session.trade(homes or {})
    return session.outcome()


class Session:
    """The working state of one arbitration."""

    def __init__(
        self,
        decided: Sequence[tuple[Snapshot, Plan]],
        capacity: Capacity,
        memory: ArbiterMemory,
        *,
        now: float,
        policy: Policy,
        looks: Looks,
    ) -> None:
        self.decided = decided
        self.looks = looks
        self.capacity = capacity
        self.now = now
        self.policy = policy
        self.board = Board(capacity)
        self.tally = Tally(idle={})
        taking_part = [look for look in looks.at(decided) if look.takes_part]
        self.neighbours = Neighbours({look.plan.key: look.asks for look in taking_part}, self.board)
        self.parties = sorted(self._active(taking_part, memory), key=order_of)
        self.blockades = Blockades([party for party in self.parties if party.minimum], capacity)
        self.rulings: dict[ServiceKey, Ruling] = {}
        self.promised: dict[ServiceKey, Placement] = {}
        """Of minimums."""
        self._deferred: set[ServiceKey] = set()
        self._reserved: list[PodRequests] = []
        """Everything that room was promised for."""
        self._unfit: dict[PodRequests, Shortage] = {}
        self._short: dict[ServiceKey, PodRequests] = {}
        """What a service misses and what fits nowhere."""
        self._probing = any(patience.is_probing(each, now, policy) for each in memory.minimums.values())
        self._vanishing: PodRequests = joined(*(part.needs for party in self.parties for part in party.vanishing))
        """Of pods that are taken back in this very pass: they are still there for a moment."""

    def _active(self, taking_part: Iterable[Look], memory: ArbiterMemory) -> list[Party]:
        """The services that something is to be decided about."""
        parties = []
        for look in taking_part:
            if look.party is None:
                self.tally.serving += 1
                continue
            party = look.party.remembering(memory.minimums.get(look.party.name, NOT_WAITING))
            parties.append(party)
            self.tally.serving += party.serves
        return parties

    def decide(self) -> None:
        """Reserve what is admitted and unbound, minimums before climbs; then what is held, in the same order.

        What is left of a minimum that was begun is reserved like it, although no pod of that may exist yet.
        """
        minimums = [(party, party.minimum) for party in self.parties if party.minimum is not None]
        admitted = [(party, minimum) for party, minimum in minimums if minimum.admitted or party.memory.begun]
        held = [(party, minimum) for party, minimum in minimums if not (minimum.admitted or party.memory.begun)]
        for party, minimum in admitted:
            self._weigh_minimum(party, minimum)
        self._weigh_climbs(released=True)
        for party, minimum in admitted:
            self._defer_if_crowded(party, minimum)
        for party, minimum in held:
            self._weigh_minimum(party, minimum)
            self._defer_if_crowded(party, minimum)
        self._release(minimums)
        self._weigh_climbs(released=False)
        self._remember(minimums)

    # Minimums

    def _weigh_minimum(self, party: Party, minimum: Minimum) -> None:
        """Promise it room, all together or not at all; or find out why not."""
        shared = self.neighbours.shares(party.key, minimum.needs)
        why = self._against_minimum(party, minimum) if shared else None
        if why is not None:
            self._hold_minimum(party, minimum, why)
        elif not shared:  # alone on its nodes: its pods may wait, as they would without an arbiter
            party.memory = patience.idle(party.memory)
            self._place(party, minimum.needs)

    def _against_minimum(self, party: Party, minimum: Minimum) -> Why | None:
        if minimum.lacking:
            party.memory = patience.idle(party.memory)
            return Reason.MINIMUM_INCOMPLETE, minimum.lacking
        party.memory = patience.renewed(party.memory, self._outlook(party, minimum))
        if self.now < party.memory.retry_at and not minimum.admitted:
            return _not_scheduled(party.memory)
        found = self._place(party, minimum.needs)
        if isinstance(found, Shortage):
            return self._against_unfit(party, minimum, found)
        if patience.is_overdue(party.memory, self.now, self.policy) and not minimum.bound and minimum.admitted:
            self._give_back(found)
            party.memory = patience.failed(party.memory, self.now, self.policy, self._outlook(party, minimum))
            return _not_scheduled(party.memory)
        self.promised[party.key] = found
        return None

    def _against_unfit(self, party: Party, minimum: Minimum, shortage: Shortage) -> Why | None:
        """It does not fit as far as can be seen; after a while that is put to the test, one minimum at a time."""
        memory, now, policy = party.memory, self.now, self.policy
        if patience.is_probing(memory, now, policy) or (shortage.undecided and minimum.admitted):
            return None
        never = self.blockades.too_large(minimum)
        if never:
            party.memory = patience.idle(memory)
            return Reason.MINIMUM_TOO_LARGE, (_in_words(never),)
        if memory.probe_since:
            party.memory = patience.probed_in_vain(memory, now)
        elif self._may_be_probed(party, minimum):
            self._probing = True
            party.memory = patience.probed(memory, now)
            return None
        else:
            party.memory = patience.held(memory, now)
        return Reason.MINIMUM_DOES_NOT_FIT, (_in_words(shortage),)

    def _may_be_probed(self, party: Party, minimum: Minimum) -> bool:
        if self._probing or minimum.admitted or patience.is_patient(party.memory, self.now, self.policy):
            return False
        return self.board.sums_suffice(minimum.needs)

    def _hold_minimum(self, party: Party, minimum: Minimum, why: Why) -> None:
        for part in minimum.parts:
            if part.released:
                self._take_back(party, part, why)
            elif part.wanted:
                self._rule(party, part, Fate.HELD, why)

    def _outlook(self, party: Party, minimum: Minimum) -> Outlook:
        """What it could hope for; only looked up for minimums that failed, or are about to."""
        if not (party.memory.failed_at or patience.is_overdue(party.memory, self.now, self.policy)):
            return _NO_OUTLOOK
        return outlook(self.capacity, self.neighbours.kinds(minimum.needs))

    # From promises to admissions

    def _defer_if_crowded(self, party: Party, minimum: Minimum) -> None:
        """What is taken back in this pass is still there for a moment: what has no room beside it waits that long."""
        placement = self.promised.get(party.key)
        if placement is None or not self._vanishing or not self.board.fits(self._vanishing):
            return
        self._deferred.add(party.key)
        for part in minimum.parts:
            if part.wanted and not part.released:
                self._rule(party, part, Fate.HELD, (Reason.MINIMUM_DOES_NOT_FIT, (_BEING_GIVEN_BACK,)))

    def _release(self, minimums: list[tuple[Party, Minimum]]) -> None:
        """The most restricted first; a flexible instance only when no promise is spoilt wherever it lands."""
        promised = [
            (party, part) for party, minimum in minimums if party.key in self.promised for part in minimum.parts
        ]
        loose = Loose(self.board, self.neighbours, self.capacity, (part.needs for _, part in promised))
        waiting: dict[PodRequests, list[tuple[Party, Part]]] = {}
        for party, part in promised:
            if part.released:
                loose.let_go(part.needs)
            elif part.wanted and party.key not in self._deferred:
                waiting.setdefault(part.needs, []).append((party, part))
        loose.let_go_of(waiting)
        for party, part in chain.from_iterable(waiting.values()):
            self._rule(party, part, Fate.HELD, (Reason.YIELDS_TO_MINIMUM, ("others may use fewer of the nodes",)))

    # Climbs

    def _weigh_climbs(self, *, released: bool) -> None:
        for party in self.parties:
            for part in party.climbs:
                if part.released is released:
                    self._weigh_climb(party, part)

    def _weigh_climb(self, party: Party, part: Part) -> None:
        if party.paused or not self.neighbours.shares(party.key, part.needs):
            self._place(party, part.needs)
            return
        why = self._against_climb(party, part)
        if why is None:
            return
        self.tally.climbs_yielding += why[0] is Reason.YIELDS_TO_MINIMUM
        if part.released:
            self._take_back(party, part, why)
        else:
            self._rule(party, part, Fate.HELD, why)

    def _against_climb(self, party: Party, part: Part) -> Why | None:
        blocking = self.blockades.of(part)
        if blocking is not None:
            return blocking
        found = self._place(party, part.needs)
        if isinstance(found, Shortage):
            return None if found.undecided and part.released else (Reason.WAITING_FOR_CAPACITY, (_in_words(found),))
        if not part.released and self._vanishing and self.board.fits(self._vanishing):
            self._give_back(found)
            return Reason.WAITING_FOR_CAPACITY, (_BEING_GIVEN_BACK,)
        return None

    # Both

    def _take_back(self, party: Party, part: Part, why: Why) -> None:
        """Nothing bound is ever taken back; what has to stay keeps its room."""
        instance = part.instance
        if self.policy.revoke and not (instance.bound or instance.unheld):
            if may_be_taken_back(instance, self.policy):
                self._rule(party, part, Fate.TAKEN_BACK, why)
                self.tally.taken_back += 1
                self._vanishing = joined(self._vanishing, part.needs)
                return
            self._rule(party, part, Fate.KEPT, (Reason.REVOKE_WOULD_COST_RESTARTS, why[1]))
        elif part.wanted:
            self._rule(party, part, Fate.HELD, why)
        self._place(party, part.needs)

    def _place(self, party: Party, needs: PodRequests) -> Placement | Shortage:
        found = self._unfit.get(needs) or self.board.place(needs)
        if isinstance(found, Placement):
            self._reserved.append(needs)
        else:
            self._unfit[needs] = found  # and will not, whatever else is promised meanwhile
            self._short.setdefault(party.key, needs)
        return found

    def _give_back(self, placement: Placement) -> None:
        self._unfit.clear()
        self.board.give_back(placement)
        self._reserved.remove(placement.needs)

    def _rule(self, party: Party, one: Part | Instance, fate: Fate, why: Why) -> None:
        ruling = self.rulings.get(party.key)
        if ruling is None:
            ruling = self.rulings[party.key] = {}
        ruling[one.uid] = fate, why

    # The outcome

    def trade(self, homes: Mapping[str, Room]) -> None:
        """Evict what runs beyond the target where that lets a missing instance start."""
        ground = Ground(self.capacity, self._reserved, homes, self.now, self.policy)
        for party in self.parties:
            if party.serves and party.memory is not NOT_WAITING:
                party.memory = patience.served(party.memory)
            if not (party.surplus or party.memory.short_since):
                continue
            evicted = victim(party, self._short_of(party), ground)
            if evicted is not None:
                self.tally.evicted += 1
                self._rule(party, evicted, Fate.EVICTED, (Reason.TERMINATING, (_MAKING_WAY,)))

    def _short_of(self, party: Party) -> PodRequests:
        minimum = party.minimum
        if minimum is not None and (minimum.lacking or self.blockades.too_large(minimum)):
            return ()
        return self._short.get(party.key, ())

    def _remember(self, minimums: list[tuple[Party, Minimum]]) -> None:
        """Who waits, since when. The clock of a minimum runs while some of it is in the scheduler's hands."""
        for party in self.parties:
            if party.minimum is None:
                party.memory = patience.idle(party.memory)
        for party, minimum in minimums:
            self.tally.minimums_waiting += 1
            if party.key in self.promised:
                if not minimum.bound and self._is_in_hands(party, minimum):
                    party.memory = patience.admitted(party.memory, self.now)
                else:
                    party.memory = patience.reserved(party.memory)
            self.tally.minimums_not_scheduled += patience.is_muted(party.memory)
            self.tally.probing += party.memory.probe_since > 0

    def _is_in_hands(self, party: Party, minimum: Minimum) -> bool:
        ruling = self.rulings.get(party.key, {})
        return any(part.released or (part.wanted and part.uid not in ruling) for part in minimum.parts)

    def _count_idle(self) -> None:
        for party in self.parties:
            for need, count in party.idle:
                for resource, amount in need.requests:
                    self.tally.idle[resource] = self.tally.idle.get(resource, 0) + amount * count

    def outcome(self) -> Arbitration:
        plans = self.looks.left(self.decided, self.rulings)
        self._count_idle()
        remembered = {party.name: party.memory for party in self.parties if party.memory != NOT_WAITING}
        moments = (moment for memory in remembered.values() for moment in patience.moments(memory, self.policy))
        recheck_at = min((moment for moment in moments if moment > self.now), default=0.0)
        return Arbitration(plans, ArbiterMemory(remembered), recheck_at, self.tally)


_in_words = lru_cache(maxsize=1 << 12)(str)
"""Many services lack the same."""
_NO_OUTLOOK = Outlook(0, ())
_MAKING_WAY = "evicted, so that a missing one of another group can start"
_BEING_GIVEN_BACK = "its room is being given back by others"


def _not_scheduled(memory: MinimumMemory) -> Why:
    if patience.is_muted(memory):
        return Reason.MINIMUM_NOT_SCHEDULED, (f"{memory.failures} times so far",)
    return Reason.MINIMUM_DOES_NOT_FIT, ("it seemed to, but the scheduler bound none of it in time; it is tried again",)
