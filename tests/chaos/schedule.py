"""One history of trouble from one seed: a world, lives of the controller, events, and faults of the API.

Pure: the same seed gives the same schedule, byte for byte. Everything in it ends with the storm.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from scaler.rules.rule import ALL
from scaler.sim.actors.nodes import NodeSpec
from tests.chaos import things
from tests.chaos.healthy_tenant import HEALTHY
from tests.chaos.healthy_tenant import NODES as HEALTHY_NODES
from tests.chaos.not_yet import NOT_YET
from tests.chaos.things import CPU_NODE, Service, World
from tests.faults import Fault, Rule
from tests.simulation.kinds import Ratio

WATCHED = ("AscendJob", "Pod", "PodGroup", "Service", "ConfigMap", "Node", "Lease")
NAMES = "abc"


class Event(msgspec.Struct, frozen=True):
    """Something that happens `at` seconds to `subject`; `amount` is a duration in seconds or a number, by `what`."""

    at: float
    what: str
    subject: str = ""
    amount: float = 0.0


class ApiFault(msgspec.Struct, frozen=True):
    """One fault of the API, from `start` for `lasting` seconds, for the controller's clients."""

    what: str
    start: float
    lasting: float
    probability: float
    fault: Fault
    verbs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    seconds: float = 0.0
    status: int = 409
    retry_after: float | None = None
    replica: int = -1
    """Whose clients it is injected into; -1: everybody's."""
    namespaces: tuple[str, ...] = ()

    def rule(self, origin: float) -> Rule:
        return Rule(
            fault=self.fault, verbs=frozenset(self.verbs), kinds=frozenset(self.kinds), probability=self.probability,
            start=origin + self.start, end=origin + self.start + self.lasting, seconds=self.seconds,
            status=self.status, retry_after=self.retry_after, namespaces=frozenset(self.namespaces),
        )  # fmt: skip


RESTORE_TAKES = 5.0
"""Seconds in which nobody gets an answer while etcd is restored and the API server starts again."""


class Schedule(msgspec.Struct, frozen=True):
    seed: int
    world: World
    storm: float
    """Seconds until everything that goes wrong has ended."""
    events: tuple[Event, ...] = ()
    api_faults: tuple[ApiFault, ...] = ()
    replicas: int = 1
    election: bool = False
    linger: float = 0.0
    """Share of the writes that reach the server seconds after their client gave up on them or died."""
    stale_lists: float = 0.0
    """Share of the lists that are answered with what the same client was told before."""
    lost_nodes: tuple[str, ...] = ()
    """Nodes that never come back."""
    gangs: bool = True
    """Whether the scheduler binds gangs whole; otherwise each pod for itself."""
    attacked: bool = False
    """Whether it is about one attack, and nothing else hinders the scaler."""
    earlier: bool = False
    """Whether the replicas are of the release before at the beginning (tests.chaos.skew)."""

    def outages(self) -> list[ApiFault]:
        """Of the API server, one for each restore of etcd."""
        at = [event.at for event in self.events if event.what == "etcd restored"]
        return [ApiFault("etcd is restored", start, RESTORE_TAKES, 1.0, Fault.NOT_SENT) for start in at]


def schedule(seed: int) -> Schedule:
    """What happens of itself, in every second one attacks as well, and in some an autoscaler."""
    made = _attacked(_schedule(seed), random.Random(f"attacks-{seed}"))
    return scaled(made, random.Random(f"scaled-{seed}"))


def _schedule(seed: int) -> Schedule:
    rng = random.Random(f"campaign-{seed}")
    world = _world(rng)
    storm = rng.choice([60.0, 120.0, 240.0])
    replicas = rng.choice([1, 2, 2])
    pool_nodes = [node.name for node in world.nodes if node is not CPU_NODE]
    return Schedule(
        seed=seed,
        world=world,
        replicas=replicas,
        election=replicas > 1 or rng.random() < 0.5,
        storm=storm,
        events=events_of(rng, EVENTS, Scene(world.services, world.nodes, replicas), storm),
        api_faults=tuple(
            random_api_fault(rng, storm, rng.choice([-1, rng.randrange(replicas)]))
            for _ in range(rng.choice([0, 1, 2, 4, 7]))
        ),
        linger=rng.choice([0.0, 0.0, 0.1]),
        stale_lists=rng.choice([0.0, 0.0, 0.2]),
        lost_nodes=tuple(rng.sample(pool_nodes, rng.choice([0, 0, 0, 1, 2]) % (len(pool_nodes) + 1))),
    )


# the world


