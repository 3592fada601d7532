"""Small worlds in which time passes: every order of events, timers, trades and a scheduler that never binds some jobs.

A moment is a state of the world and what the arbiter remembers, by how long ago it was. While anything else can happen
no time passes; when nothing can, the clock goes to the next moment that the arbiter asked for. What is longer ago than
any of its clocks counts is as if it were just so long ago: so there are finitely many moments, and every endless story
is a cycle among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from scaler.decide.minimums.invariants import arbitration_violations
from scaler.decide.world import Admit, ArbiterMemory, Complete, Evict, MinimumMemory
from tests.builders import NOW
from tests.decide.arbitration.explore import TooLarge, find_cycle
from tests.decide.arbitration.oracle import Kinds, judge, ladder, placeable
from tests.decide.arbitration.view import PLAIN, Pass, Setting, capacity, controller, position, wanted
from tests.decide.arbitration.world import State, World, bindings, events, free, initial, parts, runs

LONG_AGO = 1000.0
SAME_PAUSE, SAME_PATIENCE = 5, 6
"""After so many failures (probes) one more makes the pause (the patience) no longer."""

Remembered = tuple[tuple[str, MinimumMemory], ...]


class Moment(NamedTuple):
    state: State
    memory: Remembered = ()


class Step(NamedTuple):
    """From a moment to the next ones, without an event from outside."""

    after: tuple[Moment, ...]
    """None: nothing will ever happen by itself."""
    waits: float
    """Seconds until then."""
    moved: frozenset[int]
    """Jobs that the controller admits, takes back or evicts."""
    evicts: bool
    stuck: frozenset[int]
    """Jobs that are wanted, are not admitted, and would find room now; see `_stuck`."""


class Timed(NamedTuple):
    moments: int
    wrong: list[str]
    reached: Iterable[Moment]


def explore(
    w: World,
    never: frozenset[int] = frozenset(),
    setting: Setting = PLAIN,
    *,
    most: int,
    starts: Iterable[Moment] = (),
) -> Timed:
    """`never`: services of which the scheduler binds nothing. Stops at the first thing that is wrong."""
    steps: dict[Moment, Step] = {}
    waiting = [*starts] or [Moment(initial(w))]
    while waiting:
        moment = waiting.pop()
        if moment in steps:
            continue
        if len(steps) >= most:
            raise TooLarge
        made = controller(w, moment.state, setting, ArbiterMemory(dict(moment.memory)))
        wrong = [f"{words} in {moment}" for words in _unsound(w, moment, made, setting)]
        if wrong:
            return Timed(len(steps), wrong, steps)
        steps[moment] = _step(w, moment, made, never, setting)
        waiting += steps[moment].after
        waiting += (moment._replace(state=s) for s in events(w, moment.state))
    return Timed(len(steps), list(_endless(w, steps, never)), steps)


def _step(w: World, moment: Moment, made: Pass, never: frozenset[int], setting: Setting) -> Step:
    s = moment.state
    after = [Moment(made.after, _finite(made.outcome.memory, setting))]
    after += (moment._replace(state=bound) for bound in bindings(w, s) if not _binds(w, s, bound, never))
    after = [each for each in after if each != moment]
    seconds = made.outcome.recheck_at - NOW if made.outcome.recheck_at and not after else 0.0
    if seconds:
        after = [Moment(s, _finite(_later(made.outcome.memory, seconds), setting))]
    actions = [action for plan in made.outcome.plans for action in plan.actions]
    moved = frozenset(position(w, action.uid) for action in actions)
    evicts = any(isinstance(action, Evict) for action in actions)
    return Step(tuple(after), seconds, moved, evicts, frozenset(_stuck(w, s, made, never, blurred=setting.blurred)))


def _binds(w: World, before: State, after: State, never: frozenset[int]) -> bool:
    return any(before.pods[part] != after.pods[part] for part in (parts(w.jobs)[service] for service in never))


# Memory


def _later(memory: ArbiterMemory, seconds: float) -> ArbiterMemory:
    return ArbiterMemory({name: _shifted(minimum, seconds) for name, minimum in memory.minimums.items()})


TIMES = ("admitted_since", "failed_at", "retry_at", "held_since", "probe_since", "short_since")


def _shifted(minimum: MinimumMemory, seconds: float) -> MinimumMemory:
    found = {name: getattr(minimum, name) for name in TIMES}
    return msgspec.structs.replace(minimum, **{name: at - seconds for name, at in found.items() if at})


def _finite(memory: ArbiterMemory, setting: Setting) -> Remembered:
    order = sorted({minimum.failed_at for minimum in memory.minimums.values()} - {0.0})
    return tuple((name, _clamped(minimum, setting, order)) for name, minimum in sorted(memory.minimums.items()))


def _clamped(minimum: MinimumMemory, setting: Setting, order: list[float]) -> MinimumMemory:
    """Of failures only their order matters."""
    policy = setting.policy

    def at_most(ago: float, at: float) -> float:
        return max(at, NOW - ago) if at else 0.0

    return msgspec.structs.replace(
        minimum,
        admitted_since=at_most(policy.minimum_timeout, minimum.admitted_since),
        failures=min(minimum.failures, SAME_PAUSE),
        failed_at=NOW - LONG_AGO + order.index(minimum.failed_at) if minimum.failed_at else 0.0,
        retry_at=minimum.retry_at if minimum.retry_at > NOW else 0.0,
        held_since=at_most(policy.fit_patience * 2**SAME_PATIENCE, minimum.held_since),
        probe_since=at_most(policy.minimum_timeout, minimum.probe_since),
        probes=min(minimum.probes, SAME_PATIENCE),
        short_since=at_most(policy.trade_after, minimum.short_since),
    )


# What must not be so


def _unsound(w: World, moment: Moment, made: Pass, setting: Setting) -> Iterator[str]:
    yield from arbitration_violations(made.alone, made.outcome, capacity(w, moment.state, setting))
    if sum(minimum.probe_since > 0 for minimum in made.outcome.memory.minimums.values()) > 1:
        yield "3b.5: two probes at once"
    for plan in made.outcome.plans:
        for action in plan.actions:
            if isinstance(action, Evict) and not setting.blurred:
                yield from _bad_trade(w, moment.state, position(w, action.uid))


def _bad_trade(w: World, s: State, job: int) -> Iterator[str]:
    """3.6, with its default: only while nobody is served, never below the smallest ratio, and not in vain."""
    service = w.jobs[job].service
    ruled = judge(w, s, set(), set())
    minimum = ruled.minimums.get(service)
    missing = minimum.pods if minimum else []
    if service in ruled.serving or not runs(s.pods[job]):
        yield f"3.6: {job} is evicted though its service serves, or it does not run"
    if minimum and minimum.incomplete:
        yield f"3.6: {job} is evicted though jobs of its smallest ratio are missing"
    groups = {w.jobs[n].group for those in _surplus(w, s, service) for n in those}
    if w.jobs[job].group not in groups:
        yield f"3.6: {job} is evicted, and its smallest ratio needs it"
    if placeable(missing, free(w, s)):
        yield f"3.6: {job} is evicted though what is missing would fit"
    if not placeable(missing, _with_surplus(w, s, service)):
        yield f"3.6: {job} is evicted in vain"


def _surplus(w: World, s: State, service: int) -> Iterator[list[int]]:
    """What runs of each group beyond its smallest ratio, newest last."""
    smallest = ladder(w.ladders[service])[-1]
    own = [n for n, job in enumerate(w.jobs) if job.service == service and runs(s.pods[n])]
    for group in sorted({w.jobs[n].group for n in own}):
        yield [n for n in own if w.jobs[n].group == group][smallest.get(group, 0) :]


def _with_surplus(w: World, s: State, service: int) -> tuple[int, ...]:
    """Free nodes, and those of all that runs beyond the smallest ratio."""
    room = list(free(w, s))
    for kind in (kind for those in _surplus(w, s, service) for n in those for kind in s.pods[n] or ()):
        room[kind] += 1
    return tuple(room)


def _stuck(w: World, s: State, made: Pass, never: frozenset[int], *, blurred: bool) -> Iterator[int]:
    """Jobs that are held for nothing, if it stays so: of minimums that would fit whole, climbs that would fit (and are
    seen to), and what would only need a trade."""
    ruled = judge(w, s, wanted(w, made.alone), set())
    room = free(w, s)
    for job in wanted(w, made.alone) - _admitted(w, made):
        service = w.jobs[job].service
        minimum = ruled.minimums.get(service)
        hopeless = minimum.incomplete if minimum else blurred or any(s.down)  # then it may wait for nodes to be back
        if service not in never and not hopeless and placeable(minimum.pods if minimum else _missing(w, s, job), room):
            yield job
    if len(ruled.minimums) == 1:  # otherwise what a trade would bring may be promised to others
        service, minimum = next(iter(ruled.minimums.items()))
        if service not in never and not minimum.incomplete and placeable(minimum.pods, _with_surplus(w, s, service)):
            yield from minimum.jobs


def _missing(w: World, s: State, job: int) -> list[Kinds]:
    return [w.jobs[job].kinds for pod in s.pods[job] or () if pod < 0]


def _admitted(w: World, made: Pass) -> set[int]:
    actions = (action for plan in made.outcome.plans for action in plan.actions)
    return {position(w, action.uid) for action in actions if isinstance(action, Admit | Complete)}


def _endless(w: World, steps: Mapping[Moment, Step], never: frozenset[int]) -> Iterator[str]:
    """L4 and L1 over all that can go on for ever."""
    at_once = {moment: () if step.waits else step.after for moment, step in steps.items()}
    cycle = find_cycle(at_once)
    if cycle:
        yield f"L4: an endless cycle in no time through {cycle}"
        return
    after = {moment: step.after for moment, step in steps.items()}
    for those in components(after):
        first = those[0]
        for_ever = len(those) > 1 or first in after[first]
        moved = {w.jobs[job].service for moment in those for job in steps[moment].moved} if for_ever else set()
        if moved - never:
            yield f"L4: services {moved - never} are moved for ever, round {first}"
        if for_ever and any(steps[moment].evicts for moment in those):
            yield f"L4: endless trades round {first}"
        inside = set(those)
        if all(inside.issuperset(after[moment]) for moment in those):
            stuck = frozenset.intersection(*(steps[moment].stuck for moment in those))
            if stuck:
                yield f"L1: jobs {set(stuck)} are held for ever, in {first}"


def components(after: Mapping[Moment, Iterable[Moment]]) -> Iterator[list[Moment]]:
    """Moments that lead to each other (Kosaraju)."""
    before: dict[Moment, list[Moment]] = {moment: [] for moment in after}
    for moment, following in after.items():
        for each in following:
            before[each].append(moment)
    done: set[Moment] = set()
    last_first = [moment for start in after for moment in _finished(start, after, done)][::-1]
    done = set()
    for moment in last_first:
        found = _finished(moment, before, done)
        if found:
            yield found


def _finished(start: Moment, after: Mapping[Moment, Iterable[Moment]], done: set[Moment]) -> list[Moment]:
    """All that is reached from the start and was not before, each after all that it leads to."""
    if start in done:
        return []
    done.add(start)
    found, path = [], [(start, iter(after[start]))]
    while path:
        new = next((each for each in path[-1][1] if each not in done), None)
        if new is None:
            found.append(path.pop()[0])
        else:
            done.add(new)
            path.append((new, iter(after[new])))
    return found
