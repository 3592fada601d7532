"""Visits every state of small worlds that the real decision can lead them into, in every order of events.

    python -m tests.decide.explorer chosen [PART OF A NAME]      named worlds
    python -m tests.decide.explorer random SECONDS SEED          small random ones

A world of too many states is visited once more with a prompt controller: nothing else moves while there is something
for it to do. That is a part of the histories only, and is said.

Moves: the controller decides and all of that takes effect (or, once for each `stale`, on a state that is no longer so),
and whatever `tests.decide.moves` allows. Time passes only when nothing else can move, to the next moment
that the decision names. Checked in every state: the invariants of one decision, written here anew from section 6; that
deciding again comes to rest; that nothing changes before the moment named. Checked where the world comes to rest, or to
turns without an end: what section 6 calls liveness.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from scaler.decide.decide import DecisionCache, decide
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory
from scaler.decide.world import Decision
from tests.builders import NOW
from tests.decide import liveness, safety
from tests.decide.alike import aged, representative
from tests.decide.graph import strongly_connected
from tests.decide.moves import events, moves
from tests.decide.seen import act, carried_out, view
from tests.decide.small_worlds import Shape, State, in_short, initial

Key = tuple[object, ...]


class Edge(NamedTuple):
    to: int
    label: tuple[str, ...]
    seconds: float = 0.0
    done: tuple[tuple[str, int], ...] = ()
    """What the controller did: kind of action, number of the job."""


class Found(NamedTuple):
    """Something that must not be, how often, and where it was seen first."""

    what: str
    times: int
    state: int


class Result(NamedTuple):
    of: Shape
    states: int
    whole: bool
    """All states were visited."""
    prompt: bool
    """The controller decides before anything else moves."""
    found: tuple[Found, ...]
    serving: dict[int, int]
    """Where the world comes to rest: how many services serve -> in how many ways."""
    longest: float
    """Most seconds that pass, without events, from any state to the last pod that is bound."""
    seconds: float
    traces: tuple[str, ...] = ()


class Explorer:
    """`prompt`: the controller decides as soon as there is something to do, before anything else moves."""

    def __init__(
        self, of: Shape, *, most: int = 100_000, seconds: float = 60.0, cached: bool = False, prompt: bool = False
    ) -> None:
        self.of, self.prompt = of, prompt
        self.most, self.seconds = most, seconds
        self.cache = DecisionCache() if cached else None
        self.states: list[State] = []
        self.parents: list[tuple[int, tuple[str, ...]] | None] = []
        self.edges: list[list[Edge]] = []
        self.numbers: dict[Key, int] = {}
        self.whole = True
        self._memories: dict[bytes, Memory] = {}
        self._decisions: dict[Key, Decision] = {}
        self._found: dict[str, list[int]] = {}

    def run(self) -> Result:
        start = time.process_time()
        self._add(initial(self.of), None)
        place = 0
        while place < len(self.states):
            if len(self.states) > self.most or time.process_time() - start > self.seconds:
                self.whole = False
                break
            self.edges.append(list(self._edges(place)))
            place += 1
        serving = Counter[int]()
        longest = self._at_rest(serving) if self.whole else 0.0
        found = tuple(Found(what, len(where), where[0]) for what, where in self._found.items())
        traces = tuple(self.trace(one) for one in found[:1])
        took = time.process_time() - start
        return Result(self.of, len(self.states), self.whole, self.prompt, found, dict(serving), longest, took, traces)

    # states

    def _key(self, s: State) -> Key:
        return (s.nodes, s.insts, id(s.memory), s.last_bind, s.out, s.events, s.hand, s.replicas)

    def _one_of(self, s: State) -> State:
        """The one state that stands for all that are alike."""
        s = representative(self.of, s)
        encoded = msgspec.json.encode(s.memory)
        return s._replace(memory=self._memories.setdefault(encoded, s.memory))

    def _add(self, s: State, parent: tuple[int, tuple[str, ...]] | None) -> int:
        s = self._one_of(s)
        number = self.numbers.setdefault(self._key(s), len(self.states))
        if number == len(self.states):
            self.states.append(s)
            self.parents.append(parent)
        return number

    def decision(self, s: State) -> Decision:
        """Of a state that stands for all that are alike."""
        key = (s.nodes, s.insts, id(s.memory), s.last_bind, s.replicas)
        made = self._decisions.get(key)
        if made is None:
            world = view(self.of, s)
            made = self._decisions[key] = decide(world)
            if self.cache is not None and decide(world, self.cache) != made:
                self._bad("a cache changes the answer", self.numbers.get(self._key(s), 0))
        return made

    def _bad(self, what: str, where: int) -> None:
        self._found.setdefault(what, []).append(where)

    # steps

    def _edges(self, number: int) -> Iterator[Edge]:
        s = self.states[number]
        can_move = False
        if s.hand is not None:
            can_move = True
            after = carried_out(self.of, s._replace(hand=None), s.hand)
            yield Edge(self._add(after, (number, ("act",))), ("act",))
        else:
            made = self.decision(s)
            self._check(number, s, made)
            after = self._one_of(act(self.of, s, made))
            done = actions(made)
            if self._key(after) != self._key(s):
                can_move = True
                label = ("decide", *(f"{kind} {self.of.job_name(job)}" for kind, job in done))
                yield Edge(self._add(after, (number, label)), label, 0.0, done)
                if done and "stale" in s.events:
                    rest = list(s.events)
                    rest.remove("stale")
                    hand = tuple(action for plan in made.plans for action in plan.actions)
                    held = s._replace(events=tuple(rest), memory=made.memory, hand=hand)
                    self._add(held, (number, ("decide, and act later",)))
                if self.prompt:
                    return
        for label, after in moves(self.of, s):
            can_move = True
            yield Edge(self._add(after, (number, label)), label)
        if not can_move:
            yield from self._tick(number, s)
        for label, after in events(self.of, s):
            self._add(after, (number, label))

    def _tick(self, number: int, s: State) -> Iterator[Edge]:
        made = self.decision(s)
        wait = made.recheck_at - NOW if made.recheck_at else 0.0
        if made.recheck_at and wait <= 0:
            self._bad("L3: to be looked at again in the past", number)
            return
        self._check_until(number, s, made, wait or 100_000.0)
        if wait:
            label = ("wait", f"{wait:g} s")
            yield Edge(self._add(aged(s, int(wait)), (number, label)), label, wait)

    # what must hold of every state

    def _check(self, number: int, s: State, made: Decision) -> None:
        world = view(self.of, s)
        for what in violations(world, made):
            self._bad(what.partition(":")[0] + " (violations): " + what, number)
        if actions(made):
            for what in safety.broken(self.of, s, made):
                self._bad(what, number)
        self._check_settles(number, s)

    def _check_settles(self, number: int, s: State) -> None:
        """S6: deciding again at the same moment after it took effect."""
        passes = 0
        for _ in range(8):
            made = self.decision(s)
            if any(self.of.jobs[job].curse == "refuse" for kind, job in actions(made) if kind == "Admit"):
                return  # the API server's answer is an event
            passes += bool(actions(made))
            after = self._one_of(act(self.of, s, made))
            if self._key(after) == self._key(s):
                break
            s = after
        else:
            self._bad("S6: does not come to rest with the cluster unchanged", number)
        if passes > 3:
            self._bad(f"S6: {passes} passes", number)

    def _check_until(self, number: int, s: State, made: Decision, wait: float) -> None:
        """Nothing changes before the moment that the decision named."""
        for share in (0.4, 0.99):
            later = msgspec.structs.replace(view(self.of, s), now=NOW + wait * share)
            again = decide(later)
            if actions(again):
                self._bad("L3: something is done before the moment that was named for it", number)
            elif [plan.verdicts for plan in again.plans] != [plan.verdicts for plan in made.plans]:
                self._bad("L3: a verdict changes before the moment that was named for it", number)

    # what must hold where nothing leads out any more

    def _at_rest(self, serving: Counter[int]) -> float:
        """Finds all ends and counts the services that serve there; seconds of the longest way to one."""
        component, components = strongly_connected([[edge.to for edge in edges] for edges in self.edges])
        longest = [0.0] * len(components)
        binds = [False] * len(components)
        for number, states in enumerate(components):  # what they lead to comes before them
            inner = [(at, edge) for at in states for edge in self.edges[at] if component[edge.to] == number]
            outer = [edge for at in states for edge in self.edges[at] if component[edge.to] != number]
            if inner:
                self._check_cycle(states, inner, outer)
            binds[number] = any(edge.label[0] == "bind" or binds[component[edge.to]] for edge in outer)
            ahead = (edge for edge in outer if binds[component[edge.to]] or edge.label[0] == "bind")
            longest[number] = max((longest[component[edge.to]] + edge.seconds for edge in ahead), default=0.0)
            if not outer:
                seen = [self.states[at] for at in states]
                serving[liveness.serving(self.of, seen[0])] += 1
                for what in liveness.wrong(self.of, seen, self.decision):
                    self._bad(what, states[0])
        return max(longest, default=0.0)

    def _check_cycle(self, states: list[int], inner: list[tuple[int, Edge]], outer: list[Edge]) -> None:
        """L4: no endless cycle but the turns of what is never bound."""
        if any(kind == "Evict" for _, edge in inner for kind, _ in edge.done):
            self._bad("L4: evicts for ever", states[0])
        if not any(edge.seconds for _, edge in inner) or _turns_at_once(states, inner):
            self._bad("L4: a cycle that takes no time", states[0])
        if self.states[states[0]].out:
            return  # while the scheduler is away nothing is ever bound
        cursed = {job.team for job in self.of.jobs if job.curse}
        moved = {self.of.jobs[job].team for _, edge in inner for _, job in edge.done}
        if moved - cursed:
            self._bad("L4: a service of which nothing is cursed is admitted and revoked for ever", states[0])
        if outer:
            self._bad("L4: time passes for ever though there is a way on", states[0])

    # words

    def trace(self, found: Found) -> str:
        way: list[tuple[tuple[str, ...], int]] = []
        at: int | None = found.state
        while at is not None:
            parent = self.parents[at]
            way.append((parent[1] if parent else ("start",), at))
            at = parent[0] if parent else None
        lines = [f"{found.what} ({found.times} times), first on this way:"]
        for label, number in list(reversed(way))[-60:]:
            s = self.states[number]
            lines.append(f"    {', '.join(label):<44} {in_short(self.of, s)}")
        s = self.states[found.state]
        made = self.decision(s)
        lines.append(f"    then: {[f'{kind} {self.of.job_name(job)}' for kind, job in actions(made)]}")
        for plan in made.plans:
            lines += [f"      {plan.key.job_id}.{v.name} {v.state} {v.reason} {v.about}" for v in plan.verdicts]
        lines.append(f"    memory: {in_ages(s.memory)}")
        return "\n".join(lines)


def in_ages(memory: Memory) -> str:
    """What is remembered, times as seconds ago, defaults left out."""
    words = []
    for service, one in memory.services.items():
        for name, each in ((service.rpartition("/")[2], one), *one.instances.items()):
            found = []
            for field in msgspec.structs.fields(each):
                value = getattr(each, field.name)
                if field.name not in ("instances", "jobs", "restarts") and value != field.default:
                    found.append(f"{field.name}={f'{NOW - value:g} s ago' if isinstance(value, float) else value}")
            words += [f"{name}({', '.join(found)})"] if found else []
    return " ".join(words)


def actions(made: Decision) -> tuple[tuple[str, int], ...]:
    """What a decision does, to which jobs."""
    return tuple(
        (type(action).__name__, int(action.uid.removeprefix("job-"))) for plan in made.plans for action in plan.actions
    )


def _turns_at_once(states: list[int], inner: list[tuple[int, Edge]]) -> bool:
    """Whether there is a cycle of steps that take no time."""
    places = {at: place for place, at in enumerate(states)}
    fast: list[list[int]] = [[] for _ in states]
    for at, edge in inner:
        if not edge.seconds:
            fast[places[at]].append(places[edge.to])
    _, components = strongly_connected(fast)
    return len(components) < len(states) or any(at in fast[at] for at in range(len(states)))


def explore(shapes: Iterable[Shape], most: int, seconds: float) -> int:
    """Explores each, says what came out, and how many had something wrong."""
    start, results = time.process_time(), list[Result]()
    for of in shapes:
        result = Explorer(of, most=most, seconds=seconds).run()
        if not (result.whole or result.found):
            result = Explorer(of, most=most, seconds=seconds, prompt=True).run()
        results.append(result)
        how = "" if result.whole and not result.prompt else " prompt" if result.whole else " NOT ALL"
        print(
            f"{of.name:<52} {result.states:>7} states{how} {result.seconds:5.1f} s, serving {result.serving}, "
            f"longest {result.longest:g} s{'' if result.found else '  ok'}",
            *(f"    BAD {found.what} x{found.times}" for found in result.found), *result.traces,
            sep="\n", flush=True,
        )  # fmt: skip
    wrong = sum(bool(result.found) for result in results)
    print(
        f"{len(results)} worlds, {sum(result.states for result in results)} states, "
        f"{sum(result.prompt for result in results)} with a prompt controller only, "
        f"{sum(not result.whole for result in results)} not visited whole, {wrong} with something wrong, "
        f"{time.process_time() - start:.0f} s of CPU"
    )
    return wrong


def main(arguments: list[str]) -> int:
    from tests.decide.catalogue import chosen, endless

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    kinds = parser.add_subparsers(dest="what", required=True)
    named = kinds.add_parser("chosen")
    named.add_argument("part", nargs="?", default="")
    drawn = kinds.add_parser("random")
    drawn.add_argument("seconds", type=float)
    drawn.add_argument("seed", type=int)
    for one in (named, drawn):
        one.add_argument("--most", type=int, default=20_000)
        one.add_argument("--each", type=float, default=60.0, help="seconds of CPU")
    args = parser.parse_args(arguments)
    until = time.monotonic() + args.seconds if args.what == "random" else 0.0
    shapes = (
        itertools.takewhile(lambda _: time.monotonic() < until, endless(args.seed))
        if args.what == "random"
        else (of for of in chosen() if args.part in of.name)
    )
    return min(1, explore(shapes, args.most, args.each))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
