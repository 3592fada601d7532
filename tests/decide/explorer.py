"""Visits every state of small worlds that the real decision can lead them into, in every order of
events.

    python -m tests.decide.explorer chosen [PART OF A NAME]      named worlds
    python -m tests.decide.explorer random SECONDS SEED          small random ones

A world of too many states is visited once more with a prompt controller: nothing else moves while
there is something for it to do. That is a part of the histories only, and is said.

Moves: the controller decides and all of that takes effect (or, once for each `stale`, on a state
that is no longer so), and whatever `tests.decide.moves` allows. Time passes only when nothing else
can move, to the next moment that the decision names. Checked in every state: the invariants of one
decision (`violations`, and `promises.broken`); that deciding again comes to rest; that nothing
changes before the moment named. Checked where the world comes to rest, or to attempts without an
end: what section 6 calls liveness (`promises.wrong`)."""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from scaler.decide.again import DecisionCache
from scaler.decide.decide import decide
from scaler.decide.decision import Decision
from scaler.decide.invariants import violations
from scaler.decide.memory import Memory
from tests.builders import NOW
from tests.decide import promises
from tests.decide.alike import aged, representative
from tests.decide.graph import left, strongly_connected
from tests.decide.moves import events, moves
from tests.decide.seen import act, carried_out, view
from tests.decide.small_worlds import Shape, State, in_short, initial

Key = tuple[object, ...]
Label = tuple[str, ...]


class Edge(NamedTuple):
    to: int
    seconds: float = 0.0
    done: tuple[tuple[str, int], ...] = ()
    """What the controller did: kind of action, number of the job."""


