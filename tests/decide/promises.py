"""Section 6 of the contract for a small world, written anew without code of
`scaler.decide.invariants`: what must hold of a decision (`broken`), and where the world comes to
rest, or to attempts without an end (`wrong`).

Left to `violations` alone, which is asked beside this: drains (3c), several actions for one
instance, and revocations of what is bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from scaler.decide.decision import NOBODY, Admit, Complete, Decision, Evict, Revoke
from scaler.rules.rule import Trade
from tests.builders import GROUPS, NOW
from tests.decide.facts import Facts, is_up
from tests.decide.packing import Need, can_invalidate, packs, room_of
from tests.decide.small_worlds import POLICY, Shape, Spot, State, key


def broken(of: Shape, s: State, made: Decision) -> list[str]:
    """Every promise that this decision breaks."""
    return _Judge(of, s, made).broken()


class _Judge(Facts):
    def __init__(self, of: Shape, s: State, made: Decision) -> None:
        super().__init__(of, s, made.memory)
        self.before = Facts(of, s)
        self.done: dict[type, list[int]] = {Admit: [], Complete: [], Revoke: [], Evict: []}
        self.for_whom: dict[int, int] = {}
        """Victims, and the services that they are evicted for."""
        self.drained: list[int] = []
        names = {str(key(team)): team for team in range(len(of.teams))}
        for action in (action for plan in made.plans for action in plan.actions):
            number = int(action.uid.removeprefix("job-"))
            self.done[type(action)].append(number)
            if isinstance(action, Evict) and action.beneficiary == NOBODY:
                self.drained.append(number)
            elif isinstance(action, Evict):
                self.for_whom[number] = names[action.beneficiary]

    def broken(self) -> list[str]:
        parts = (
            self._slots,
            self._whole_actions,
            self._victims,
            self._beneficiaries,
            self._reserved_whole,
            self._spoilt,
            self._in_the_way,
            self._passed_over,
        )
        return [what for part in parts for what in part()]

    def _slots(self) -> Iterator[str]:
        admitted = Counter(
            (self.jobs[number].team, GROUPS[self.jobs[number].letter])
            for number in self.done[Admit]
        )
        for (team, group), number in admitted.items():
            mine = self.members(team, group)
            slots = sum(self.has_slot(one) for one in mine)
            old = sum(self.jobs[one].outdated and self.passes(one) for one in mine)
            new = sum(
                not self.jobs[one].outdated and (one in self.done[Admit] or self.has_slot(one))
                for one in mine
            )
            before = sum(not self.jobs[one].outdated and self.has_slot(one) for one in mine)
            most = max(self.target(team)[group], slots - min(old, before))
            if slots + number - min(old, new) > most:
                yield (
                    f"S1: s{team} has {slots} of {group} up and gets {number} more, above its"
                    " target"
                )

    def _whole_actions(self) -> Iterator[str]:
        for number in self.done[Admit]:
            if (
                is_up(self.insts[number])
                or self.insts[number].count("t")
                or not self.insts[number].there
            ):
                yield "S2: what is not held is admitted"
        for number in self.done[Revoke]:
            if not self.insts[number].count("u"):
                yield "S2: what is not released is revoked"

    def _victims(self) -> Iterator[str]:
        for number, beneficiary in self.for_whom.items():
            team = self.jobs[number].team
            group = GROUPS[self.jobs[number].letter]
            own = team == beneficiary and self.of.teams[team].trade is not Trade.OFF
            if not own and not self.may_evict(beneficiary, team):
                yield f"S3: s{team} is evicted for s{beneficiary}, which may not do that"
            least = self.smallest(team).get(group, 0)
            bound = [one for one in self.members(team, group) if self.insts[one].bound]
            lost = {one for one in self.for_whom if one in bound}
            if number == min(lost) and not self.keeps_minimum(bound, lost, least):
                yield f"S3: {group} of s{team} loses its minimum"
            if not self.on_ready_nodes(number):
                yield "S3: a victim on a node that is not ready"

    def _beneficiaries(self) -> Iterator[str]:
        for team in set(self.for_whom.values()):
            victims = [
                number for number, beneficiary in self.for_whom.items() if beneficiary == team
            ]
            if self.serves(team):
                if self.of.teams[team].trade is not Trade.ALWAYS or any(
                    self.jobs[v].team != team for v in victims
                ):
                    yield f"S11: evicted for s{team}, which serves"
                continue
            ordered = {
                int(uid.removeprefix("job-")) for uid in self.before.remembered_of(team).victims
            }
            room = self.room() + self.to_come() + self.freed([*victims, *self.drained])
            fitting = [
                choice for choice in self.minimums(team) if packs(room, self.pods_of(choice))
            ]
            if not fitting:
                yield f"S11: what is evicted for s{team} does not place its minimum"
            elif (
                not ordered.issuperset(victims)
                and not self._is_own_surplus_once(team, victims)
                and all(self.before.pauses(team, choice) for choice in fitting)
            ):
                yield f"S11: evicted for s{team}, for which nobody may be evicted now"
            if not self.drained and self._awaits_return(team, len(self.for_whom) == len(victims)):
                yield f"3b.4f: evicted for s{team}, which would fit if a node came back"
            if len(self.for_whom) > len(victims) or not all(
                map(self.serves, {*self.teams} - {team})
            ):
                continue  # room may be reserved for the minimum of another service
            of_others = [v for v in victims if self.jobs[v].team != team]
            running = [
                v for v in victims if self.runs(v) and not self.before.only_seems_to_fit(team)
            ]
            for victim in {*of_others, *running}:
                spared = [v for v in (*victims, *self.drained) if v != victim]
                less = self.room() + self.to_come() + self.freed(spared)
                fine = [choice for choice in fitting if not self.before.pauses(team, choice)]
                if any(packs(less, self.pods_of(choice)) for choice in fine):
                    yield f"3b.4: a victim of s{team} could have been spared"

    def _is_own_surplus_once(self, team: int, victims: list[int]) -> bool:
        """3.6: own surplus that does not run gives way in a pause as well, once."""
        if self.before.remembered_of(team).gave_way_once:
            return False
        return all(self.jobs[v].team == team and not self.runs(v) for v in victims)

    def _awaits_return(self, team: int, alone: bool) -> bool:
        """3b.4f: without any eviction the minimum would fit if nodes that are away for less than
        flap_patience were there. Not asked where room may be reserved for others."""
        others = {*self.teams} - {team}
        if not alone or not all(map(self.serves, others)):
            return False
        now = self.room() + self.to_come()
        back = Counter[int]()
        for number, (state, age) in enumerate(self.nodes):
            used = any(place == number for inst in self.insts for _, place in inst.pods)
            if state in "XC" and age < POLICY.flap_patience and not used:
                back[number] = self.of.nodes[number][1]
        choices = [self.pods_of(choice) for choice in self.minimums(team)]
        fits_now = any(packs(now, pods) for pods in choices)
        return not fits_now and any(packs(now + back, pods) for pods in choices)

    def _reserved_whole(self) -> Iterator[str]:
        """S10: all minimums of which something is admitted now fit together, whole, on room that is
        free."""
        begun = self._begin()
        choices = []
        for team in begun:
            new = {number for number in self.done[Admit] if self.jobs[number].team == team}
            choices.append([c for c in self.minimums(team) if new <= set(c)])
        if begun and not self._together(choices, []):
            yield f"S10: of {', '.join(f's{team}' for team in begun)} not all are reserved whole"

    def _begin(self) -> list[int]:
        """Services of whose minimum something is admitted now, on a reservation."""
        teams = sorted({self.jobs[number].team for number in self.done[Admit]})
        return [
            team
            for team in teams
            if not self.serves(team) and self.shares(team) and not self._probes(team)
        ]

    def _probes(self, team: int) -> bool:
        """3b.9: its minimum is tried though it fits nowhere."""
        return self.remembered_of(team).probe_began > 0

    def _together(self, choices: list[list[tuple[int, ...]]], pods: list[Need]) -> bool:
        if not packs(self.room(), pods):
            return False
        if not choices:
            return True
        return any(
            self._together(choices[1:], pods + self.pods_of(choice)) for choice in choices[0]
        )

    def _spoilt(self) -> Iterator[str]:
        """S9: wherever scale-ups that are admitted land, the minimums in the scheduler's hands
        still fit."""
        new = [number for number in self.done[Admit] if self.serves(self.jobs[number].team)]
        if not new:
            return
        reserved: list[int] = []
        for team in range(len(self.of.teams)):
            stay = [n for n in self.of.of(team) if n not in self.done[Revoke]]
            mine = {n for n in stay if n in self.done[Admit] or self.insts[n].count("u")}
            whole = [c for c in self.minimums(team) if mine.issuperset(c)]
            # 3b.5: when its attempt has ended what is bound in part stays with the scheduler, on no
            # reservation.
            in_backoff = self.remembered_of(team).backoff_until > NOW
            if whole and not self.serves(team) and self.shares(team) and not in_backoff:
                reserved += whole[0]
        movers = [number for number in new if self.shares(self.jobs[number].team)]
        moving = self._owned(movers)
        kept = self._owned(reserved)
        room = room_of(self.room())
        if packs(room, [pod for _, pod in kept]) and can_invalidate(room, moving, kept):
            yield "S9: a scale-up that is admitted can invalidate what is reserved"

    def _owned(self, numbers: list[int]) -> tuple[tuple[int, Need], ...]:
        """The pods of these instances, each with its instance."""
        return tuple((n, pod) for n in numbers for pod in self.pods_of((n,)))

    def _in_the_way(self) -> Iterator[str]:
        """3b.6: what a minimum is admitted on is free beside everything that is still in the
        scheduler's hands, without what is probed: that has no reservation."""
        begun = self._begin()
        new = [n for n in self.done[Admit] if self.jobs[n].team in begun]
        hands = [
            n
            for n, inst in enumerate(self.insts)
            if inst.there and inst.count("u") and n not in new
        ]
        hands = [
            n
            for n in hands
            if not (self.remembered(n).gives_way or self._probes(self.jobs[n].team))
        ]
        # What is bound in part in a full rack is bound nowhere.
        hands = [n for n in hands if not self.jobs[n].racks or self._fits_alone(n)]
        if self.of.budget or not new or not hands:
            return
        pods = [pod for n in [*hands, *new] for pod in self.pods_of((n,))]
        if not packs(self.room(), pods):
            yield (
                "3b.6: a minimum is admitted though it does not fit beside what is in the"
                " scheduler's hands"
            )

    def _fits_alone(self, number: int) -> bool:
        return packs(self.room(), self.pods_of((number,)))

    def _passed_over(self) -> Iterator[str]:
        """L5, 3b.2a, 7a: no minimum that had an attempt is admitted in the place of a minimum or a
        scale-up that has waited for `backoff_max`. Where a third service takes room, who is in
        whose way is not told."""
        for team in self._have_waited():
            fitting = [c for c in self._waits(team) if packs(self.room(), self.pods_of(c))]
            for other in self._begin():
                rest = {*self.teams} - {team, other}
                if other == team or not self.share(team, other) or not all(map(self._rests, rest)):
                    continue
                new = [n for n in self.done[Admit] if self.jobs[n].team == other]
                beside = [c for c in fitting if packs(self.room(), self.pods_of((*c, *new)))]
                if fitting and not beside and self._may_be_passed(other, by=team):
                    yield (
                        f"L5: s{team} has waited for {POLICY.backoff_max} s, and s{other}, which"
                        " had an attempt, is admitted in its place"
                    )

    def _have_waited(self) -> list[int]:
        """Services that had waited for `backoff_max` and still wait."""
        waited = [team for team in self.teams if self._has_waited(team)]
        return [team for team in waited if self.remembered_of(team).waiting_since]

    def _waits(self, team: int) -> list[tuple[int, ...]]:
        """What could start of a service that waits: its minimum, or one of its scale-ups."""
        if not self.serves(team):
            return list(self.minimums(team))
        found = list[tuple[int, ...]]()
        for group, number in self.target(team).items():
            mine = self.members(team, group)
            if sum(map(self.has_slot, mine)) < number:
                found += [(one,) for one in mine if self._could_start(one)]
        return found

    def _could_start(self, number: int) -> bool:
        """It is held, its owner has made it, and it is not in backoff."""
        inst = self.insts[number]
        is_held = not inst.count("u", "s", "r", "t")
        is_made = not self.of.gates or inst.count("g") > 0
        return is_held and is_made and self.before.remembered(number).backoff_until <= NOW

    def _has_waited(self, team: int) -> bool:
        since = self.before.remembered_of(team).waiting_since
        return since > 0 and NOW - since >= POLICY.backoff_max

    def _was_tried(self, team: int) -> bool:
        """It had an attempt since it last made progress."""
        ended = self.before.remembered_of(team).ended_at > 0
        return ended or any(map(self.before.had_turn, self.of.of(team)))

    def _may_be_passed(self, team: int, by: int) -> bool:
        """It had an attempt, nobody was evicted for it, and it does not go first or wait again as
        the other one does."""
        memory = self.before.remembered_of(team)
        both_again = self._has_waited(team) and (self.serves(by) or self._was_tried(by))
        first = memory.goes_first or memory.has_evicted or both_again
        return self._was_tried(team) and not first

    def _rests(self, team: int) -> bool:
        """Nothing of it is with the scheduler or admitted now."""
        mine = self.of.of(team)
        return not any(self.insts[n].count("u") or n in self.done[Admit] for n in mine)


