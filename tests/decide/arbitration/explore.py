"""Plays every order of events in a small world, and judges every decision, every place of rest and every cycle.

A step is a pass of the controller, a binding of the scheduler, or an event from outside. Without events from outside
the steps must lead to rest: a cycle of the first two would be an endless admitting and taking back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scaler.decide.minimums.invariants import arbitration_violations

from scaler.decide.invariants import violations
from scaler.decide.world import Admit, Complete, Revoke
from tests.decide.arbitration.oracle import Judgement, judge, placeable
from tests.decide.arbitration.view import PLAIN, Pass, Setting, capacity, controller, key, position, wanted
from tests.decide.arbitration.world import UNBOUND, State, World, bindings, events, free, initial


class TooLarge(Exception):  # noqa: N818 - no error, an answer
    """The world has more states than were asked for."""


class Explored(NamedTuple):
    states: int
    """Of jobs and nodes: whether another fault may come is no difference to the controller, and is not counted."""
    wrong: list[str]
    fewest: int
    """Services that serve at the worst place of rest, were everything there from the start and nothing lost."""
    reached: Iterable[State]


class _Seen(NamedTuple):
    """What was found out about one state."""

    inside: tuple[State, ...]
    """The next ones without an event from outside."""
    serving: int
    wrong: list[str]


def explore(
    w: World,
    setting: Setting = PLAIN,
    *,
    most: int,
    enough: bool = False,
    starts: Iterable[State] = (),
) -> Explored:
    """Every state that can come about, or the first so many. Stops at the first thing that is wrong."""
    seen: dict[State, _Seen] = {}
    """By state without its faults."""
    reached: dict[State, None] = {}
    waiting = [*starts] or [initial(w)]
    while waiting:
        s = waiting.pop()
        if s in reached:
            continue
        reached[s] = None
        bare = s._replace(faults=0)
        if bare not in seen:
            if len(seen) >= most:
                if enough:
                    break
                raise TooLarge
            seen[bare] = _look(w, bare, setting)
            if seen[bare].wrong:
                return Explored(len(seen), seen[bare].wrong, 0, reached)
        waiting += [after._replace(faults=s.faults) for after in seen[bare].inside]
        waiting += events(w, s)
    steps = {s: found.inside for s, found in seen.items()}
    cycle = find_cycle(steps)
    wrong = [f"L4: an endless cycle through {cycle}"] if cycle else []
    start = initial(w)._replace(faults=0)
    resting = [s for s in follow(steps, start) if s in seen and not seen[s].inside]
    return Explored(len(seen), wrong, min((seen[s].serving for s in resting), default=len(w.ladders)), reached)


def follow(steps: Mapping[State, Iterable[State]], start: State) -> set[State]:
    """All states that the steps lead to from this one, itself included."""
    found, waiting = {start}, [start]
    while waiting:
        new = set(steps.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def _look(w: World, s: State, setting: Setting) -> _Seen:
    made = controller(w, s, setting)
    ruled = judge(w, s, wanted(w, made.alone), _leaving(w, made))
    wrong = [f"{words} in {s}" for words in _differences(w, s, made, ruled)]
    inside = tuple(after for after in (made.after, *bindings(w, s)) if after != s)
    if not inside:
        wrong += [f"{words} at rest in {s}" for words in _unrest(w, s, made, ruled)]
    return _Seen(inside, len(ruled.serving), wrong)


def _leaving(w: World, made: Pass) -> set[int]:
    """What the services' own plans take back."""
    return {position(w, action.uid) for _, own in made.alone for action in own.actions if isinstance(action, Revoke)}


def _differences(w: World, s: State, made: Pass, ruled: Judgement) -> Iterator[str]:
    """Between the arbiter and the oracle."""
    actions = [action for plan in made.outcome.plans for action in plan.actions]
    admitted = {position(w, action.uid) for action in actions if isinstance(action, Admit | Complete)}
    taken = {position(w, action.uid) for action in actions if isinstance(action, Revoke)} - _leaving(w, made)
    reasons = {position(w, v.uid): v.reason.value for plan in made.outcome.plans for v in plan.verdicts}
    for (seen, own), plan in zip(made.alone, made.outcome.plans, strict=True):
        if plan is not own:  # its own plan was looked at already
            yield from violations(seen, plan)
    if actions:
        yield from arbitration_violations(made.alone, made.outcome, capacity(w, s))
    if not ruled.admit - ruled.may_wait <= admitted <= ruled.admit:
        yield f"admits {admitted}, not {ruled.admit} of which {ruled.may_wait} may wait"
    if taken != set(ruled.take_back):
        yield f"takes back {taken}, not {ruled.take_back}"
    for job, reason in (ruled.hold | ruled.take_back).items():
        if reasons[job] != reason:
            yield f"says {reasons[job]} of job {job}, not {reason}"
    if ruled.may_wait and not admitted & ruled.may_wait and not _in_hands(s):
        yield f"holds all of {ruled.may_wait}, which nothing stands against"


def _in_hands(s: State) -> bool:
    return any(pods is not None and UNBOUND in pods for pods in s.pods)


def _unrest(w: World, s: State, made: Pass, ruled: Judgement) -> Iterator[str]:
    """What must not be so when nothing moves any more."""
    room = free(w, s)
    services = {key(number): number for number in range(len(w.ladders))}
    for plan in made.outcome.plans:
        minimum = ruled.minimums.get(services[plan.key])
        for verdict in plan.verdicts:
            job = position(w, verdict.uid)
            if verdict.reason.value == "MinimumDoesNotFit" and minimum and placeable(minimum.pods, room):
                yield f"L1: job {job} is held, and its minimum would fit"
            waits = verdict.reason.value == "WaitingForCapacity"
            yields = verdict.reason.value == "YieldsToMinimum" and not any(s.down)  # else it waits for nodes to be back
            if (waits or yields) and placeable(_missing(w, s, job), room):
                yield f"L1: climb {job} is held, and would fit"
    if ruled.reserved:
        yield f"L1: {ruled.reserved} could be bound"


def _missing(w: World, s: State, job: int) -> list[tuple[int, ...]]:
    return [w.jobs[job].kinds for pod in s.pods[job] or () if pod < 0]


def find_cycle(steps: Mapping[Any, Iterable[Any]]) -> Any | None:
    """Some state from which the steps lead back to it; None when there is none."""
    settled: set[Any] = set()
    for start, first in steps.items():
        if start in settled:
            continue
        path, on_path = [iter(first)], [start]
        members = {start}
        while path:
            following = next(path[-1], None)
            if following is None:
                path.pop()
                done = on_path.pop()
                members.discard(done)
                settled.add(done)
            elif following in members:
                return following
            elif following not in settled:
                path.append(iter(steps.get(following, ())))
                on_path.append(following)
                members.add(following)
    return None
