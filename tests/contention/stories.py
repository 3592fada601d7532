"""Stories of services on scarce nodes, and how many of them serve in the end if the contract is
kept.

Each story is made of a seed: who comes when, how many there are, which nodes fail for how long.
What is promised is what section 3b promises, no more: where scale-ups may be bound before a minimum
comes, `serving` is None."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.world import Preempt
from scaler.kube.api import Object
from scaler.sim.actors.faulty_api import Never
from tests.contention.services import A, B, Service, chat_services, nodes, training, written

ALL_THERE = 2.0
"""Seconds within which services come that are applied together: none runs before, so none scales up
before."""
PRIORITIES = (0, 5, 9)
COME_FIRST = ("Namespace", "PriorityClass")
PATIENCE = 360.0
"""Seconds for which a minimum may wait beside nodes that are free for it, while another waits for
expected room."""
AT_WORK = 150.0
"""From when on faults happen: even the slowest pods run by then."""


def dice(what: str, seed: int) -> random.Random:
    """Chance for one purpose, so that more draws for another change nothing here."""
    return random.Random(f"{what}-{seed}")


class Story(msgspec.Struct):
    """One story with everything decided."""

    services: list[Service]
    nodes: list[dict[str, Any]]
    events: list[dict[str, Any]]
    serving: int | None = None
    """So many serve in the end; None = as many as it happens, as long as none waits in vain."""
    before: int | None = None
    """So many serve just before the faults begin."""
    given_up: Set[str] = frozenset()
    """Keys of services that make no progress."""
    whole: Set[str] = frozenset()
    """Keys of services that run their largest ratio in the end."""
    serves: Set[str] = frozenset()
    """Keys of services that serve in the end."""
    rests: bool = True
    settings: dict[str, Any] = {}
    """Of the controller."""
    curses: list[dict[str, Any]] = []
    patience: float = PATIENCE
    admissions: int = 2
    """Of one instance at most, once what the last event changed is sorted out."""

    @property
    def last_event(self) -> float:
        return max(float(event["at"]) for event in self.events)


def event(at: float, **what: Any) -> dict[str, Any]:
    """Of a scenario."""
    return {"at": round(at, 3), **what}


def node_event(at: float, becomes: str, *names: str) -> dict[str, Any]:
    """All nodes, or these, become so."""
    return event(at, node={**({"names": names} if names else {}), "becomes": becomes})


class StoryMaker(msgspec.Struct):
    """What a story is made with: its dice, a folder for manifests, and whether Ascend Operator
    makes the pods."""

    rng: random.Random
    folder: Path
    beside: bool = False

    def chat_services(self, count: int, **more: Any) -> list[Service]:
        return chat_services(count, beside=self.beside, **more)

    def ranked(self, services: Sequence[Service]) -> list[Service]:
        """Half of the time all have one priority, else each any of three."""
        if self.rng.random() < 0.5:
            return list(services)
        return [
            msgspec.structs.replace(one, priority=self.rng.choice(PRIORITIES)) for one in services
        ]

    def settings(self) -> dict[str, Any]:
        """Whatever may be evicted for a minimum."""
        return {"preempt": self.rng.choice(list(Preempt)).value}

    def service(self, name: str, **more: Any) -> Service:
        return Service(name, beside=self.beside, **more)

    def apply(self, at: float, name: str, manifests: Sequence[Object]) -> dict[str, Any]:
        return event(at, apply=str(written(self.folder, name, manifests)))

    def together(self, services: Sequence[Service], *, at: float = 0.0) -> list[dict[str, Any]]:
        """All within ALL_THERE, in a few bursts, jobs and rules of all of them in any order."""
        merged = self.merged(services)
        size = len(merged) // self.rng.randint(1, 4) + 1
        bursts = [merged[first : first + size] for first in range(0, len(merged), size)]
        times = sorted(self.rng.uniform(0.0, ALL_THERE) for _ in bursts)
        parts = zip(times, bursts, strict=True)
        return [
            self.apply(at + time, f"{services[0].name}-{n}", burst)
            for n, (time, burst) in enumerate(parts)
        ]

    def merged(self, services: Sequence[Service]) -> list[Object]:
        """Namespaces and priorities first, then everything else shuffled."""
        things = [thing for service in services for thing in service.manifests()]
        rest = [thing for thing in things if thing["kind"] not in COME_FIRST]
        if self.rng.random() < 0.8:  # else the jobs of a service come one after the other
            self.rng.shuffle(rest)
        return [*(thing for thing in things if thing["kind"] in COME_FIRST), *rest]

    def one_by_one(
        self, services: Sequence[Service], gap: float, at: float = 0.0
    ) -> list[dict[str, Any]]:
        """Whole services, with random gaps of `gap` seconds in the mean."""
        events = []
        for service in services:
            events.append(self.apply(at, service.name, service.manifests()))
            at += self.rng.expovariate(1 / gap)
        return events


def _twenty(make: StoryMaker, *, on: int) -> Story:
    """Twenty services come together, on so many nodes."""
    services = make.ranked(make.chat_services(20))
    events = make.together(services)
    return Story(services, [nodes(on)], events, serving=min(20, on // 2), settings=make.settings())


def failover(make: StoryMaker) -> Story:
    """The scaler dies and starts, its watches break and its requests fail while it sorts out who
    serves."""
    story = _twenty(make, on=20)
    troubles: list[dict[str, Any]] = [
        {"controller": "restart"},
        {"api_fault": {"kind": "watches-cut"}},
        {"api_fault": {"kind": "errors", "share": 0.5, "lasting": 5}},
    ]
    latest = make.rng.choice([4.0, 4.0, 30.0])
    for _ in range(make.rng.randint(1, 4)):
        story.events.append(event(make.rng.uniform(0.05, latest), **make.rng.choice(troubles)))
    return story


def arrivals(make: StoryMaker) -> Story:
    """One after the other: those that come first may scale up before the last are there."""
    services = make.ranked(make.chat_services(20))
    gap = make.rng.choice([0.3, 1.0, 3.0, 10.0])
    count = make.rng.randint(16, 44)
    settings = make.settings()
    evicts = settings["preempt"] == Preempt.EQUAL_OR_HIGHER.value and not any(
        one.priority for one in services
    )
    serving = min(20, count // 2) if evicts else None
    return Story(
        services, [nodes(count)], make.one_by_one(services, gap), serving=serving, settings=settings
    )


def preempting(make: StoryMaker) -> Story:
    """Those that come first have scaled up on all nodes; later ones are worth more, as much, or
    less."""
    rng = make.rng
    settings = make.settings()
    early = make.ranked(make.chat_services(rng.randint(2, 4), ladder=((4, 2), (2, 1), (1, 1))))
    late = []
    for number in range(rng.randint(1, 4)):
        pods = rng.choice([1, 1, 2])
        rank = rng.choice(PRIORITIES)
        late.append(make.service(f"late-{number}", ladder=((1, 1),), pods=pods, priority=rank))
    if rng.random() < 0.3:
        early[0] = msgspec.structs.replace(early[0], annotations={"preemptable": "false"})
    events = [*make.together(early), *make.one_by_one(late, rng.choice([0.5, 20.0]), at=AT_WORK)]
    count = rng.randint(2 * len(early), 6 * len(early) + 2)
    return Story([*early, *late], [nodes(count)], events, before=len(early), settings=settings)


def job_by_job(make: StoryMaker) -> Story:
    """Every job comes alone, over minutes; a minimum is incomplete for a while."""
    services = make.ranked(make.chat_services(6))
    moments = [(make.rng.uniform(0.0, 120.0), thing) for thing in make.merged(services)]
    events = [
        make.apply(0.0 if thing["kind"] in COME_FIRST else at, f"thing-{n}", [thing])
        for n, (at, thing) in enumerate(moments)
    ]
    return Story(services, [nodes(make.rng.randint(6, 18))], events, settings=make.settings())


def rack_lost(make: StoryMaker) -> Story:
    """Up to twelve of 23 nodes go and come back, after seconds or after their pods were evicted."""
    services = make.chat_services(10)
    rng = make.rng
    lost = rng.uniform(AT_WORK, AT_WORK + 30)
    back = rng.choice([3.0, 20.0, 120.0, 400.0])
    names = [f"npu-{n}" for n in rng.sample(range(23), rng.randint(1, 12))]
    fate = rng.choice(["not-ready", "not-ready", "cordoned"])
    events = make.together(services)
    events += [
        node_event(lost, fate, *names),
        node_event(lost + back * rng.uniform(0.5, 1.5), "ready", *names),
    ]
    return Story(services, [nodes(23)], events, serving=10, before=10)


def flapping(make: StoryMaker) -> Story:
    """Nodes stop answering and come back, again and again, some faster than it is noticed."""
    services = make.chat_services(8)
    rng = make.rng
    events = make.together(services)
    for _ in range(rng.randint(5, 20)):
        name = f"npu-{rng.randrange(20)}"
        at = rng.uniform(AT_WORK, AT_WORK + 200)
        events += [
            node_event(at, "not-ready", name),
            node_event(at + rng.choice([0.2, 2.0, 20.0]), "ready", name),
        ]
    events.append(node_event(AT_WORK + 230, "ready"))
    return Story(services, [nodes(20)], events, serving=8, before=8)


def mixed_hardware(make: StoryMaker) -> Story:
    """Two kinds of nodes; who needs one of them is there before who takes any."""
    rng = make.rng
    old, new, flexible = (rng.randint(1, 4) for _ in range(3))
    extra = rng.randint(0, 2 * flexible)
    picky = [make.service(f"old-{n}", kind=A) for n in range(old)]
    picky += [make.service(f"new-{n}", kind=B) for n in range(new)]
    easy = [make.service(f"any-{n}") for n in range(flexible)]
    rng.shuffle(picky)
    events = [*make.together(picky), *make.together(easy, at=ALL_THERE + 1.0)]
    rooms = [nodes(2 * old + extra), nodes(2 * new + 2 * flexible - extra, B, first=100)]
    return Story([*picky, *easy], rooms, events, serving=old + new + flexible)


def sizes(make: StoryMaker) -> Story:
    """The oldest needs eight of twenty nodes, eight others two each, and one never fits; the oldest
    is removed."""
    large = make.service("large", ladder=((1, 1),), pods=4)
    huge = make.service("huge", ladder=((1, 1),), pods=16)
    small = make.chat_services(8)
    first = make.apply(0.0, large.name, large.manifests())
    over = event(make.rng.uniform(AT_WORK, AT_WORK + 100), delete_file=first["apply"])
    events = [first, *make.together([huge, *small], at=1.5), over]
    return Story([large, huge, *small], [nodes(20)], events, serving=8, before=7)


def any_sizes(make: StoryMaker) -> Story:
    """Services of all makes on nodes that are too few."""
    rng = make.rng
    ladders = [((2, 1), (1, 1)), ((1, 1),), ((3, 2), (2, 1), (1, 1)), ((1, 0),), ((4, 2), (2, 1))]
    services = [
        make.service(f"any-{n}", ladder=rng.choice(ladders), pods=rng.choice([1, 1, 2, 3]))
        for n in range(rng.randint(3, 8))
    ]
    services = make.ranked(services)
    return Story(
        services, [nodes(rng.randint(4, 24))], make.together(services), settings=make.settings()
    )


def _never_starts(make: StoryMaker, *, how: str) -> Story:
    """One service is in no other's way: it fits nowhere (huge), has no decode job and never gets
    one (half), or names a scheduler that does not exist (stuck)."""
    count = make.rng.randint(2, 5 if how == "huge" else 4)
    stuck = how == "stuck"
    odd: dict[str, dict[str, Any]] = {
        "huge": {"pods": 2 * count},
        "half": {"jobs": (1, 0)},
        "stuck": {"scheduler": "nobody"},
    }
    first, *small = make.chat_services(count)
    never = make.service(f"a-{how}", **odd[how])
    if stuck:
        events = make.together([never, first, *small])
    else:  # who is alone is admitted whatever is wrong with it
        events = [
            make.apply(0.0, first.name, first.manifests()),
            *make.together([never, *small], at=1.0),
        ]
    return Story(
        [never, first, *small],
        [nodes(3 * count)],
        events,
        serving=count,
        whole={one.key for one in (first, *small)},
        given_up={never.key} if stuck else frozenset(),
        rests=not stuck,
    )


def removed(make: StoryMaker) -> Story:
    """Who waited gets the nodes of who goes."""
    rng = make.rng
    services = make.chat_services(rng.randint(3, 8))
    count = rng.randint(2, 2 * len(services))
    gone = rng.sample(services, rng.randint(1, len(services) - 1))
    at = AT_WORK
    events = make.together(services)
    for service in gone:
        file = written(
            make.folder,
            service.name,
            [one for one in service.manifests() if one["kind"] == "AscendJob"],
        )
        events.append(event(at, delete_file=str(file)))
        at += rng.choice([0.01, 1.0, 30.0])
    left = len(services) - len(gone)
    return Story(
        services,
        [nodes(count)],
        events,
        serving=min(left, count // 2),
        before=min(len(services), count // 2),
    )


def shared_with_training(make: StoryMaker) -> Story:
    """Waves of foreign pods come and go; each may leave an odd node, on which a service scales
    up."""
    rng = make.rng
    waves = make.rng.randint(1, 3)
    services = make.chat_services(8)
    count = 16 + 2 * waves
    events = []
    first = 0
    for wave in range(waves):
        size = rng.randint(2, 14)
        come = 0.0 if not wave else rng.uniform(5.0, 200.0)
        came = make.apply(come, f"wave-{wave}", training(size, first))
        events += [came, event(come + rng.uniform(20.0, 200.0), delete_file=came["apply"])]
        first += size
    events += make.together(services, at=4.0)
    return Story(services, [nodes(count)], events, serving=8)


ONE = "a-cursed-p0"
DECODE = "a-cursed-d0"
ALL = "*"
"""What is cursed: one prefill instance, for which there is another; the only decode instance; all
of them."""


def _cursed(make: StoryMaker, *, never: Never) -> Story:
    """Something of one service makes no progress, from the beginning or from a moment on, for a
    while or for ever."""
    rng = make.rng
    if never is Never.MADE and not make.beside:
        never = Never.CREATED  # where the scaler makes the pods itself they are refused
    pods = 2 if never is Never.HALF_BOUND else rng.choice([1, 1, 2])
    what = rng.choice([ONE, DECODE, ALL])
    lasting = rng.choice([None, None, 40.0, 200.0])
    cursed = make.service("a-cursed", pods=pods)
    ample = rng.random() < 0.5
    count = rng.randint(2, 6)
    # scale-ups may be bound before a minimum gets its attempt
    ladder = ((2, 1), (1, 1)) if ample else ((1, 1),)
    *small, cursed = make.ranked([*make.chat_services(count, ladder=ladder), cursed])
    own_minimum = 2 * pods if lasting else 0
    room = 3 * count + 4 * pods if ample else 2 * count + _held(never, what, pods) + own_minimum
    curse = {
        "of": f"{cursed.name}/{what}",
        "never": never.value,
        **({"until": lasting} if lasting else {}),
    }
    settings = {**make.settings(), "start_timeout": 200}
    own = {cursed.key} if ample and (what == ONE or lasting) else set()
    patience = WORTH_MORE if any(one.worth < cursed.worth for one in small) else HELD_UP
    return Story(
        [cursed, *small],
        [nodes(room)],
        make.together([cursed, *small]),
        rests=False,
        settings=settings,
        given_up={cursed.key},
        whole={one.key for one in small} if ample else frozenset(),
        serves={one.key for one in small} | own,
        curses=[curse],
        patience=patience,
        admissions=3,
    )


HELD_UP = 2 * 30.0 + 20.0
WORTH_MORE = 2 * 300.0 + 20.0
"""Seconds for which one service whose pods are never bound may hold up others: two attempts, with
different instances, and time for the rest. While nothing is bound an attempt lasts longer for those
that are worth less."""


def several_stuck(make: StoryMaker) -> Story:
    """Several services make no progress, and are worth as much as another one or more. Nothing else
    is bound. The other one serves, or scales up, when it has waited for five minutes. An hour is
    quiet."""
    rng = make.rng
    climbs = rng.random() < 0.4
    ladder = ((2, 1), (1, 1)) if climbs else ((1, 1),)
    never = Never.BOUND
    if not climbs and rng.random() < 0.3:
        never = Never.MADE if make.beside else Never.CREATED
    worth = rng.choice(PRIORITIES)
    stuck = []
    for number in range(rng.randint(2, 5)):
        stuck.append(make.service(f"a-stuck-{number}", ladder=ladder, priority=worth))
    other = make.service("other", ladder=ladder)
    curses = []
    for one in stuck:
        what = f"{one.name}-p1" if climbs else ALL
        curses.append({"of": f"{one.name}/{what}", "never": never.value})
    return Story(
        [*stuck, other],
        [nodes(2 * len(stuck) + 3 if climbs else 2)],
        [*make.together(stuck), *make.together([other], at=5.0), event(2100.0, mark="quiet")],
        rests=False,
        given_up={one.key for one in stuck},
        whole={other.key},
        curses=curses,
        patience=WAITED + len(stuck) * 40.0,
        admissions=12,
    )


WAITED = 300.0 + 40.0
"""Seconds after which a service goes next, with time for the attempt that runs then. Others of a
higher priority may have one attempt each before it."""


def _held(never: Never, what: str, pods: int) -> int:
    """Nodes that the cursed service holds at most while it makes no progress."""
    bound = {Never.HALF_BOUND: 1, Never.RUNNING: pods}.get(never, 0)
    return {ONE: 2 * pods + bound, DECODE: pods + bound, ALL: 3 * bound}[what]


def never_ending(make: StoryMaker) -> Story:
    """A service is removed, its pods stay, and a large one waits for them; a small one needs only
    what is free."""
    rng = make.rng
    lasting = make.rng.choice([None, 60.0])
    old = make.service("old", ladder=((1, 1),), pods=2)
    calm = make.service("calm", ladder=((1, 1),))
    large = make.service("a-large", ladder=((1, 1),), pods=3)
    small = make.service("small", ladder=((1, 1),))
    over = AT_WORK + 10.0
    curse = {
        "of": "old/*",
        "never": Never.ENDING.value,
        **({"until": over + lasting} if lasting else {}),
    }
    first = make.apply(0.0, old.name, old.manifests())
    jobs = written(
        make.folder, "old-jobs", [one for one in old.manifests() if one["kind"] == "AscendJob"]
    )
    events = [
        first,
        make.apply(1.0, calm.name, calm.manifests()),
        make.apply(3.0, large.name, large.manifests()),
        event(over, delete_file=str(jobs)),
        make.apply(over + rng.uniform(1.0, 200.0), small.name, small.manifests()),
    ]
    serves = {calm.key, large.key if lasting else small.key}
    room = [nodes(2 + 4 + rng.randint(2, 3))]
    return Story(
        [old, calm, large, small], room, events, serves=serves, curses=[curse], patience=ABSENT
    )


ABSENT = 300.0 + 30.0 + 60.0
"""Seconds for which expected room may be waited for: `due_back`, grace period, and time for
the rest."""


def node_gone(make: StoryMaker) -> Story:
    """A large service loses a node for ever and waits for it; a small one needs only what is
    free."""
    rng = make.rng
    large = make.service("a-large", ladder=((1, 1),), pods=4)
    small = make.service("small", ladder=((1, 1),))
    fate = rng.choice(["not-ready", "cordoned"])
    lost = AT_WORK + rng.uniform(0.0, 30.0)
    events = [
        make.apply(0.0, large.name, large.manifests()),
        event(
            lost, node={"of_job": f"{large.name}/{large.name}-p0", "at_most": 1, "becomes": fate}
        ),
        make.apply(lost + rng.uniform(1.0, 200.0), small.name, small.manifests()),
    ]
    if fate == "cordoned":  # its pods run on, until one of them is deleted
        gone = {"kind": "Pod", "name": f"{large.name}-p0-master-0", "namespace": large.name}
        events.insert(2, event(lost + 0.5, delete=gone))
    return Story([large, small], [nodes(8)], events, patience=ABSENT)


def scheduler_away(make: StoryMaker) -> Story:
    """The scheduler holds no sessions for minutes while services come."""
    services = make.ranked(make.chat_services(10))
    rng = make.rng
    count = rng.choice([12, 20, 30])
    away = rng.choice([20.0, 100.0, 700.0])
    begin = rng.choice([0.0, 3.0])
    events = make.together(services)
    events += [event(begin, scheduler="stopped"), event(begin + away, scheduler="running")]
    return Story(
        services,
        [nodes(count)],
        events,
        serving=min(10, count // 2),
        settings=make.settings(),
        patience=away + PATIENCE,
    )


_CURSES = {
    "unbound": Never.BOUND,
    "half-bound": Never.HALF_BOUND,
    "not-enqueued": Never.ENQUEUED,
    "refused": Never.CREATED,
    "never-running": Never.RUNNING,
    "not-made": Never.MADE,
}
STORIES: Mapping[str, Callable[[StoryMaker], Story]] = {
    "on-forty": partial(_twenty, on=40),
    "on-twenty": partial(_twenty, on=20),
    "never-fits": partial(_never_starts, how="huge"),
    "never-bound": partial(_never_starts, how="stuck"),
    "incomplete": partial(_never_starts, how="half"),
    **{name: partial(_cursed, never=never) for name, never in _CURSES.items()},
    **{
        made.__name__.replace("_", "-"): made
        for made in (
            failover,
            arrivals,
            job_by_job,
            rack_lost,
            flapping,
            mixed_hardware,
            sizes,
            any_sizes,
            removed,
            shared_with_training,
            preempting,
            never_ending,
            node_gone,
            scheduler_away,
            several_stuck,
        )
    },
}