def wrong(of: Shape, states: list[State], decide: Callable[[State], Decision]) -> set[str]:
    """States that lead only to each other. What waits in all of them though it could go."""
    if len({_bound_pods(s) for s in states}) > 1:
        return {"L4: what is bound changes for ever"}
    s = states[0]
    if s.out:
        return set()
    at = Facts(of, s, decide(s).memory)
    found: set[str] = set()
    for team in at.teams:
        if at.is_limited(team) and not of.budget:
            found |= {
                f"3c: s{team} keeps more of {group} than are wanted"
                for group in at.ratios(team)[0]
                for bound, most in [at.beyond(team, group)]
                if len(bound) > most
            }
        found |= _scale_ups(at, team) if at.serves(team) else _minimum(at, team, states)
        if not at.serves(team) and _own_surplus_blocks(at, team):
            found.add(f"3.6: surplus of s{team} that does not run blocks its own service")
    return found


def _bound_pods(s: State) -> tuple[tuple[Spot, ...], ...]:
    """What of each instance is on nodes."""
    bound = []
    for inst in s.insts:
        bound.append(tuple(pod for pod in inst.pods if pod[0] in "srt"))
    return tuple(bound)


def _is_healthy(at: Facts, number: int) -> bool:
    """It exists, is not bound, and nothing ever went wrong with it."""
    inst = at.insts[number]
    return inst.there and not at.jobs[number].curse and not inst.count("s", "r", "t")


