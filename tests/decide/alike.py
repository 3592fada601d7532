"""One state of a small world for all that are alike.

Nodes of one class and size are interchangeable: one order of them stands for all. Times are ages,
and all time limits are multiples of `QUANTUM`. What matters of an age is how many quanta it is;
ages beyond the longest limit that they are compared with are all alike. Binds and returns of nodes
come "after" or "before" the clocks that are compared with them: only there an age lies a little
beside the limits, and the little is renumbered 1, 2, 3 each time. Everything else happens as if it
took no time. What nothing hangs on any more is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeVar

import msgspec

from scaler.decide.memory import (
    Evictions,
    HadAttempt,
    InstanceMemory,
    Memory,
    ServiceMemory,
)
from tests.builders import NOW
from tests.decide.small_worlds import JUST_NOW, LONG_AGO, POLICY, Inst, Shape, State

QUANTUM = 30
CAPS: dict[type, dict[str, int]] = {
    InstanceMemory: {
        "broken_since": 30,
        "bound_since": 120,
        "restarted_at": 30,
        "refused_until": 0,
        "unmade_until": 0,
        "began": 150,
        "backoff_until": 0,
    },
    ServiceMemory: {
        "began": 150,
        "ended_at": LONG_AGO,
        "expects_since": 120,
        "expects_until": 0,
        "lacks_jobs_since": 30,
        "expects_lost_at": 120,
        "waiting_since": 120,
        "gone_since": 300,
        "backoff_until": 0,
        "trade_since": 60,
        "tried_at": 150,
        "serves_since": 30,
        "fits_nowhere_since": 3600,
        "probe_began": 30,
    },
    Evictions: {"at": 150},
    Memory: {"last_bind": LONG_AGO},
}
"""Every time that is remembered, and the age beyond which it is the same."""

for _type, _caps in CAPS.items():
    _floats = {
        field.name
        for field in msgspec.structs.fields(_type)
        if field.type is float or field.type == "float"
    }
    _floats -= {"spent", "waited"}  # how long, and not since when
    assert _floats == set(_caps), (
        f"the ages of {_type.__name__} are not those of the contract's code: {_floats}"
    )

MOST_FAILURES = 3
"""From then on the pause is the longest."""
MOST_EVICTIONS = 2
"""The pause after so many is taken never to end: there are states without end otherwise."""

_Timed = TypeVar("_Timed", bound=msgspec.Struct)
Change = Callable[[str, float], float]
"""An age by the name of what it is the age of -> the age that it becomes."""


def aged(s: State, by: int) -> State:
    """The state so many seconds later, everything else unchanged."""
    return _with_ages(s, lambda _, age: age + by)


def representative(of: Shape, s: State) -> State:
    """The one state that stands for all that are alike."""
    s = _in_order(of, s._replace(insts=tuple(_remembered(of, inst) for inst in s.insts)))
    s = _binds(s._replace(memory=_forgotten(s.memory)))
    sharp = {"began", "last_bind"}
    # Returns of nodes matter where a pause may have begun before.
    back = "back" in s.events or any(state == "R" and age < LONG_AGO for state, age in s.nodes)
    if back and any(one.backoff_until for one in _clocks(s.memory)):
        sharp |= {"node", "backoff_until"}
    else:
        s = s._replace(
            nodes=tuple((state, _age_that_matters(state, age)) for state, age in s.nodes)
        )
    small = set[float]()

    def look(name: str, age: float) -> float:
        small.update([_small(age)] if name in sharp else [])
        return age

    s = _with_ages(s, look)
    before = sorted((age for age in small if age < 0), reverse=True)
    after = sorted(age for age in small if age > 0)
    new = (
        {0: 0}
        | {age: -number for number, age in enumerate(before, 1)}
        | {age: n for n, age in enumerate(after, 1)}
    )
    return _with_ages(
        s, lambda name, age: age - _small(age) + (new[_small(age)] if name in sharp else 0)
    )


def _age_that_matters(state: str, age: int) -> int:
    """Of a node, where no pause may have begun before it returned."""
    return LONG_AGO if state == "R" and age >= POLICY.gather else age


def _small(age: float) -> float:
    return (age + QUANTUM // 2) % QUANTUM - QUANTUM // 2


def _clocks(memory: Memory) -> Iterator[ServiceMemory | InstanceMemory]:
    for one in memory.services.values():
        yield one
        yield from one.instances.values()


def _forgotten(memory: Memory) -> Memory:
    """Words, and of when attempts ended all but the order."""
    ended = sorted({one.ended_at for one in memory.services.values() if one.ended_at}, reverse=True)
    order = {time: NOW - QUANTUM * place for place, time in enumerate(ended, 1)}
    services = {}
    long = CAPS[ServiceMemory]["fits_nowhere_since"]
    for name, one in sorted(memory.services.items()):
        instances = {
            uid: msgspec.structs.replace(each, revoked="", preempted_for="", **_failures(each))
            for uid, each in sorted(one.instances.items())
        }
        services[name] = msgspec.structs.replace(
            one,
            instances=instances,
            ended_at=order.get(one.ended_at, 0.0),
            fits_nowhere_since=NOW - (long if long <= NOW - one.fits_nowhere_since else 0)
            if one.fits_nowhere_since
            else 0.0,
            evictions=_last_eviction(one.evictions),
            spent=QUANTUM if one.spent > QUANTUM // 2 else 0.0,
            waited=min(one.waited // QUANTUM * QUANTUM, CAPS[ServiceMemory]["waiting_since"]),
            **_failures(one),
        )
    return msgspec.structs.replace(memory, services=services)


def _last_eviction(evictions: Evictions) -> Evictions:
    """The pause after `MOST_EVICTIONS` is at its begin for ever."""
    if evictions.number < MOST_EVICTIONS:
        return evictions
    return Evictions(MOST_EVICTIONS, NOW, evictions.repeated)


def _failures(one: ServiceMemory | InstanceMemory) -> dict[str, int]:
    """How long the pause is, and whether any attempt has ended since the last bind."""
    counted = min(one.failures_before_bind, MOST_FAILURES)
    ended = (
        max(counted + 1, min(one.failures, MOST_FAILURES))
        if one.failures > one.failures_before_bind
        else counted
    )
    return {"failures": ended, "failures_before_bind": counted}


def _binds(s: State) -> State:
    """A bind matters by whether it is new, and by the clocks of attempts that began before it."""
    known = NOW - s.memory.last_bind if s.memory.last_bind else LONG_AGO
    fresh = s.last_bind < known
    clocks = [NOW - one.began for one in _clocks(s.memory) if one.began]
    ended = any(one.failures > one.failures_before_bind for one in _clocks(s.memory))
    waited = any(
        getattr(one, "had_attempt", HadAttempt.NO) is HadAttempt.SINCE_LAST_BIND
        for one in _clocks(s.memory)
    )
    if not clocks and not (fresh and (ended or waited)):
        return s._replace(
            last_bind=LONG_AGO, memory=msgspec.structs.replace(s.memory, last_bind=0.0)
        )
    if s.last_bind == JUST_NOW:
        return _binds(aged(s, 1))
    seen = _rank(s.last_bind, clocks)
    remembered = _rank(known, clocks)
    if fresh and seen == remembered:
        return s
    last = NOW - remembered if remembered < LONG_AGO else 0.0
    return s._replace(last_bind=seen, memory=msgspec.structs.replace(s.memory, last_bind=last))


def _rank(age: float, clocks: list[float]) -> int:
    """The greatest age of a bind that came after the same clocks began."""
    return int(min((clock for clock in clocks if clock > age), default=LONG_AGO + 1)) - 1


def _with_ages(s: State, change: Change) -> State:
    """The state with other ages: `change` gets the name of each, "" of what is never compared with
    a bind."""

    def changed(name: str, age: float, cap: int) -> int:
        return cap if age >= cap else min(int(change(name, age)), cap)

    def remembered(one: _Timed) -> _Timed:
        times = {}
        for name, cap in CAPS[type(one)].items():
            if value := getattr(one, name):
                age = changed(name, NOW - value, cap)
                times[name] = NOW - (1 if cap == age == 0 else age)
        return msgspec.structs.replace(one, **times) if times else one

    services = {}
    for name, one in s.memory.services.items():
        instances = {uid: remembered(each) for uid, each in one.instances.items()}
        services[name] = msgspec.structs.replace(
            remembered(one), instances=instances, evictions=remembered(one.evictions)
        )
    return s._replace(
        nodes=tuple(
            (state, changed("node", age, LONG_AGO) if state == "R" else changed("", age, 90))
            for state, age in s.nodes
        ),
        insts=tuple(
            inst._replace(ending=changed("", inst.ending, 90), newest=changed("", inst.newest, 30))
            for inst in s.insts
        ),
        memory=msgspec.structs.replace(remembered(s.memory), services=services),
        last_bind=changed("last_bind", s.last_bind, LONG_AGO),
    )


def _in_order(of: Shape, s: State) -> State:
    """Nodes of one class, size and rack by what is on them."""
    on: list[list[tuple[int, str]]] = [[] for _ in of.nodes]
    for number, inst in enumerate(s.insts):
        for phase, place in inst.pods:
            if place >= 0:
                on[place].append((number, phase))
    order = list(range(len(of.nodes)))
    for alike in _alike(of):
        ranked = sorted(alike, key=lambda n: (not on[n], sorted(on[n]), s.nodes[n]))
        for place, old in zip(alike, ranked, strict=True):
            order[old] = place
    if order == list(range(len(order))):
        return s
    nodes = [state for _, state in sorted(zip(order, s.nodes, strict=True))]
    insts = []
    for inst in s.insts:
        insts.append(inst.having((phase, order[at] if at >= 0 else at) for phase, at in inst.pods))
    return s._replace(nodes=tuple(nodes), insts=tuple(insts))


@lru_cache(maxsize=1 << 10)
def _alike(of: Shape) -> tuple[tuple[int, ...], ...]:
    kinds: dict[tuple[tuple[str, int], int], list[int]] = {}
    for number, kind in enumerate(of.nodes):
        rack = number // of.racks if of.racks else 0
        kinds.setdefault((kind, rack), []).append(number)
    return tuple(tuple(numbers) for numbers in kinds.values() if len(numbers) > 1)


def _remembered(of: Shape, inst: Inst) -> Inst:
    """All that still matters of an instance."""
    ending = inst.ending if inst.count("t") else 0
    matters = of.gates and inst.bound and inst.count(".", "t")
    newest = inst.newest if matters else 0
    return inst._replace(ending=ending, newest=newest, spent=min(inst.spent, of.budget))
