"""All services as they were decided last, for the arbitration over all of them. Book-keeping; it decides nothing.

(snapshot, plan) of the services in a pass -> all services -> arbitrate -> the plans, and whose turn has come
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from scaler.decide.arbiter import Arbitration, Tally, arbitrate
from scaler.decide.minimums.looks import Looks
from scaler.decide.nodes import PodRequest, Room
from scaler.decide.planner import plan as plan_alone
from scaler.decide.world import ArbiterMemory, Instance, Plan, Policy, Reason, ServiceKey, Snapshot, State
from scaler.observe.cache import Cache
from scaler.observe.foresight import admitted_by, as_known_now, foreseen


class Weighed(msgspec.Struct, frozen=True):
    """The outcome of one arbitration."""

    plans: Mapping[ServiceKey, Plan]
    turns: tuple[ServiceKey, ...]
    """Services of which something else is to be done now than was said last, although nothing happened to them."""
    news: tuple[ServiceKey, ...]
    """Services of which only the words are other ones now: that can wait."""
    recheck_at: float
    tally: Tally | None


class _UnderWay(msgspec.Struct):
    """Admissions that a service's snapshot does not show yet."""

    snapshot: Snapshot
    admitted: frozenset[str]
    known: tuple[Instance, ...] = ()
    """The service's instances when this was last looked at."""


class Scope:
    """`alone` says why each service decides alone now, "" while they are weighed against each other."""

    def __init__(self, cache: Cache, policy: Policy, *, alone: Callable[[], str]) -> None:
        self._cache = cache
        self._policy = policy
        self.why_alone = alone
        self._memory = ArbiterMemory()
        self._looks = Looks()
        self._decided: dict[ServiceKey, tuple[Snapshot, Plan]] = {}
        self._order: list[ServiceKey] = []
        """Its keys, sorted; empty when that is to be done again."""
        self._said: dict[ServiceKey, Plan] = {}
        self._needs: Counter[PodRequest] = Counter()
        self._surplus: set[ServiceKey] = set()
        """Services of which some group runs more than its target."""
        self._taken: set[ServiceKey] = set()
        self._waiting: set[ServiceKey] = set()
        """Services whose turn has come and that were not looked at since."""
        self._under_way: dict[ServiceKey, _UnderWay] = {}
        self.waits = False
        """Whether some service would do more if there were more room."""

    def take(self, snapshot: Snapshot, plan: Plan) -> None:
        """What the service would do alone; in place of what was known of it."""
        self._count(snapshot.key, -1)
        if snapshot.key not in self._decided:
            self._order = []
        self._decide(snapshot, plan)
        self._under_way.pop(snapshot.key, None)
        self._taken.add(snapshot.key)
        self._count(snapshot.key, 1)

    def leave(self, key: ServiceKey) -> None:
        """The service is gone."""
        self._count(key, -1)
        self._order = []
        self._waiting.discard(key)
        self._surplus.discard(key)
        self._decided.pop(key, None)
        self._under_way.pop(key, None)
        self._said.pop(key, None)

    def alone(self, key: ServiceKey) -> Plan | None:
        """What this service would do if it were alone, as decided last."""
        pair = self._decided.get(key)
        return pair[1] if pair is not None else None

    def weigh(self, now: float) -> Weighed:
        """Arbitrate over all services."""
        for key, under_way in self._under_way.items():
            self._foresee(key, under_way)
        order = self._order = self._order or sorted(self._decided)
        decided = [self._decided[key] for key in order]
        outcome = self._arbitrated(decided, now)
        plans = dict(zip(order, outcome.plans, strict=True))
        fresh, self._taken = self._taken, set()
        changed = [key for key, plan in plans.items() if key not in fresh and plan is not self._said.get(key)]
        turns = dict.fromkeys(key for key in changed if _does_other(plans[key], self._said.get(key)))
        news = tuple(key for key in changed if key not in turns and plans[key].verdicts != self._said[key].verdicts)
        self._said = plans
        for key in fresh:
            if admitted := admitted_by(plans[key]):
                self._under_way[key] = _UnderWay(self._decided[key][0], admitted)
        self._waiting = self._waiting.union(turns) - fresh
        self._memory = self._remembered(outcome.memory)
        alone = (plan for _, plan in decided)
        self.waits = any(given is not made for given, made in zip(outcome.plans, alone, strict=True))
        return Weighed(plans, tuple(turns), news, outcome.recheck_at, outcome.tally)

    def _foresee(self, key: ServiceKey, under_way: _UnderWay) -> None:
        """Weigh a service whose admissions are under way as one that has been given them."""
        known = as_known_now(self._cache, under_way.snapshot)
        if len(known) == len(under_way.known) and all(map(operator.is_, known, under_way.known)):
            return
        under_way.known = known
        self._count(key, -1)
        snapshot = foreseen(under_way.snapshot, known, under_way.admitted)
        made, _ = plan_alone(snapshot)
        self._decide(snapshot, made)
        self._count(key, 1)
        if under_way.admitted & admitted_by(self._said[key]):  # is done by now, and nothing else was said
            self._said[key] = made

    def _arbitrated(self, decided: list[tuple[Snapshot, Plan]], now: float) -> Arbitration:
        if self.why_alone():
            return arbitrate(decided, None, self._memory, now=now, policy=self._policy)
        capacity = self._cache.capacity.capacity(self._needs.keys())
        homes = self._homes()
        return arbitrate(decided, capacity, self._memory, now=now, policy=self._policy, homes=homes, looks=self._looks)

    def _remembered(self, made: ArbiterMemory) -> ArbiterMemory:
        """Of a service whose turn has come nothing is done before it is looked at, so nothing was decided: an eviction
        that is remembered and was not made would not be made again."""
        names = {str(key) for key in self._waiting}
        decided = {name: memory for name, memory in made.minimums.items() if name not in names}
        return ArbiterMemory(decided | {name: old for name, old in self._memory.minimums.items() if name in names})

    def _homes(self) -> dict[str, Room]:
        """The rooms of nodes on which services run more than their target."""
        found: dict[str, Room] = {}
        for key in self._surplus:
            for node in {node for instance in self._decided[key][0].instances for node, _ in instance.seats}:
                room = self._cache.capacity.home(node)
                if room is not None:
                    found[node] = room
        return found

    def _decide(self, snapshot: Snapshot, plan: Plan) -> None:
        self._decided[snapshot.key] = (snapshot, plan)
        if any(group.running > group.target for group in plan.groups.values()):
            self._surplus.add(snapshot.key)
        else:
            self._surplus.discard(snapshot.key)

    def _count(self, key: ServiceKey, sign: int) -> None:
        """Keep the set of different needs, of which the kinds of nodes depend."""
        pair = self._decided.get(key)
        if pair is None:
            return
        for need in {need for instance in pair[0].instances for need, _ in instance.needs}:
            self._needs[need] += sign
            if not self._needs[need]:
                del self._needs[need]


def _does_other(plan: Plan, said: Plan | None) -> bool:
    """Whether the cluster would notice, or people would see another reason."""
    return said is None or plan.actions != said.actions or _reasons(plan) != _reasons(said)


def _reasons(plan: Plan) -> list[tuple[str, State, Reason]]:
    return [(verdict.uid, verdict.state, verdict.reason) for verdict in plan.verdicts]