def _world(rng: random.Random) -> World:
    number = rng.choice([1, 1, 1, 2, 2, 3])
    shared = number > 1 and rng.random() < 0.4
    apart = rng.random() < 0.5
    services = tuple(_service(rng, NAMES[i], shared=shared, apart=apart) for i in range(number))
    nodes = [CPU_NODE]
    for pool in dict.fromkeys(service.pool for service in services):
        inside = [service for service in services if service.pool == pool]
        least = max(s.nodes_for(s.ladder[-1]) for s in inside)
        most = sum(s.nodes_for(s.ladder[0]) for s in inside) + 1
        nodes += things.nodes(pool, rng.randint(least, most))
    return World(services, tuple(nodes))


def _service(rng: random.Random, name: str, *, shared: bool, apart: bool) -> Service:
    ladder = ladder_of(rng, 4, 3, 3)
    jobs = (max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])), max(1, ladder[0][1] + rng.choice([-1, 0, 0, 1])))
    pods = (rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3]))
    namespace = f"ns-{name}" if apart else "mindie"
    return Service(name, namespace, "all" if shared else name, ladder, jobs, pods, mindie=rng.random() < 0.7)


def ladder_of(rng: random.Random, prefill: int, decode: int, steps: int) -> tuple[Ratio, ...]:
    """Falling ratios, at most so many below the first; the smallest serves."""
    ladder = [(rng.randint(1, prefill), rng.randint(1, decode))]
    for _ in range(rng.randint(0, steps)):
        below = (rng.randint(1, ladder[-1][0]), rng.randint(1, ladder[-1][1]))
        if below != ladder[-1]:
            ladder.append(below)
    return tuple(ladder)


# what happens


class Scene(NamedTuple):
    """Whom something may happen to."""

    services: Sequence[Service]
    nodes: Sequence[NodeSpec]
    replicas: int


Maker = Callable[[random.Random, float, Scene], Event]


def events_of(
    rng: random.Random, catalogue: Sequence[tuple[Maker, int]], scene: Scene, storm: float
) -> tuple[Event, ...]:  # fmt: skip
    """Up to twenty; troubles come in company, so that two of them often meet within a second or two."""
    makers = [maker for maker, weight in catalogue for _ in range(weight)]
    made: list[Event] = []
    for _ in range(rng.choice([2, 6, 12, 20])):
        near = made[-1].at + rng.expovariate(1.0) if made and rng.random() < 0.4 else storm
        at = round(near if near < storm else rng.uniform(0, storm), rng.choice([0, 3]))
        made.append(rng.choice(makers)(rng, at, scene))
    return tuple(sorted(made, key=lambda event: event.at))


def _on_replica(what: str, least: float, most: float) -> Maker:
    return lambda rng, at, scene: Event(
        at, what, str(rng.randrange(scene.replicas)), round(rng.uniform(least, most), 2)
    )  # fmt: skip


def _on_job(what: str) -> Maker:
    return lambda rng, at, scene: Event(
        at, what, rng.choice(rng.choice(scene.services).job_names()), rng.randrange(3)
    )  # fmt: skip


def on_service(what: str) -> Maker:
    return lambda rng, at, scene: Event(at, what, rng.choice(scene.services).name, rng.randrange(100))


def _on_node(what: str) -> Maker:
    return lambda rng, at, scene: Event(at, what, rng.choice(scene.nodes).name)


def _plain(what: str) -> Maker:
    return lambda _rng, at, _scene: Event(at, what)


def _number_of(what: str, least: int, most: int) -> Maker:
    return lambda rng, at, _scene: Event(at, what, "", rng.randint(least, most))


Catalogue = tuple[tuple[Maker, int], ...]
TO_THE_SCALER: Catalogue = (
    (_on_replica("crash", 0.0, 10.0), 4),
    (_on_replica("stop", 0.0, 10.0), 2),
    (_on_replica("freeze", 1.0, 30.0), 3),
    (_plain("lease deleted"), 1),
    (_plain("lease emptied"), 1),
    (_plain("compaction"), 2),
    (_plain("watches cut"), 2),
)
TO_NODES: Catalogue = (
    (_on_node("node not ready"), 2),
    (_on_node("node gone"), 2),
    (_on_node("node cordoned"), 1),
    (_on_node("node back"), 3),
)
TO_RULES: Catalogue = (
    (on_service("rule edited"), 3),
    (on_service("rule broken"), 2),
    (on_service("rule deleted"), 2),
    (on_service("rule mended"), 2),
    (on_service("rule paused"), 1),
)
EVENTS: Catalogue = (
    *TO_THE_SCALER,
    (_on_job("pod killed"), 3),
    (_on_job("pod failed"), 2),
    (_on_job("pod evicted"), 2),
    (_on_job("instance killed"), 3),
    *TO_NODES,
    (_on_job("job deleted"), 2),
    (_on_job("job applied"), 3),
    (_on_job("job applied anew"), 2),
    (_on_job("group label changed"), 1),
    (_on_job("rule label removed"), 1),
    (_on_job("name taken"), 1),
    *TO_RULES,
    (_plain("operator comes"), 1),
    (_plain("operator goes"), 1),
)

