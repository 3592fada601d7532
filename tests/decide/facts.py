"""What is so in a small world: what runs, what has a slot, what is missing, what may be spared, by
the contract.

Of what the controller remembers only four things are read: since when an instance is broken, since
when it is bound without running, whether its attempt is over, and whether it had one."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

from scaler.decide.memory import HadAttempt, InstanceMemory, Memory, ServiceMemory
from scaler.decide.world import Preempt
from tests.builders import GROUPS, NOW, rule
from tests.decide.contract import Counts, covers, limited, target_of
from tests.decide.packing import Gang, Need
from tests.decide.small_worlds import POLICY, Inst, Shape, State, free, key, uid


def is_up(inst: Inst) -> bool:
    """Some of it is released, or bound."""
    return inst.there and inst.count("u", "s", "r") > 0


def choices(pools: Iterable[tuple[Iterable[int], int]]) -> Iterator[tuple[int, ...]]:
    """Every choice of so many of each pool."""
    for choice in itertools.product(
        *(itertools.combinations(pool, number) for pool, number in pools)
    ):
        yield tuple(number for part in choice for number in part)


class Facts:
    """`memory` is what was remembered after looking at this state; by default what the state itself
    remembers."""

    def __init__(self, of: Shape, s: State, memory: Memory | None = None) -> None:
        self.of = of
        self.s = s
        self.jobs = of.jobs
        self.insts = s.insts
        self.nodes = s.nodes
        self.memory = s.memory if memory is None else memory
        self.teams = [team for team in range(len(of.teams)) if self._exists(team)]
        """Services that exist."""

    def _exists(self, team: int) -> bool:
        return any(self.insts[number].there for number in self.of.of(team))

    def room(self) -> Counter[int]:
        """Units that pods can be bound to, by node."""
        return free(self.of, self.s)

    def remembered_of(self, team: int) -> ServiceMemory:
        return self.memory.services.get(str(key(team)), ServiceMemory())

    def remembered(self, number: int) -> InstanceMemory:
        return self.remembered_of(self.jobs[number].team).instances.get(
            uid(number), InstanceMemory()
        )

    def runs(self, number: int) -> bool:
        """All of its pods run, on nodes that are ready."""
        return all(
            phase == "r" and self.nodes[place][0] not in "XG"
            for phase, place in self.insts[number].pods
        )

    def passes(self, number: int) -> bool:
        """Of what is outdated: it runs, or has a slot and does not start."""
        memory = self.remembered(number)
        since = memory.bound_since
        is_late = since > 0 and NOW - since >= POLICY.minimum_timeout
        return self.runs(number) or (self.has_slot(number) and (memory.broken_since > 0 or is_late))

    def has_slot(self, number: int) -> bool:
        """In flight or running."""
        since = self.remembered(number).broken_since
        return is_up(self.insts[number]) and not (since and NOW - since >= POLICY.broken_grace)

    def on_ready_nodes(self, number: int) -> bool:
        return all(
            self.nodes[place][0] != "X" for _, place in self.insts[number].pods if place >= 0
        )

    def members(self, team: int, group: str) -> list[int]:
        """Those that exist."""
        return [
            n
            for n in self.of.of(team)
            if self.insts[n].there and GROUPS[self.jobs[n].letter] == group
        ]

    def ratios(self, team: int) -> list[Counts]:
        """Of its rule, those that are not larger than the smallest with as many instances as are
        wanted."""
        ladder = rule(self.of.teams[team].ladder)
        every = []
        for ratio in ladder.ratios:
            every.append({group: ratio.of(group) for group in ladder.groups})
        return limited(every, self.s.replicas[team])

    def is_limited(self, team: int) -> bool:
        """As many are wanted as its rule names, or fewer."""
        return self.s.replicas[team] <= rule(self.of.teams[team].ladder).largest.total

    def smallest(self, team: int) -> Counts:
        return self.ratios(team)[-1]

    def serves(self, team: int) -> bool:
        return covers(self._running(team), self.smallest(team))

    def target(self, team: int) -> Counts:
        found = self.ratios(team)
        return found[target_of(found, self._running(team), self.live(team))[0]]

    def _running(self, team: int) -> Counts:
        return {
            group: sum(map(self.runs, self.members(team, group))) for group in self.smallest(team)
        }

    def live(self, team: int) -> Counts:
        """Instances of each group that are still there when its rollout is over."""
        found = {group: self.members(team, group) for group in self.smallest(team)}
        return {group: len(mine) - self._passing(mine) for group, mine in found.items()}

    def _passing(self, mine: list[int]) -> int:
        if not mine or not self.of.owner(mine[0]):
            return 0
        old = sum(self.jobs[n].outdated and self.runs(n) for n in mine)
        new = sum(not self.jobs[n].outdated for n in mine)
        return min(old, new, max(0, len(mine) - self.of.wanted(mine[0])))

    def shares(self, team: int) -> bool:
        """Whether another service that exists could use one of its nodes."""
        return any(self.share(team, other) for other in range(len(self.of.teams)) if other != team)

    def share(self, one: int, other: int) -> bool:
        """Whether there is a node that both could use, or both ask for nodes that are not there."""
        return bool(self._usable(one) & self._usable(other))

    def _usable(self, team: int) -> frozenset[int | str]:
        """Nodes; and of jobs that no node could run the classes that they ask for."""
        gone = {n for n, (state, _) in enumerate(self.nodes) if state in "GT"}
        found = set[int | str]()
        for n in self.of.of(team):
            if self.insts[n].there:
                found |= (self.jobs[n].nodes - gone) or {self.jobs[n].classes}
        return frozenset(found)

    def may_evict(self, beneficiary: int, victim: int) -> bool:
        """Whether a service may evict scale-ups of another one."""
        one = self.of.teams[beneficiary]
        other = self.of.teams[victim]
        if beneficiary == victim or other.protected or self.of.preempt is Preempt.NEVER:
            return False
        equals = self.of.preempt is Preempt.EQUAL_OR_HIGHER and other.priority == one.priority
        return equals or other.priority < one.priority

    def had_turn(self, number: int) -> bool:
        return self.remembered(number).had_attempt is not HadAttempt.NO

    def only_seems_to_fit(self, team: int) -> bool:
        """3.6: an attempt of the minimum on free room has ended, and nothing was bound there."""
        memory = self.remembered_of(team)
        return memory.failures > 0 and not memory.expected_in_vain

    def pauses(self, team: int, choice: Iterable[int]) -> bool:
        """3b.4e: nobody is evicted for this choice: something of it has had its attempt, or others
        were evicted for its service, and the pause after that is not over."""
        memory = self.remembered_of(team)
        number = memory.evictions.number
        counts = number and not self._room_was_taken(team)
        if not (counts or any(map(self.had_turn, choice))):
            return False
        since = memory.evictions.at if number else memory.tried_at or NOW
        ends = since + POLICY.eviction_pause * 2.0 ** max(0, number - 1)
        return bool(ends > NOW)

    def _room_was_taken(self, team: int) -> bool:
        """3b.4e: others took the room of the last eviction, which may be made once more at once:
        where the minimum fits, nobody is evicted anyway."""
        memory = self.remembered_of(team)
        ordered = {int(uid.removeprefix("job-")) for uid in memory.victims}
        name = str(key(team))
        left = {n for n in range(len(self.insts)) if self.remembered(n).preempted_for == name}
        has_gone = not any(self.insts[n].bound or self.insts[n].count("t") for n in ordered | left)
        was_late = memory.began and NOW - memory.began >= POLICY.minimum_timeout
        made = memory.room_taken or (memory.has_evicted and has_gone and not was_late)
        return made and memory.evictions.repeated < 6

    def minimums(self, team: int) -> Iterator[tuple[int, ...]]:
        """Every choice of instances that would make up the minimum, beside those bound whole and
        with a slot."""
        pools = []
        for group, least in self.smallest(team).items():
            mine = self.members(team, group)
            replaced = self._replaced(mine)
            kept = [n for n in mine if self._whole(n) and self.has_slot(n) and n not in replaced]
            able = [n for n in mine if n not in kept and self._may_be_chosen(n)]
            pools.append((able, max(0, least - len(kept))))
        return choices(pools)

    def _replaced(self, mine: list[int]) -> list[int]:
        """Outdated ones that do not start, one for each newest one that may be chosen."""
        newest = [n for n in mine if not self.jobs[n].outdated and self._may_be_chosen(n)]
        return [n for n in mine if self._is_stuck(n)][: len(newest)]

    def _is_stuck(self, number: int) -> bool:
        """Outdated, and does not start: it takes no place from the newest revision."""
        return self.jobs[number].outdated and not self.runs(number) and self.passes(number)

    def _whole(self, number: int) -> bool:
        return self.insts[number].bound == self.jobs[number].pods

    def _may_be_chosen(self, number: int) -> bool:
        """Held, with the scheduler, bound in part with a slot, or going away on nodes that are
        ready."""
        inst = self.insts[number]
        if inst.bound:
            return self.has_slot(number) and not self._whole(number)
        return all(phase != "t" or self.nodes[place][0] in "RCT" for phase, place in inst.pods)

    def pods_of(self, numbers: Iterable[int]) -> list[Need]:
        """What these still have to be bound for."""
        found = list[Need]()
        for number in numbers:
            found += self.lacking(number)
        return found

    def lacking(self, number: int, room: frozenset[int] | None = None) -> list[Need]:
        """The pods of an instance that are not bound, on these nodes only: what is bound says in
        which rack."""
        job = self.jobs[number]
        missing = job.pods - self.insts[number].bound
        nodes = job.nodes if room is None else job.nodes & room
        if not job.racks or not missing:
            return [(job.units, nodes)] * missing
        bound = {place for phase, place in self.insts[number].pods if phase in "sr"}
        racks = tuple([rack & nodes for rack in job.racks if bound <= rack])
        return [Gang(job.units, racks, missing)]

    def to_come(self) -> Counter[int]:
        """Room of pods that are going away, for as long as it counts."""
        return self._held(
            [n for n, inst in enumerate(self.insts) if inst.ending < POLICY.due_back], "t"
        )

    def freed(self, numbers: Iterable[int]) -> Counter[int]:
        """Room that these instances leave behind."""
        return self._held(numbers, "sr")

    def _held(self, numbers: Iterable[int], phases: str) -> Counter[int]:
        """Units that pods in such a phase hold on schedulable nodes."""
        room = Counter[int]()
        for number in numbers:
            for phase, place in self.insts[number].pods:
                if phase in phases and self.nodes[place][0] == "R":
                    room[place] += self.jobs[number].units
        return room

    def beyond(self, team: int, group: str) -> tuple[list[int], int]:
        """What is bound of a group, and the most of it that is wanted: a pair of revisions counts
        once."""
        bound = [n for n in self.members(team, group) if self.insts[n].bound]
        outdated = sum(self.jobs[n].outdated for n in bound)
        pairs = min(outdated, len(bound) - outdated)
        return bound, self.ratios(team)[0][group] + pairs

    def spared(self, team: int) -> Iterator[list[int]]:
        """Every largest set of bound instances of a service that it can lose so that no group that
        has its minimum loses it, nor comes nearer to losing it."""
        choices = []
        for group, least in self.smallest(team).items():
            bound = [
                n
                for n in self.members(team, group)
                if self.insts[n].bound and self.on_ready_nodes(n)
            ]
            sets = [
                set(c)
                for size in range(len(bound), -1, -1)
                for c in itertools.combinations(bound, size)
            ]
            fine = [lost for lost in sets if self.keeps_minimum(bound, lost, least)]
            most = []
            for lost in fine:
                if not any(lost < other for other in fine):
                    most.append(sorted(lost))
            choices.append(most)
        for choice in itertools.product(*choices):
            yield [number for part in choice for number in part]

    def keeps_minimum(self, bound: list[int], lost: set[int], least: int) -> bool:
        def count(numbers: list[int]) -> tuple[int, int]:
            slots = sum(self.has_slot(n) and not self._is_stuck(n) for n in numbers)
            return min(sum(map(self.runs, numbers)), least), min(slots, least)

        left = [n for n in bound if n not in lost]
        return count(left) == count(bound)
