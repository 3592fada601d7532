"""A second opinion on one decision about several services on whole nodes, nothing remembered:
section 3b of the contract read sentence by sentence, slow and straight, with no code of the
decision.

Of what is remembered it reads which attempts have ended in vain, and who has waited for
`backoff_max`: one service at most. All else that time brings is not here: clocks, backoff, probes,
waiting for own running surplus. Pods take a whole node each, we make them, and no restarts are
counted."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

from scaler.rules.rule import Trade
from tests.builders import NOW
from tests.decide.contract import Counts, attainable
from tests.decide.facts import Facts, choices
from tests.decide.packing import Gang, Need, can_invalidate, packs, room_of
from tests.decide.small_worlds import POLICY, Shape, State

Needs = list[tuple[int, Need]]
"""Pods with the nodes that each is reserved room on, behind the number of its job."""

BOUND = ("running", "starting", "part", "broken")
UP = (*BOUND, "hands")
"""What `_state` calls an instance of which something is bound, or is up."""


class Opinion(NamedTuple):
    """What is done, to which jobs."""

    admit: frozenset[int]
    revoke: frozenset[int]
    evict: frozenset[int]
    unsure: bool = False
    """Instances of different nodes, and reservations on room that is not free, or an instance bound
    in part whose rack is known beside one whose rack is not: the decision may say
    "it could be spoilt" of more than can be, and hold back or revoke what is not needed for a
    minimum."""


def judge(of: Shape, s: State) -> Opinion:
    return _Judge(of, s).judge()


class _Judge(Facts):
    def __init__(self, of: Shape, s: State) -> None:
        super().__init__(of, s)
        self.state = [_state(s, number) for number in range(len(of.jobs))]
        used = {place for inst in s.insts for _, place in inst.pods}
        self.free = frozenset(n for n, units in self.room().items() if units)
        self.ends = frozenset(self.to_come())
        away = (
            n for n, (state, age) in enumerate(s.nodes) if state in "XC" and age < POLICY.due_back
        )
        self.away = frozenset(away) - used
        """Nodes that may come back, without pods."""
        moment = (n for n in self.away if s.nodes[n][1] < POLICY.flap_patience)
        self.for_a_moment = frozenset(moment)
        self.came = frozenset(
            n for n, (state, age) in enumerate(s.nodes) if state == "R" and age < POLICY.gather
        )
        """Nodes that became usable lately."""
        self.gatherers: list[int] = []
        """Services whose minimum misses room and could have it (3b.7d)."""
        self.reserved: Needs = []
        self.admit: list[int] = []
        self.revoke: list[int] = []
        self.evict: list[int] = []
        self.nominated: list[int] = []
        """Whose room is reserved: evicted now, or after a while."""

    # what there is

    def among(self, jobs: Iterable[int], *states: str) -> list[int]:
        """Those of these jobs that are in one of these states."""
        return [n for n in jobs if self.state[n] in states]

    def largest(self, team: int) -> Counts:
        """The largest ratio with enough live instances."""
        found = self.ratios(team)
        return found[attainable(found, self.live(team))[0]]

    def needs(self, job: int, room: frozenset[int]) -> Needs:
        return [(job, need) for need in self.lacking(job, room)]

    def fit(self, more: Needs) -> bool:
        return packs(
            dict.fromkeys(range(len(self.of.nodes)), 1), [pod for _, pod in [*self.reserved, *more]]
        )

    # 3b.1: the minimum

    def lacks(self, team: int) -> dict[str, int]:
        """The smallest ratio less what is bound and has a slot."""
        return {
            g: max(0, n - len(self.among(self.members(team, g), *BOUND)))
            for g, n in self.smallest(team).items()
        }

    def fixed(self, team: int) -> list[int]:
        """Of the minimum, what is bound in part: its unbound pods are missing too."""
        found = []
        for g, n in self.smallest(team).items():
            bound = self.among(self.members(team, g), *BOUND)
            parts = [one for one in bound if self.insts[one].count("u")]
            found += parts[: max(0, n - len(bound) + len(parts))]
        return found

    def candidates(self, team: int, name: str) -> list[int]:
        """Those with the scheduler before those held; what is terminating last, while its room is
        to come."""
        mine = self.members(team, name)
        ending = self.among(mine, "ending")
        hopeful = [n for n in ending if self.places(n) <= self.ends]
        return [*self.among(mine, "hands"), *self.among(mine, "held"), *hopeful]

    def places(self, number: int) -> set[int]:
        """The nodes of its pods."""
        return {place for _, place in self.insts[number].pods if place >= 0}

    def choices(self, team: int) -> Iterator[tuple[int, ...]]:
        pools = [(self.candidates(team, g), n) for g, n in self.lacks(team).items()]
        return itertools.islice(choices(pools), 16)

    def too_large(self, team: int) -> bool:
        """It would not fit on empty nodes."""
        there = frozenset(n for n, (state, _) in enumerate(self.nodes) if state != "G")
        for choice in choices((self.members(team, g), n) for g, n in self.smallest(team).items()):
            if packs(dict.fromkeys(there, 1), self.whole(choice, there)):
                return False
        return True

    def whole(self, jobs: Iterable[int], room: frozenset[int]) -> list[Need]:
        """All pods of these, bound ones too."""
        found: list[Need] = []
        for job in map(self.jobs.__getitem__, jobs):
            if job.racks:
                found.append(Gang(1, tuple([rack & room for rack in job.racks]), job.pods))
            else:
                found += [(1, job.nodes & room)] * job.pods
        return found

    def misses(self, team: int) -> bool:
        return not self.serves(team) and bool(self.fixed(team) or any(self.lacks(team).values()))

    # 3b.2: their order

    def order(self, team: int) -> tuple[object, ...]:
        return (
            -self.of.teams[team].priority,
            self.remembered_of(team).ended_at,
            not self.among(self.of.of(team), *UP),
            self.of.of(team).start,
        )

    def in_turn(self, teams: Iterable[int]) -> list[int]:
        """2a: whoever has waited for `backoff_max` goes before all that had an attempt, whatever
        the priorities, and before those of its own priority of which nothing is bound."""
        found = sorted(teams, key=self.order)
        for one in filter(self.has_waited, list(found)):
            ahead = found[: found.index(one)]
            passed = [team for team in ahead if self.is_passed(team, one)]
            kept = [team for team in ahead if team not in passed]
            found = [*kept, one, *passed, *found[found.index(one) + 1 :]]
        return found

    def is_passed(self, team: int, by: int) -> bool:
        if self.remembered_of(team).has_evicted:
            return False
        if self.was_tried(team):
            return True
        is_bound = bool(self.among(self.of.of(team), *BOUND))
        return not is_bound and self.of.teams[team].priority == self.of.teams[by].priority

    def has_waited(self, team: int) -> bool:
        since = self.remembered_of(team).waiting_since
        return since > 0 and NOW - since >= POLICY.backoff_max

    def was_tried(self, team: int) -> bool:
        """It had an attempt since it last made progress."""
        ended = self.remembered_of(team).ended_at > 0
        return ended or any(map(self.had_turn, self.of.of(team)))

    def scale_up_before(self, team: int) -> int | None:
        """7a: the scale-up that has waited for `backoff_max`, could start now, and goes before this
        minimum: it had an attempt."""
        for other in self.teams:
            if self.has_waited(other) and not self.misses(other) and self.share(team, other):
                for n in self.can_start(other):
                    return n if self.was_tried(team) else None
        return None

    def can_start(self, team: int) -> list[int]:
        """Its scale-ups with the scheduler; its held ones that the target has a place for, and that
        fit and invalidate nothing."""
        found = self.among(self.of.of(team), "hands")
        for g, most in self.target(team).items():
            mine = self.members(team, g)
            if len(self.among(mine, *UP)) < most:
                found += self.among(mine, "held")
        return [n for n in found if self.could_start(n)]

    def could_start(self, job: int) -> bool:
        needs = self.needs(job, self.free)
        hands = [need for n in self.chosen_hands() for need in self.needs(n, self.free)]
        return self.fit(needs) and not self.can_invalidate([*hands, *needs])

    def chosen_hands(self) -> list[int]:
        """What is with the scheduler, or bound in part, of the minimums reserved so far."""
        granted = [n for _, choice in self.granted for n in choice]
        return self.among(granted, "hands")

    # 3b.4: victims, the cheapest first

    def surplus(self, team: int) -> list[int]:
        """Bound, of groups that may lose something, on nodes that are ready."""
        found = []
        for g in self.smallest(team):
            mine = self.members(team, g)
            able = [n for n in mine if n not in self.nominated and self.on_ready_nodes(n)]
            found += [n for n in self.among(able, *BOUND) if self.may_lose({n})]
        return found

    def may_lose(self, lost: Iterable[int]) -> bool:
        """No group that has its minimum loses it, of what runs and of what is bound."""
        for team in {self.jobs[n].team for n in lost}:
            for g, least in self.smallest(team).items():
                mine = [
                    n
                    for n in self.members(team, g)
                    if n not in self.nominated and self.on_ready_nodes(n)
                ]
                runs = self.among(mine, "running")
                rest = self.among(mine, "part", "starting", "broken")
                lost_rest = len(set(rest) & set(lost))
                if lost_rest and lost_rest > len(runs) + len(rest) - least:
                    return False
                if set(runs) & set(lost) and len(set(runs) - set(lost)) < least:
                    return False
        return True

    def victims_elsewhere(self, team: int) -> list[int]:
        found = []
        for other in range(len(self.of.teams)):
            if self.may_evict(team, other) and self.share(team, other):
                found += self.surplus(other)
        return found

    def cheapest(
        self, team: int, choice: Sequence[int], room: frozenset[int], victims: list[int]
    ) -> list[int] | None:
        """Those that go: lower priority first; within one what does not run; of those what helps
        more, then what is bound in part, then the newest. As few as suffice, the dearest spared."""
        if self.placed(team, choice, room, []):
            return []
        missing = [*self.fixed(team), *choice]
        useful = frozenset().union(*(self.jobs[n].nodes for n in missing))
        pods = sum(self.jobs[n].pods - self.insts[n].bound for n in missing)

        def tier(n: int) -> tuple[bool, int, bool]:
            own = self.jobs[n].team == team
            priority = 0 if own else self.of.teams[self.jobs[n].team].priority
            return not own, priority, self.state[n] == "running"

        def cost(n: int) -> tuple[object, ...]:
            gain = min(pods, len(self.nodes_left([n]) & useful))
            return tier(n), -gain, self.state[n] != "part", -n

        helpful = sorted((n for n in victims if self.nodes_left([n]) & useful), key=cost)
        for most in sorted(set(map(tier, helpful))):
            within = [n for n in helpful if tier(n) <= most]
            for size in range(len(within), 0, -1):
                for chosen in itertools.combinations(within, size):
                    if self.may_lose(chosen) and self.placed(team, choice, room, list(chosen)):
                        return self.without_the_dearest(team, choice, room, list(chosen))
        return None

    def without_the_dearest(
        self, team: int, choice: Sequence[int], room: frozenset[int], victims: list[int]
    ) -> list[int]:
        left = list(victims)
        for one in reversed(victims):
            fewer = [each for each in left if each != one]
            if self.placed(team, choice, room, fewer):
                left = fewer
        return left

    def nodes_left(self, jobs: list[int]) -> frozenset[int]:
        """Nodes that these leave behind, as far as they can be used."""
        return frozenset(self.freed(jobs))

    # 3b.3: reserve

    def source(self, team: int) -> tuple[tuple[int, ...], Needs, str, list[int]] | None:
        """What is chosen, on what room, from which source, and its victims."""
        trades = self.of.teams[team].trade is not Trade.OFF
        own = [n for n in self.surplus(team) if n not in self.fixed(team)] if trades else []
        still = [n for n in own if self.state[n] != "running"]
        elsewhere = self.victims_elsewhere(team)
        come = self.free | self.ends | self.nodes_left(self.nominated)
        tries: list[tuple[str, frozenset[int], list[int]]] = [
            ("free", self.free, []),
            ("own that does not run", self.free, still),
            ("to come", come, []),
            ("to come", come, still),
            ("own that runs", come, own),
            ("others", come, own + elsewhere),
            ("away", come | self.away, []),
        ]
        if not self.would_fit(team, come) and self.would_fit(team, come | self.for_a_moment):
            tries = [each for each in tries if not each[2]]  # 4f
        for name, room, victims in tries:
            for choice in self.choices(team):
                able = self.may_go(team, choice, victims)
                if victims and not able:
                    continue
                if name in ("free", "own that does not run") and self.among(choice, "ending"):
                    continue
                left = self.cheapest(team, choice, room, able)
                if name == "free" and left is not None:
                    beside = self.own_room_beside(team, choice, come, (still, own))
                    if beside is not None:
                        return beside
                if left is not None:
                    return (
                        choice,
                        self.all_needs(team, choice, room | self.nodes_left(left)),
                        name,
                        left,
                    )
        return None

    def own_room_beside(
        self, team: int, choice: Sequence[int], room: frozenset[int], own: Iterable[list[int]]
    ) -> tuple[tuple[int, ...], Needs, str, list[int]] | None:
        """3.6: the free room seems to fit, and nothing was bound there: own surplus gives way
        beside all the room on which it would fit again."""
        missing = [*self.fixed(team), *choice]
        if not (self.only_seems_to_fit(team) and any(map(self.had_turn, missing))):
            return None
        on_free = self.all_needs(team, choice, self.free)
        before = list(self.reserved)
        for victims in own:
            able = self.may_go(team, choice, victims)
            for _ in range(16):
                if self.fit(on_free):
                    self.reserved += on_free
            left = self.cheapest(team, choice, room, able)
            self.reserved = list(before)
            if left:
                beside = self.all_needs(team, choice, room | self.nodes_left(left))
                return tuple(choice), [*on_free, *beside], "beside free", left
        return None

    def may_go(self, team: int, choice: Sequence[int], victims: list[int]) -> list[int]:
        """4e: those that may be evicted for this choice: in a pause what does not run of the
        service itself, once."""
        if not self.pauses(team, [*self.fixed(team), *choice]):
            return victims
        if self.remembered_of(team).gave_way_once:
            return []
        mine = [n for n in victims if self.jobs[n].team == team]
        return [n for n in mine if self.state[n] != "running"]

    def would_fit(self, team: int, room: frozenset[int]) -> bool:
        return any(self.placed(team, choice, room, []) for choice in self.choices(team))

    def all_needs(self, team: int, choice: Sequence[int], room: frozenset[int]) -> Needs:
        """What is bound in part has its room already, or there is none."""
        parts = [n for n in self.fixed(team) if n not in self.kept]
        return [need for n in [*parts, *choice] for need in self.needs(n, room)]

    def placed(
        self, team: int, choice: Sequence[int], room: frozenset[int], victims: list[int]
    ) -> bool:
        return self.fit(self.all_needs(team, choice, room | self.nodes_left(victims)))

    # in order

    def judge(self) -> Opinion:
        self.bound_in_part = [
            n for n, inst in enumerate(self.insts) if inst.bound and inst.count("u")
        ]
        self.kept: list[int] = []
        for n in self.bound_in_part:
            if self.fit(self.needs(n, self.free)):
                self.reserved += self.needs(n, self.free)
                self.kept.append(n)
        self.granted: list[tuple[int, Sequence[int]]] = []
        self.chosen: set[int] = set()
        self.sources: dict[int, str] = {}
        for team in self.in_turn(filter(self.misses, self.teams)):
            self.minimum(team)
        self.scale_ups_in_hands()
        hands = [
            n for n in self.among(range(len(self.jobs)), "hands") if n not in self.revoke
        ] + self.kept
        self.release(hands)
        self.scale_ups_held(hands)
        unsure = len({self.jobs[n].nodes for n, _ in self.reserved}) > 1 and any(
            source != "free" for source in self.sources.values()
        )
        racks = {need.racks for _, need in self.reserved if isinstance(need, Gang)}
        unsure = unsure or len(racks) > 1
        return Opinion(frozenset(self.admit), frozenset(self.revoke), frozenset(self.evict), unsure)

    def minimum(self, team: int) -> None:
        lacks = self.lacks(team)
        complete = all(len(self.candidates(team, g)) >= n for g, n in lacks.items())
        found = self.source(team) if complete and not self.too_large(team) else None
        first = self.scale_up_before(team) if found is not None else None
        if found is not None and first is not None and not self.leaves_room(first, found[1]):
            self.revoke += self.among(self.of.of(team), "hands")
        elif found is None and not self.shares(team) and (complete or not self.in_racks(team)):
            self.minimum_of_one_alone(team)
        elif found is None:
            self.revoke += self.among(self.of.of(team), "hands")
            had_turn = any(map(self.had_turn, self.missing(team)))
            if complete and not self.too_large(team) and not had_turn:
                self.gatherers.append(team)
        else:
            choice, needs, source, victims = found
            self.reserved += needs
            self.chosen |= set(choice) | set(self.fixed(team))
            self.sources[team] = source
            self.nominated += victims
            if not any(self.jobs[n].team == team for n in self.among(victims, "running")):
                self.evict += victims  # own running surplus goes only after a while
            swapped = self.swapped(team, choice)
            self.revoke += swapped
            if source == "free" and not swapped:
                self.granted.append((team, choice))
            elif source != "free" and not self.shares(team) and not swapped:
                smaller = self.smaller([*self.fixed(team), *choice])
                self.admit += [n for n in self.among(choice, "held") if n not in smaller]
            elif source != "free" and self.shares(team):
                self.revoke += self.among(choice, "hands")

    def leaves_room(self, scale_up: int, needs: Needs) -> bool:
        """7a: whether that scale-up could still start beside a minimum with these needs."""
        beside = copy(self)
        beside.reserved = [*self.reserved, *needs]
        return beside.could_start(scale_up)

    def swapped(self, team: int, choice: Sequence[int]) -> list[int]:
        """With the scheduler, while a held one of the same group is chosen instead."""
        letters = {self.jobs[n].letter for n in self.among(choice, "held")}
        hands = self.among(self.of.of(team), "hands")
        return [n for n in hands if n not in choice and self.jobs[n].letter in letters]

    def minimum_of_one_alone(self, team: int) -> None:
        """Whether it fits or not; candidates that fit go first."""
        choice: list[int] = []
        more: Needs = []
        for g, n in self.lacks(team).items():
            queue = self.among(self.candidates(team, g), "hands", "held")
            good: list[int] = []
            for one in queue:
                if len(good) < n and self.fit(more + self.needs(one, self.free)):
                    good.append(one)
                    more += self.needs(one, self.free)
            choice += [*good, *(one for one in queue if one not in good)][:n]
        self.reserved += more
        swapped = self.swapped(team, choice)
        self.revoke += swapped
        self.chosen |= set(choice)
        letters = {self.jobs[one].letter for one in swapped}
        ready = [n for n in self.among(choice, "held") if self.jobs[n].letter not in letters]
        smaller = self.smaller(choice)
        self.admit += [n for n in ready if n not in smaller]

    # 3b.7: scale-ups

    def in_order(self) -> list[int]:
        """By priority, age; who has waited for `backoff_max` before all of its own priority."""
        return sorted(
            self.teams,
            key=lambda team: (
                -self.of.teams[team].priority,
                not self.has_waited(team),
                self.of.of(team).start,
            ),
        )

    def scale_ups_in_hands(self) -> None:
        beyond = self.too_many(self.largest)
        late = self.too_many(self.target)
        hands = [n for n in self.among(self.chosen, "hands") if n not in self.revoke]
        hands += self.among(range(len(self.jobs)), "part")
        for team in self.in_order():
            for n in sorted(self.among(self.of.of(team), "hands"), key=lambda n: (n in late, n)):
                if n in self.chosen or n in self.revoke:
                    continue
                needs = self.needs(n, self.free)
                fits = (
                    self.fit(needs)
                    and not self.is_kept_off(team, n)
                    and not self.can_invalidate(
                        [need for one in [*hands, n] for need in self.needs(one, self.free)]
                    )
                )
                if n in beyond:
                    self.revoke.append(n)
                elif fits:
                    self.reserved += needs
                    hands.append(n)
                elif (
                    n in late
                    or self.misses(team)
                    or self.shares(team)
                    or self.another_fits(team, n)
                ):
                    self.revoke.append(n)

    def is_kept_off(self, team: int, job: int) -> bool:
        """3b.7d: it could land on a node that became usable lately, and that is kept for a minimum
        of the same or a higher priority which could use it."""
        kept = frozenset[int]()
        for other in self.gatherers:
            if self.of.teams[other].priority >= self.of.teams[team].priority:
                for n in self.missing(other):
                    kept |= self.jobs[n].nodes
        return bool(self.jobs[job].nodes & self.free & self.came & kept)

    def missing(self, team: int) -> list[int]:
        """Instances that the minimum would be made of."""
        found = self.fixed(team)
        for g, number in self.lacks(team).items():
            found += self.candidates(team, g)[:number]
        return found

    def too_many(self, ratio: Callable[[int], Counts]) -> set[int]:
        """The newest of those with the scheduler, as many as are too many for this ratio of their
        service."""
        found: set[int] = set()
        for team in self.teams:
            for g, most in ratio(team).items():
                left = [
                    n
                    for n in self.among(reversed(self.members(team, g)), *UP)
                    if n not in self.revoke
                ]
                hands = [n for n in self.among(left, "hands") if n not in self.chosen]
                found |= set(hands[: max(0, len(left) - most)])
        return found

    def another_fits(self, team: int, job: int) -> bool:
        held = [n for n in self.among(self.of.of(team), "held") if n != job]
        alike = [n for n in held if self.jobs[n].letter == self.jobs[job].letter]
        return any(self.fit(self.needs(n, self.free)) for n in alike)

    def crowded(self, team: int, beside: Sequence[tuple[int, Need]] = ()) -> bool:
        """What is revoked now of those it shares nodes with may be bound before that is done, and
        does not fit beside what is reserved and these."""
        near = [
            n
            for n in self.revoke
            if self.jobs[n].team == team or self.share(team, self.jobs[n].team)
        ]
        revoked = [need for n in near for need in self.needs(n, self.free)]
        return bool(near) and not self.fit([*beside, *revoked])

    def scale_ups_held(self, hands: list[int]) -> None:
        for team in self.in_order():
            if self.misses(team) or not self.serves(team):
                continue
            for g, most in self.target(team).items():
                mine = self.members(team, g)
                places = most - len(self.among(mine, *UP))
                for n in self.among(mine, "held"):
                    if places > 0 and self.goes(team, n, hands):
                        needs = self.needs(n, self.free)
                        if self.fit(needs):
                            self.reserved = [*self.reserved, *needs]
                        self.admit.append(n)
                        hands.append(n)
                        places -= 1

    def goes(self, team: int, job: int, hands: list[int]) -> bool:
        needs = self.needs(job, self.free)
        if not self.fit(needs):
            return not self.shares(team) and not self.another_fits(team, job)
        if self.is_kept_off(team, job):
            return False
        spoils = self.can_invalidate(
            [need for n in [*hands, job] for need in self.needs(n, self.free)]
        )
        return not spoils and not self.crowded(team, beside=needs)

    # 3b.6: release

    def release(self, hands: list[int]) -> None:
        """Beside everything still with the scheduler, what is revoked now included: first the most
        restricted."""
        held = list[int]()
        for team, choice in self.granted:
            smaller = self.smaller([*self.fixed(team), *choice])
            ready = [] if self.crowded(team) else self.among(choice, "held")
            held += [n for n in ready if n not in smaller]
        first = not hands
        for n in sorted(held, key=lambda n: (self.breadth(n), n)):
            movers = [need for one in [*hands, n] for need in self.needs(one, self.free)]
            if first or not self.can_invalidate(movers):
                self.admit.append(n)
                hands.append(n)
            first = False

    def smaller(self, members: Sequence[int]) -> list[int]:
        """6b: those that what needs a rack for more pods goes before, until it is bound."""
        sizes = {n: self.jobs[n].pods if self.jobs[n].racks else 0 for n in members}
        unbound = [n for n in members if self.insts[n].bound < self.jobs[n].pods]
        largest = max([sizes[n] for n in unbound], default=0)
        return [n for n in self.among(members, "held") if sizes[n] < largest]

    def in_racks(self, team: int) -> bool:
        """8: such a service is not admitted while jobs of its minimum are missing."""
        return any(self.jobs[n].racks and self.insts[n].there for n in self.of.of(team))

    def breadth(self, job: int) -> int:
        """The nodes that take such a pod; of those that have to be in one rack, how often all find
        room."""
        one = self.jobs[job]
        if one.racks:
            return sum(len(rack & self.free) // one.pods for rack in one.racks)
        return len(one.nodes & self.free)

    def can_invalidate(self, movers: Needs) -> bool:
        """Whether the scheduler can put some of these so that what is reserved for the others fits
        no more."""
        room = self.free
        for _, need in self.reserved:
            sets = need.racks if isinstance(need, Gang) else (need[1],)
            room = room.union(*sets)
        return can_invalidate(room_of(dict.fromkeys(room, 1)), tuple(movers), tuple(self.reserved))


def _state(s: State, number: int) -> str:
    inst = s.insts[number]
    if not inst.there:
        return "absent"
    if not inst.count("u", "s", "r"):
        return "ending" if inst.count("t") else "held"
    if not inst.bound:
        return "hands"
    if inst.count("t", ".") or any(at >= 0 and s.nodes[at][0] in "XG" for _, at in inst.pods):
        return "broken"
    if inst.count("u"):
        return "part"
    return "starting" if inst.count("s") else "running"