ATTACKS: Catalogue = tuple(
    (maker, weight) for maker, weight in (
        (_number_of("hostile rules", 1, 2), 1),
        (_number_of("hostile numbers", 1, 6), 2),
        (_number_of("hostile depth", 1, 4), 2),
        (_number_of("hostile crowd", 3, 12), 2),
        (_number_of("hostile labels", 1, 12), 3),
        (_number_of("hostile flood", 10, 60), 2),
        (_number_of("etcd restored", 5, 60), 1),
        (_on_replica("clock stepped", 3600, 3600), 1),
        (_on_replica("clock stepped", -3600, -3600), 1),
    )
    if maker(random.Random(0), 0.0, Scene((), (), 1)).what not in NOT_YET
)  # fmt: skip

_Kind = tuple[str, Fault, tuple[str, ...], tuple[str, ...]]
WRITES = ("create", "delete", "patch", "replace")
_API_FAULTS: tuple[tuple[_Kind, dict[str, float]], ...] = (
    (("409", Fault.REFUSED, WRITES, ()), {"status": 409}),
    (("404 on patch", Fault.REFUSED, ("patch",), ()), {"status": 404}),
    (("429", Fault.REFUSED, (), ()), {"status": 429}),
    (("429 with Retry-After", Fault.REFUSED, (), ()), {"status": 429, "retry_after": 2}),
    (("500", Fault.REFUSED, (), ()), {"status": 500}),
    (("503", Fault.REFUSED, (), ()), {"status": 503}),
    (("401", Fault.REFUSED, (), ()), {"status": 401}),
    (("quota 403", Fault.REFUSED, ("create",), ("Pod",)), {"status": 403}),
    (("422", Fault.REFUSED, ("create",), ("Pod", "PodGroup", "Service")), {"status": 422}),
    (("410 on list or watch", Fault.REFUSED, ("list", "watch"), ()), {"status": 410}),
    (("not sent", Fault.NOT_SENT, (), ()), {}),
    (("lost request", Fault.LOST_REQUEST, (), ()), {}),
    (("lost answer", Fault.LOST_ANSWER, (), ()), {}),
    (("lost answer of a write", Fault.LOST_ANSWER, WRITES, ()), {}),
    (("lease out of reach", Fault.LOST_REQUEST, (), ("Lease",)), {}),
    (("lease written, answer lost", Fault.LOST_ANSWER, WRITES, ("Lease",)), {}),
    (("delay", Fault.DELAY, (), ()), {"seconds": 3}),
    (("answer after the deadline", Fault.SLOW_ANSWER, (), ()), {"seconds": 12}),
    (("watch cut", Fault.CUT, ("watch",), ()), {}),
    (("watch reset", Fault.RESET, ("watch",), ()), {}),
)


def random_api_fault(rng: random.Random, storm: float, replica: int, watched: tuple[str, ...] = WATCHED) -> ApiFault:
    """One fault; watches of the kinds in `watched` may lag."""
    start = round(rng.uniform(0, storm * 0.8), 1)
    lasting = round(rng.uniform(1, storm - start), 1)
    if rng.random() < 0.25:
        seconds = round(rng.uniform(0.1, 30), 1)
        kind = rng.choice(watched)
        return ApiFault(f"lag of {kind}", start, lasting, 1.0, Fault.LAG, ("watch",), (kind,), seconds, replica=replica)
    (what, fault, verbs, kinds), more = rng.choice(_API_FAULTS)
    return ApiFault(
        what, start, lasting, rng.choice([0.02, 0.1, 0.3, 1.0 if lasting < 30 else 0.5]), fault, verbs, kinds,
        seconds=float(more.get("seconds", 0)), status=int(more.get("status", 409)),
        retry_after=more.get("retry_after"), replica=replica,
    )  # fmt: skip


def blind(kind: str, how: str, start: float, lasting: float, replica: int = -1) -> tuple[ApiFault, ...]:
    """The watch of one kind ends and is not to be had again (403, hang), or says nothing any more (silent)."""
    if how == "silent":
        return (ApiFault(f"silent: {kind}", start, lasting, 1.0, Fault.SILENT, ("watch",), (kind,), replica=replica),)
    fault = Fault.REFUSED if how == "403" else Fault.DELAY
    return (
        ApiFault(f"{how}: {kind}", start, lasting, 1.0, fault, ("list", "watch"), (kind,), 30.0, 403, replica=replica),
        ApiFault(f"watch of {kind} cut", start, lasting, 1.0, Fault.CUT, ("watch",), (kind,), replica=replica),
    )


