"""Times of a small world as ages, so that states that differ only in when they were reached are one state.

All time limits are multiples of `QUANTUM`. What matters of an age is how many quanta it is, and whether it lies a
little before, at, or a little after them, in which order among all ages; so the little is renumbered 1, 2, 3 each time.
Ages beyond the longest limit that they are compared with are all alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from scaler.decide.world import InstanceMemory, Memory, ServiceMemory
from tests.builders import NOW

if TYPE_CHECKING:
    from tests.decide.small_worlds import State

QUANTUM = 30
LONG_AGO = 300
"""Of a node or a bind: longer ago than anything that is compared with it."""

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

for _type, _times in CAPS.items():
    _floats = {field.name for field in msgspec.structs.fields(_type) if field.type is float or field.type == "float"}
    assert _floats == set(_times), f"the ages of {_type.__name__} are not those of the contract's code: {_floats}"

COUNTS = {InstanceMemory: ("failures", "counted"), ServiceMemory: ("failures", "counted")}
MOST_FAILURES = 4
"""From then on the pause is the longest."""


def aged(s: State, by: int) -> State:
    """The state so many seconds later, everything else unchanged."""
    memory = _memory(s.memory, lambda age: age + by)
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


def regular(s: State) -> State:
    """The same state with the little that ages lie beside the limits renumbered."""
    small = {_small(age) for age in _ages(s)}
    if small <= {0}:
        return s._replace(memory=_memory(s.memory, lambda age: age))
    before = sorted((age for age in small if age < 0), reverse=True)
    after = sorted(age for age in small if age > 0)
    new = {0: 0} | {age: -number for number, age in enumerate(before, 1)} | {age: n for n, age in enumerate(after, 1)}

    def change(age: float) -> float:
        return age - _small(age) + new[_small(age)]

    return s._replace(
        memory=_memory(s.memory, change),
        nodes=tuple((state, int(change(age)) if age < LONG_AGO else age) for state, age in s.nodes),
        insts=tuple(
            inst._replace(ending=int(change(inst.ending)), newest=int(change(inst.newest))) for inst in s.insts
        ),
        last_bind=int(change(s.last_bind)) if s.last_bind < LONG_AGO else s.last_bind,
    )


def _small(age: float) -> float:
    return (age + QUANTUM // 2) % QUANTUM - QUANTUM // 2


def _ages(s: State) -> list[float]:
    found: list[float] = [age for _, age in s.nodes if age < LONG_AGO]
    found += [age for inst in s.insts for age in (inst.ending, inst.newest)]
    if s.last_bind < LONG_AGO:
        found.append(s.last_bind)
    for one in (s.memory, *s.memory.services.values()):
        found += _times(one)
        if isinstance(one, ServiceMemory):
            found += [age for each in one.instances.values() for age in _times(each)]
    return found


def _times(one: Any) -> list[float]:
    values = ((getattr(one, name), cap) for name, cap in CAPS[type(one)].items())
    return [min(NOW - value, cap) for value, cap in values if value]


def _memory(memory: Memory, change: Any) -> Memory:
    services = {}
    ended = sorted({NOW - one.ended_at for one in memory.services.values() if one.ended_at})
    for name, one in memory.services.items():
        instances = {uid: _changed(each, change) for uid, each in sorted(one.instances.items())}
        after = _changed(one, change)
        if one.ended_at:
            after = msgspec.structs.replace(after, ended_at=NOW - _ended(NOW - one.ended_at, change, ended))
        services[name] = msgspec.structs.replace(after, instances=instances)
    return msgspec.structs.replace(_changed(memory, change), services=dict(sorted(services.items())))


def _ended(age: float, change: Any, all_of_them: list[float]) -> float:
    """Only the order counts among those that ended long ago."""
    after = change(age) if age < LONG_AGO else age
    if after < LONG_AGO:
        return float(after)
    return float(
        LONG_AGO + QUANTUM * sum(other < age for other in all_of_them if other >= LONG_AGO or change(other) >= LONG_AGO)
    )


def _changed(one: Any, change: Any) -> Any:
    changes: dict[str, Any] = {}
    for name, cap in CAPS[type(one)].items():
        value = getattr(one, name)
        if value:
            age = min(change(min(NOW - value, cap)), cap)
            changes[name] = NOW - (1 if cap == 0 and age >= 0 else age)
    for number in COUNTS.get(type(one), ())[:1]:
        failures, counted = getattr(one, number), one.counted
        if failures > MOST_FAILURES:
            before = min(counted, MOST_FAILURES)
            changes |= {"failures": before + min(failures - counted, MOST_FAILURES), "counted": before}
    return msgspec.structs.replace(one, **changes) if changes else one