def _scale_ups(at: Facts, team: int) -> set[str]:
    """L1, L5: an instance that the target has a place for, that fits, and that would be bound."""
    for group, number in at.target(team).items():
        mine = at.members(team, group)
        bound = [one for one in mine if at.insts[one].bound and (at.runs(one) or at.has_slot(one))]
        fits = [
            one for one in mine if _is_healthy(at, one) and packs(at.room(), at.pods_of((one,)))
        ]
        if len(bound) < number and fits:
            return {f"L1, L5: a scale-up of s{team} fits and waits for ever"}
        newest_fits = any(not at.jobs[one].outdated for one in fits)
        if newest_fits and any(at.jobs[one].outdated and at.runs(one) for one in mine):
            return {f"3.8: a rollout of s{team} waits for ever"}
    return set()


def _minimum(at: Facts, team: int, states: list[State]) -> set[str]:
    def is_possible(choice: tuple[int, ...]) -> bool:
        """There is something in it, and all of it is bound, or will be."""
        uncursed = all(not at.jobs[n].curse for n in choice)
        return (
            bool(choice)
            and uncursed
            and all(at.insts[n].bound or _is_healthy(at, n) for n in choice)
        )

    choices = [choice for choice in at.minimums(team) if is_possible(choice)]
    if any(packs(at.room(), at.pods_of(choice)) for choice in choices):
        return {f"L1, L5: the minimum of s{team} fits and waits for ever"}
    before = [Facts(at.of, s) for s in states]
    fresh = []
    for choice in choices:
        if not any(then.pauses(team, choice) for then in before):
            fresh.append(choice)
    rooms = []
    if at.of.teams[team].trade is not Trade.OFF:
        rooms = [("own surplus would do", at.freed(lost)) for lost in at.spared(team)]
    for other in range(len(at.of.teams)):
        if at.may_evict(team, other):
            rooms = [
                (f"{what}, or evicting", room + at.freed(lost))
                for what, room in rooms or [("", Counter[int]())]
                for lost in at.spared(other)
            ]
    for what, room in rooms:
        if any(packs(at.room() + room, at.pods_of(choice)) for choice in fresh):
            return {f"L1: the minimum of s{team} waits for ever though {what}"}
    return set()


def _own_surplus_blocks(at: Facts, team: int) -> bool:
    """3.6: the scheduler would bind the minimum, if surplus of the service that does not run gave
    way."""
    if at.of.teams[team].trade is Trade.OFF or at.remembered_of(team).gave_way_once:
        return False
    idle = [n for n in at.of.of(team) if at.insts[n].bound and not at.runs(n)]
    for lost in at.spared(team):
        room = at.room() + at.freed(set(lost) & set(idle))
        for choice in at.minimums(team):
            is_possible = all(at.jobs[n].curse in ("", "narrow") for n in choice)
            if choice and is_possible and packs(room, _bindable(at, choice)):
                return True
    return False


def _bindable(at: Facts, choice: tuple[int, ...]) -> list[Need]:
    """What of these has to be bound, on the nodes to which the scheduler would bind it."""
    pods = list[Need]()
    for n in choice:
        job = at.jobs[n]
        able = frozenset(place for place in job.nodes if job.takes(at.of.nodes[place][0]))
        pods += at.lacking(n, able)
    return pods
