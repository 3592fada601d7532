"""Times of a small world as ages, so that states that differ only in when they were reached are one state.

All time limits are multiples of `QUANTUM`. What matters of an age is how many quanta it is; ages beyond the longest
limit that they are compared with are all alike. Binds and returns of nodes come "after" or "before" the clocks that are
compared with them: only there an age lies a little beside the limits, and the little is renumbered 1, 2, 3 each time.
Everything else happens as if it took no time. What nothing hangs on any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from scaler.decide.memory import InstanceMemory, Memory, ServiceMemory, Turns
from tests.builders import NOW

if TYPE_CHECKING:
    from tests.decide.small_worlds import State

QUANTUM = 30
LONG_AGO = 300
"""Of a node or a bind: longer ago than anything that is compared with it."""
JUST_NOW = -1
"""Of a bind: after everything that is there, before anything that comes."""

CAPS: dict[type, dict[str, int]] = {
    InstanceMemory: {
        "broken_since": 30,
        "bound_since": 120,
        "restarted_at": 30,
        "refused_until": 0,
        "turn_since": 150,
        "backoff_until": 0,
    },
    ServiceMemory: {
        "turn_since": 150,
        "ended_at": LONG_AGO,
        "backoff_until": 0,
        "short_since": 60,
        "held_since": 3600,
        "probe_since": 30,
    },
    Memory: {"last_bind": LONG_AGO},
}
"""Every time that is remembered, and the age beyond which it is the same."""

for _type, _caps in CAPS.items():
    _floats = {field.name for field in msgspec.structs.fields(_type) if field.type is float or field.type == "float"}
    assert _floats == set(_caps), f"the ages of {_type.__name__} are not those of the contract's code: {_floats}"

MOST_FAILURES = 3
"""From then on the pause is the longest."""

_Timed = TypeVar("_Timed", bound=msgspec.Struct)
Change = Callable[[str, float], float]
"""An age by the name of what it is the age of -> the age that it becomes."""


def aged(s: State, by: int) -> State:
    """The state so many seconds later, everything else unchanged."""
    memory = _memory(s.memory, lambda _, age: age + by)
    nodes = tuple((state, _node_age(state, age + by if age < LONG_AGO else age)) for state, age in s.nodes)
    insts = tuple(
        inst._replace(ending=min(inst.ending + by, 90), newest=min(inst.newest + by, 30))
        if inst.ending or inst.newest or any(pod[0] in "tugsr" for pod in inst.pods)
        else inst
        for inst in s.insts
    )
    bound = s.last_bind if s.last_bind >= LONG_AGO else min(s.last_bind + by, LONG_AGO)
    return s._replace(memory=memory, nodes=nodes, insts=insts, last_bind=bound)


def _node_age(state: str, age: int) -> int:
    return min(age, LONG_AGO if state == "R" else 90)


def regular(s: State, bound: Mapping[str, int]) -> State:
    """The state that stands for all that are alike, as far as times and memory go. `bound`: bound pods by service."""
    s = s._replace(memory=_forgotten(s.memory, bound))
    s = _binds(s)
    sharp = {"turn_since", "last_bind", *_returns(s)}
    if "node" not in sharp:
        s = s._replace(nodes=tuple((state, LONG_AGO if state == "R" else age) for state, age in s.nodes))
    small = {_small(age) for name, age in _ages(s) if name in sharp}
    before = sorted((age for age in small if age < 0), reverse=True)
    after = sorted(age for age in small if age > 0)
    new = {0: 0} | {age: -number for number, age in enumerate(before, 1)} | {age: n for n, age in enumerate(after, 1)}

    def change(name: str, age: float) -> float:
        return age - _small(age) + (new[_small(age)] if name in sharp else 0)

    return s._replace(
        memory=_memory(s.memory, change),
        nodes=tuple((state, _whole(change, _name(state), age)) for state, age in s.nodes),
        insts=tuple(
            inst._replace(ending=_whole(change, "", inst.ending), newest=_whole(change, "", inst.newest))
            for inst in s.insts
        ),
        last_bind=_whole(change, "last_bind", s.last_bind),
    )


def _whole(change: Change, name: str, age: int) -> int:
    return age if age >= LONG_AGO else int(change(name, age))


def _name(state: str) -> str:
    return "node" if state == "R" else ""


def _small(age: float) -> float:
    return (age + QUANTUM // 2) % QUANTUM - QUANTUM // 2


def _ages(s: State) -> Iterator[tuple[str, float]]:
    """Of what may be compared with a bind, or with the return of a node."""
    yield from (("node", age) for state, age in s.nodes if state == "R" and age < LONG_AGO)
    if s.last_bind < LONG_AGO:
        yield "last_bind", s.last_bind
    yield from _times(s.memory)
    for one in s.memory.services.values():
        yield from _times(one)
        for each in one.instances.values():
            yield from _times(each)


def _times(one: msgspec.Struct) -> Iterator[tuple[str, float]]:
    for name, cap in CAPS[type(one)].items():
        value = getattr(one, name)
        if value:
            yield name, min(NOW - value, cap)


# What nothing hangs on


def _clocks(memory: Memory) -> Iterator[ServiceMemory | InstanceMemory]:
    for one in memory.services.values():
        yield one
        yield from one.instances.values()


def _forgotten(memory: Memory, bound: Mapping[str, int]) -> Memory:
    """Words; of when turns ended all but the order; how many pods were bound where no progress would end anything."""
    ended = sorted({one.ended_at for one in memory.services.values() if one.ended_at}, reverse=True)
    order = {time: NOW - QUANTUM * place for place, time in enumerate(ended, 1)}
    services = {}
    for name, one in sorted(memory.services.items()):
        instances = {
            uid: msgspec.structs.replace(each, revoked="", preempted_for="", **_failures(each))
            for uid, each in sorted(one.instances.items())
        }
        waits = one.turn_since or one.failures or one.ended_at or one.backoff_until
        services[name] = msgspec.structs.replace(
            one,
            instances=instances,
            bound=one.bound if waits or any(i.turn_over for i in one.instances.values()) else bound.get(name, 0),
            ended_at=order.get(one.ended_at, 0.0),
            held_since=NOW - (0 if NOW - one.held_since < CAPS[ServiceMemory]["held_since"] else 3600)
            if one.held_since
            else 0.0,
            **_failures(one),
        )
    return msgspec.structs.replace(memory, services=services)


def _failures(one: ServiceMemory | InstanceMemory) -> dict[str, int]:
    """How long the pause is, and whether any turn has ended since the last bind."""
    counted = min(one.counted, MOST_FAILURES)
    ended = max(counted + 1, min(one.failures, MOST_FAILURES)) if one.failures > one.counted else counted
    return {"failures": ended, "counted": counted}


def _binds(s: State) -> State:
    """A bind matters by whether it is new, and by the clocks of turns that began before it."""
    known = NOW - s.memory.last_bind if s.memory.last_bind else LONG_AGO
    fresh = s.last_bind < known
    clocks = [NOW - one.turn_since for one in _clocks(s.memory) if one.turn_since]
    ended = any(one.failures > one.counted for one in _clocks(s.memory))
    waited = any(getattr(one, "turns", Turns.NONE) is Turns.SINCE_LAST_BIND for one in _clocks(s.memory))
    if not clocks and not (fresh and (ended or waited)):
        return s._replace(last_bind=LONG_AGO, memory=msgspec.structs.replace(s.memory, last_bind=0.0))
    if s.last_bind == JUST_NOW:
        return _binds(aged(s, 1))
    seen, remembered = _rank(s.last_bind, clocks), _rank(known, clocks)
    if fresh and seen == remembered:
        return s
    last = NOW - remembered if remembered < LONG_AGO else 0.0
    return s._replace(last_bind=seen, memory=msgspec.structs.replace(s.memory, last_bind=last))


def _rank(age: float, clocks: list[float]) -> int:
    """The greatest age of a bind that came after the same clocks began."""
    return int(min((clock for clock in clocks if clock > age), default=LONG_AGO + 1)) - 1


def _returns(s: State) -> tuple[str, ...]:
    """Returns of nodes matter where a pause may have begun before."""
    pauses = any(one.backoff_until for one in _clocks(s.memory))
    back = any(state == "R" and age < LONG_AGO for state, age in s.nodes)
    return ("node", "backoff_until") if pauses and (back or "back" in s.events) else ()


def _memory(memory: Memory, change: Change) -> Memory:
    services = {
        name: msgspec.structs.replace(
            _changed(one, change), instances={uid: _changed(each, change) for uid, each in one.instances.items()}
        )
        for name, one in memory.services.items()
    }
    return msgspec.structs.replace(_changed(memory, change), services=services)


def _changed(one: _Timed, change: Change) -> _Timed:
    changes: dict[str, float] = {}
    for name, cap in CAPS[type(one)].items():
        value = getattr(one, name)
        if value:
            age = min(change(name, min(NOW - value, cap)), cap)
            changes[name] = NOW - (1 if cap == 0 and age >= 0 else age)
    return msgspec.structs.replace(one, **changes) if changes else one
