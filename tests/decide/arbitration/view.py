"""A small world as the controller sees it, and a pass of the controller over it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from scaler.decide.arbiter import Arbitration, arbitrate
from scaler.decide.minimums.looks import Look, Looks
from scaler.decide.planner import plan

from scaler.decide.invariants import violations
from scaler.decide.nodes import Capacity, NodeClass, PodRequest, Requirement, Room, Where
from scaler.decide.world import (
    Admit,
    ArbiterMemory,
    Complete,
    Evict,
    Instance,
    Plan,
    Policy,
    Revoke,
    ServiceKey,
    Snapshot,
)
from scaler.rules.rule import RuleOptions
from tests.builders import GROUPS, NOW, rule
from tests.decide.arbitration.world import ABSENT, Job, Pods, State, World, admit, evict, free, parts, revoke

RESOURCES = ("x/npu", "pods")
POLICY = Policy()


class Setting(NamedTuple):
    """What a user and an administrator may set, beside the world itself."""

    options: tuple[RuleOptions, ...] = ()
    priorities: tuple[int, ...] = ()
    policy: Policy = POLICY
    blurred: bool = False
    """The controller sees every free node as two: one without room for pods, one without devices. So nothing ever
    fits as far as it can see, and in all there is room."""


PLAIN = Setting()


@lru_cache
def need(kinds: tuple[int, ...], of: int) -> PodRequest:
    """A whole node of one of these kinds."""
    wanted = Requirement("kind", "In", tuple(str(kind) for kind in kinds))
    where = Where(affinity=((wanted,),)) if len(kinds) < of else Where()
    return PodRequest((("x/npu", 1), ("pods", 1)), where)


MOST_JOBS = 100
"""Of one service. Its jobs are numbered apart from those of others, so that a service looks the same in every world."""


@lru_cache(maxsize=1 << 16)
def instance(number: int, job: Job, pods: tuple[int, ...], kinds: int, priority: int) -> Instance:
    bound = sum(pod >= 0 for pod in pods)
    present = len(pods) - pods.count(ABSENT)
    what = need(job.kinds, kinds)
    return Instance(
        uid=str(number),
        name=job.name,
        group=GROUPS[job.group],
        created=NOW - 10_000 + number,
        expected=len(pods),
        pods=present,
        bound=bound,
        running=bound,
        ready=bound,
        admitted_at=NOW - 10 if present else 0.0,
        leftovers=present > 0,
        needs=((what, len(pods)),),
        unbound=((what, len(pods) - bound),) if len(pods) > bound else (),
        priority=priority,
        seats=tuple((f"node-{pod}", what) for pod in pods if pod >= 0),
    )


def key(service: int) -> ServiceKey:
    return ServiceKey("default", "rule", f"s{service}")


@lru_cache(maxsize=1 << 17)
def decided(
    service: int, text: str, jobs: tuple[Job, ...], pods: tuple[Pods | None, ...], kinds: int, setting: Setting
) -> tuple[Snapshot, Plan] | None:
    """The service alone; None while none of its jobs exists."""
    priority = setting.priorities[service] if setting.priorities else 0
    found = tuple(
        instance(service * MOST_JOBS + place, jobs[place], each, kinds, priority)
        for place, each in enumerate(pods)
        if each is not None
    )
    if not found:
        return None
    options = setting.options[service] if setting.options else RuleOptions()
    seen = Snapshot(key(service), NOW, found, rule(text.upper()), options, policy=setting.policy)
    made = plan(seen)[0]
    assert violations(seen, made) == ()
    return seen, made


def position(w: World, uid: str) -> int:
    """Which job of the world this is."""
    service, place = divmod(int(uid), MOST_JOBS)
    start: int = parts(w.jobs)[service].start
    return start + place


def alone(w: World, s: State, setting: Setting = PLAIN) -> list[tuple[Snapshot, Plan]]:
    """What each service would do by itself."""
    kinds = len(w.nodes)
    found = (
        decided(service, w.ladders[service], w.jobs[part], s.pods[part], kinds, setting)
        for service, part in enumerate(parts(w.jobs))
    )
    return [one for one in found if one is not None]


class _Known(Looks):
    """Looks at every service that is decided about in the same way only once, however many worlds it is in."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[int, int], Look] = {}
        """By identity of snapshot and plan, which each keeps alive."""

    def at(self, decided: Sequence[tuple[Snapshot, Plan]]) -> list[Look]:
        return [self._known.get((id(seen), id(made))) or self._learn(seen, made) for seen, made in decided]

    def _learn(self, seen: Snapshot, made: Plan) -> Look:
        if len(self._known) > 1 << 17:
            self._known.clear()
        (look,) = super().at([(seen, made)])
        self._known[id(seen), id(made)] = look
        return look


_LOOKS = _Known()


@lru_cache(maxsize=1 << 12)
def _capacity(up: tuple[int, ...], down: tuple[int, ...], room: tuple[int, ...], blurred: bool) -> Capacity:
    rooms = []
    for number, (there, lost, left) in enumerate(zip(up, down, room, strict=True)):
        kind = NodeClass((("kind", str(number)),))
        as_seen = ((1, 0), (0, 110)) if blurred else ((1, 110),)
        rooms += [Room(kind, (1, 110), seen, (0, 0), count=left) for seen in as_seen]
        rooms += [
            Room(kind, (1, 110), (0, 109), (0, 0), count=there - left),
            Room(kind, (1, 110), (0, 0), (1, 110), schedulable=False, count=lost),
        ]
    return Capacity(RESOURCES, tuple(room for room in rooms if room.count))


def capacity(w: World, s: State, setting: Setting = PLAIN) -> Capacity:
    return _capacity(s.up, s.down, free(w, s), setting.blurred)


def homes(w: World) -> dict[str, Room]:
    kinds = range(len(w.nodes))
    return {f"node-{k}": Room(NodeClass((("kind", str(k)),)), (1, 110), (0, 109), (0, 0)) for k in kinds}


class Pass(NamedTuple):
    """One pass of the controller: what each service would do, what is left of it, and what became of the world."""

    alone: list[tuple[Snapshot, Plan]]
    outcome: Arbitration
    after: State


def controller(
    w: World, s: State, setting: Setting = PLAIN, memory: ArbiterMemory | None = None, now: float = NOW
) -> Pass:
    """Decide, and let all of it take effect."""
    pairs = alone(w, s, setting)
    seen, remembered = capacity(w, s, setting), memory or ArbiterMemory()
    outcome = arbitrate(pairs, seen, remembered, now=now, policy=setting.policy, homes=homes(w), looks=_LOOKS)
    return Pass(pairs, outcome, performed(w, s, outcome.plans))


def performed(w: World, s: State, plans: tuple[Plan, ...]) -> State:
    for made in plans:
        for action in made.actions:
            match action:
                case Admit() | Complete():
                    s = admit(s, position(w, action.uid))
                case Revoke():
                    s = revoke(s, position(w, action.uid))
                case Evict():
                    s = evict(s, position(w, action.uid))
    return s


def wanted(w: World, pairs: list[tuple[Snapshot, Plan]]) -> set[int]:
    """Jobs that their services would admit or complete now."""
    return {
        position(w, action.uid) for _, made in pairs for action in made.actions if isinstance(action, Admit | Complete)
    }