class Explorer:
    """`most` states and so many `seconds` of CPU, not more; `cached`: a decision cache is asked as
    well; `prompt`: the controller decides as soon as there is something to do, before anything else
    moves."""

    def __init__(
        self,
        of: Shape,
        *,
        most: int = 20_000,
        seconds: float = 60.0,
        cached: bool = False,
        prompt: bool = False,
    ) -> None:
        self.of = of
        self.prompt = prompt
        self.most = most
        self.seconds = seconds
        self.cache = DecisionCache() if cached else None
        self.states: list[State] = []
        self.whole = False
        """All states were visited."""
        self.found: dict[str, list[int]] = {}
        """What must not be, and the states that show it."""
        self._parents: list[tuple[int, Label]] = []
        self._edges: list[list[Edge]] = []
        self._numbers: dict[Key, int] = {}
        self._memories: dict[bytes, Memory] = {}
        self._decisions: dict[Key, Decision] = {}

    def run(self) -> Explorer:
        until = time.process_time() + self.seconds
        self._add(initial(self.of), -1, ("start",))
        while len(self._edges) < len(self.states):
            if len(self.states) > self.most or time.process_time() > until:
                return self
            self._edges.append(list(self._steps(len(self._edges))))
        self.whole = True
        self._check_ends()
        return self

    # states

    def _key(self, s: State) -> Key:
        return (s.nodes, s.insts, id(s.memory), s.last_bind, s.out, s.events, s.hand, s.replicas)

    def _one_of(self, s: State) -> State:
        s = representative(self.of, s)
        encoded = msgspec.json.encode(s.memory)
        return s._replace(memory=self._memories.setdefault(encoded, s.memory))

    def _add(self, s: State, parent: int, label: Label) -> int:
        s = self._one_of(s)
        number = self._numbers.setdefault(self._key(s), len(self.states))
        if number == len(self.states):
            self.states.append(s)
            self._parents.append((parent, label))
        return number

    def decision(self, s: State) -> Decision:
        """Of a state that stands for all that are alike."""
        key = (s.nodes, s.insts, id(s.memory), s.last_bind, s.replicas)
        made = self._decisions.get(key)
        if made is None:
            world = view(self.of, s)
            made = self._decisions[key] = decide(world)
            if self.cache is not None and decide(world, self.cache) != made:
                self._bad("a cache changes the answer", self._numbers.get(self._key(s), 0))
        return made

    def _bad(self, what: str, where: int) -> None:
        self.found.setdefault(what, []).append(where)

    # steps

    def _steps(self, number: int) -> Iterator[Edge]:
        """What leads on from here without an event; what events lead to is added to the states
        only."""
        s = self.states[number]
        can_move = s.hand is not None
        if s.hand is not None:
            after = carried_out(self.of, s._replace(hand=None), s.hand)
            yield Edge(self._add(after, number, ("act",)))
        else:
            made = self.decision(s)
            self._check(number, s, made)
            after = self._one_of(act(self.of, s, made))
            done = actions(made)
            if self._key(after) != self._key(s):
                can_move = True
                label = ("decide", *(f"{kind} {self.of.job_name(job)}" for kind, job in done))
                yield Edge(self._add(after, number, label), 0.0, done)
                if done and "stale" in s.events:
                    rest = list(s.events)
                    rest.remove("stale")
                    hand = tuple(action for plan in made.plans for action in plan.actions)
                    held = s._replace(events=tuple(rest), memory=made.memory, hand=hand)
                    self._add(held, number, ("decide, and act later",))
                if any(kind == "Admit" for kind, _ in done) and "deny" in s.events:
                    self._add(self._denied(s, made), number, ("decide, and all is refused",))
                if self.prompt:
                    return
        for label, after in moves(self.of, s):
            can_move = True
            yield Edge(self._add(after, number, label))
        if not can_move:
            yield from self._tick(number, s)
        for label, after in events(self.of, s):
            self._add(after, number, label)

    def _denied(self, s: State, made: Decision) -> State:
        """The decision took effect, but nothing could be created."""
        rest = list(s.events)
        rest.remove("deny")
        actions = tuple(action for plan in made.plans for action in plan.actions)
        before = s._replace(events=tuple(rest), memory=made.memory)
        return carried_out(self.of, before, actions, denied=True)

    def _tick(self, number: int, s: State) -> Iterator[Edge]:
        made = self.decision(s)
        wait = made.recheck_at - NOW if made.recheck_at else 0.0
        if made.recheck_at and wait <= 0:
            self._bad("L3: to be looked at again in the past", number)
            return
        self._check_until(number, s, made, wait or 100_000.0)
        if wait:
            yield Edge(self._add(aged(s, int(wait)), number, ("wait", f"{wait:g} s")), wait)

    # what must hold of every state

    def _check(self, number: int, s: State, made: Decision) -> None:
        for what in violations(view(self.of, s), made):
            self._bad(what.partition(":")[0] + " (violations): " + what, number)
        if actions(made):
            for what in promises.broken(self.of, s, made):
                self._bad(what, number)
        self._check_settles(number, s)

    def _check_settles(self, number: int, s: State) -> None:
        """S6: deciding again at the same moment after it took effect."""
        passes = 0
        for _ in range(8):
            made = self.decision(s)
            if any(
                self.of.jobs[job].curse == "refuse"
                for kind, job in actions(made)
                if kind == "Admit"
            ):
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

    def _check_ends(self) -> None:
        following = []
        for edges in self._edges:
            following.append([edge.to for edge in edges])
        component, components = strongly_connected(following)
        for number, states in enumerate(components):
            edges = [edge for at in states for edge in self._edges[at]]
            inner = [edge for edge in edges if component[edge.to] == number]
            if inner:
                self._check_cycle(states, inner, ends=len(inner) == len(edges))
            if len(inner) == len(edges):
                for what in promises.wrong(
                    self.of, [self.states[at] for at in states], self.decision
                ):
                    self._bad(what, states[0])

    def _check_cycle(self, states: list[int], inner: list[Edge], *, ends: bool) -> None:
        """L4: no endless cycle but the attempts of what is never bound."""
        inside = set(states)
        at_once = list[Iterable[int]]()
        fast = {}
        for at in states:
            fast[at] = [to for to, seconds, _ in self._edges[at] if to in inside and not seconds]
        deque(left(states, fast.__getitem__, at_once.append), maxlen=0)
        if at_once:
            self._bad("L4: a cycle that takes no time", states[0])
        if any(kind == "Evict" for edge in inner for kind, _ in edge.done):
            self._bad("L4: evicts for ever", states[0])
        if self.states[states[0]].out:
            return  # while the scheduler is away nothing is ever bound
        cursed = {job.team for job in self.of.jobs if job.curse}
        moved = {self.of.jobs[job].team for edge in inner for _, job in edge.done}
        if moved - cursed:
            self._bad(
                "L4: a service of which nothing is cursed is admitted and revoked for ever",
                states[0],
            )
        if not ends:
            self._bad("L4: time passes for ever though there is a way on", states[0])

    # words

    def trace(self, what: str) -> str:
        """The way to where this was seen first."""
        at = self.found[what][0]
        way = list[str]()
        last = self.states[at]
        while at >= 0:
            parent, label = self._parents[at]
            way.insert(0, f"    {', '.join(label):<44} {in_short(self.of, self.states[at])}")
            at = parent
        made = self.decision(last)
        verdicts = [
            f"      {p.key.job_id}.{v.name} {v.state} {v.reason} {v.about}"
            for p in made.plans
            for v in p.verdicts
        ]
        then = f"    then: {[f'{kind} {self.of.job_name(job)}' for kind, job in actions(made)]}"
        return "\n".join(
            [f"{what}, on this way:", *way[-60:], then, *verdicts, f"    memory: {last.memory}"]
        )


def actions(made: Decision) -> tuple[tuple[str, int], ...]:
    """What a decision does, to which jobs."""
    return tuple(
        (type(action).__name__, int(action.uid.removeprefix("job-")))
        for plan in made.plans
        for action in plan.actions
    )


def explore(shapes: Iterable[Shape]) -> int:
    """Explores each, says what came out, and whether anything was wrong."""
    wrong = 0
    for of in shapes:
        explored = Explorer(of).run()
        if not (explored.whole or explored.found):
            explored = Explorer(of, prompt=True).run()
        how = (
            ""
            if explored.whole and not explored.prompt
            else " prompt"
            if explored.whole
            else " NOT ALL"
        )
        print(
            f"{of.name:<52} {len(explored.states):>7}"
            f" states{how}{'' if explored.found else '  ok'}",
            flush=True,
        )
        for what, where in explored.found.items():
            print(f"    BAD {len(where)} times: {explored.trace(what)}", flush=True)
        wrong += bool(explored.found)
    print(f"{wrong} worlds with something wrong")
    return min(1, wrong)


def main(arguments: list[str]) -> int:
    from tests.decide.test_explorer import chosen, endless

    match arguments:
        case ["chosen", *part]:
            return explore(of for of in chosen() if " ".join(part) in of.name)
        case ["random", seconds, seed]:
            until = time.monotonic() + float(seconds)
            return explore(
                itertools.takewhile(lambda _: time.monotonic() < until, endless(int(seed)))
            )
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