def slow_webhook(namespace: str, start: float, lasting: float) -> ApiFault:
    """Creating pods in one namespace takes longer than anybody waits: somebody else's webhook does not answer."""
    return ApiFault(
        f"pods of {namespace} hang", start, lasting, 1.0, Fault.DELAY, ("create",), ("Pod",), 30.0,
        namespaces=(namespace,),
    )  # fmt: skip


def told_to_wait(start: float, lasting: float, verbs: tuple[str, ...] = ()) -> ApiFault:
    """Everything (or these verbs) is refused, and is to come again in a minute."""
    kinds = ("Pod", "PodGroup", "Service", "AscendJob", "ConfigMap")
    return ApiFault(
        "429 with Retry-After 60", start, lasting, 1.0, Fault.REFUSED, verbs, kinds, status=429, retry_after=60.0
    )  # fmt: skip


def _attacked(made: Schedule, rng: random.Random) -> Schedule:
    """In every second one a hostile tenant, a blind spell or the like, and a healthy service that nobody touches."""
    if rng.random() < 0.5:
        return made
    world, storm = made.world, made.storm
    world = msgspec.structs.replace(world, services=(*world.services, HEALTHY), nodes=(*world.nodes, *HEALTHY_NODES))
    makers = [maker for maker, weight in ATTACKS for _ in range(weight)]
    scene = Scene(made.world.services, made.world.nodes, made.replicas)
    events = [rng.choice(makers)(rng, round(rng.uniform(0, storm), 1), scene) for _ in range(rng.choice([0, 1, 3, 6]))]
    api_faults = [
        one
        for _ in range(rng.choice([0, 1, 2]))
        for one in _hardship(rng, scene, round(rng.uniform(0, storm * 0.6), 1), round(rng.uniform(5, storm * 0.4), 1))
    ]
    events += made.events
    return msgspec.structs.replace(
        made,
        world=world,
        events=tuple(sorted(events, key=lambda event: event.at)),
        api_faults=(*made.api_faults, *api_faults),
    )


SCALED = "service scaled"
NUMBERS = (0, 0, 1, 2, 3, 3, 4, 5, 6, ALL, ALL)
"""Of instances that somebody wants in all."""


def scaled(made: Schedule, rng: random.Random) -> Schedule:
    """Somebody wants fewer instances, or more, at random moments; what they want last stays so."""
    if rng.random() < 0.6:
        return made
    names = [service.name for service in made.world.services if service is not HEALTHY]
    events = [
        Event(round(rng.uniform(0, made.storm), 1), SCALED, rng.choice(names), rng.choice(NUMBERS))
        for _ in range(rng.choice([1, 2, 4, 8]))
    ]
    return msgspec.structs.replace(made, events=tuple(sorted([*made.events, *events], key=lambda event: event.at)))


def _hardship(rng: random.Random, scene: Scene, start: float, lasting: float) -> tuple[ApiFault, ...]:
    match rng.choice(["blind", "blind", "slow", "wait"]):
        case "slow":
            return (slow_webhook(rng.choice(scene.services).namespace, start, lasting),)
        case "wait":
            return (told_to_wait(start, min(lasting, 20.0), rng.choice([(), WRITES, ("list", "watch")])),)
        case _:
            replica = rng.choice([-1, rng.randrange(scene.replicas)])
            return blind(rng.choice(WATCHED[:-1]), rng.choice(["403", "silent", "hang"]), start, lasting, replica)


def describe(made: Schedule) -> str:
    """The schedule for people, one thing a line."""
    lines = [
        f"seed {made.seed}: replicas {made.replicas}, election {made.election}, storm {made.storm:g} s",
        f"  nodes {len(made.world.nodes) - 1}, lost for good: {', '.join(made.lost_nodes) or 'none'}",
        f"  lingering writes {made.linger:.0%}, stale lists {made.stale_lists:.0%}",
    ]
    lines += [
        f"  service {s.name} in {s.namespace} on {s.pool}: ladder {s.ladder}, jobs {s.jobs}, pods {s.pods}"
        f"{f', made by {s.kind.name}' if s.kind else ''}"
        f"{', MindIE Controller' if s.mindie else ''}{', quota' if s.quota else ''}"
        for s in made.world.services
    ]
    lines += [
        f"  {w.start:8.1f} s  for {w.lasting:g} s: {w.what} ({w.probability:.0%}, {w.seconds:g} s)"
        f"{'' if w.replica < 0 else f', replica {w.replica} only'}"
        for w in made.api_faults
    ]
    lines += [f"  {e.at:8.3f} s  {e.what} {e.subject} {e.amount:g}" for e in made.events]
    return "\n".join(lines)
