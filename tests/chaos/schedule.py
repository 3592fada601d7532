"""One history of trouble from one seed: a world, replicas of the controller, events, and faults of
the API.

First all that may go wrong, with weights; then what is drawn of it. Pure: the same seed gives the
same schedule, byte for byte. Everything in it ends with the storm."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from scaler.rules.rule import ALL
from scaler.sim.actors.nodes import NodeSpec
from tests.chaos.inventory import CPU_NODE, HEALTHY, HEALTHY_NODES, Inventory, Service, nodes
from tests.faults import WRITES, Fault, Rule
from tests.simulation import kinds
from tests.simulation.kinds import Ratio

WATCHED = ("AscendJob", "Pod", "PodGroup", "Service", "ConfigMap", "Node", "Lease")
SCALED = "service scaled"
NAMES = "abc"
RESTORE_TAKES = 5.0
"""Seconds in which no client gets an answer while etcd is restored and the API server starts
again."""
GATED_KINDS = (
    kinds.ASCEND_JOBS,
    kinds.ASCEND_JOBS,
    kinds.DEPLOYMENTS,
    kinds.SURGING,
    kinds.SURGING,
    kinds.LEADER_WORKER_SETS,
    kinds.LEADERS_FIRST,
    kinds.MIXED,
    kinds.MIXED,
    kinds.VOLCANO_JOBS,
    kinds.STORM_STATEFUL,
    kinds.STORM_STATELESS,
    kinds.INSTANCE_SETS,
)
"""Not bare pods: what is lost of them is not made again."""
GATED_WATCHED = (
    "Pod",
    "Pod",
    "PodGroup",
    "ConfigMap",
    "Node",
    "ReplicaSet",
    "StatefulSet",
    "LeaderWorkerSet",
    "PodSet",
    "AscendJob",
    "Job",
    "Deployment",
    "Lease",
)
NUMBERS = (0, 0, 1, 2, 3, 3, 4, 5, 6, ALL, ALL)
"""Of instances that `service scaled` asks for in all."""


class Event(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Something that happens `at` seconds to `subject`; `amount` is a duration in seconds or a
    number, by `what`."""

    at: float
    what: str
    subject: str = ""
    amount: float = 0.0


class Schedule(msgspec.Struct, frozen=True):
    seed: int
    inventory: Inventory
    storm: float
    """Seconds until everything that goes wrong has ended."""
    events: tuple[Event, ...] = ()
    api_faults: tuple[Rule, ...] = ()
    replicas: int = 1
    election: bool = False
    linger: float = 0.0
    """Share of the writes that reach the server seconds after their client gave up on them or
    died."""
    stale_lists: float = 0.0
    """Share of the lists that are answered with what the same client was answered before."""
    lost_nodes: tuple[str, ...] = ()
    """Nodes that never come back."""
    gangs: bool = True
    """Whether the scheduler binds gangs whole; otherwise each pod for itself."""
    attacked: bool = False
    """Whether it is about one attack, and nothing else hinders the scaler."""
    earlier: bool = False
    """Whether the replicas are of the release before at the beginning."""
    one_fault: Rule | None = None
    """In place of `api_faults`, for all replicas together: its `skip` counts the requests of all of
    them."""

    def outages(self) -> list[Rule]:
        """Of the API server, one for each restore of etcd."""
        at = [event.at for event in self.events if event.what == "etcd restored"]
        return [api_fault(Fault.NOT_SENT, start, RESTORE_TAKES) for start in at]

    def also(self, *events: Event, **changes: object) -> Schedule:
        ordered = tuple(sorted((*self.events, *events), key=lambda event: event.at))
        return msgspec.structs.replace(self, events=ordered, **changes)


class Kind(NamedTuple):
    """One kind of event, `to` what it happens ("replica", "job", "service", "node", "" for the
    cluster), and bounds of its amount."""

    what: str
    weight: int
    to: str = ""
    least: float = 0
    most: float = 0

    def draw(self, rng: random.Random, at: float, made: Schedule) -> Event:
        match self.to:
            case "replica":
                subject = str(rng.randrange(made.replicas))
                return Event(at, self.what, subject, round(rng.uniform(self.least, self.most), 2))
            case "job":
                return Event(
                    at,
                    self.what,
                    rng.choice(rng.choice(made.inventory.services).job_names()),
                    rng.randrange(3),
                )
            case "service":
                return Event(
                    at, self.what, rng.choice(made.inventory.services).name, rng.randrange(100)
                )
            case "node":
                return Event(at, self.what, rng.choice(made.inventory.nodes).name)
        return Event(
            at, self.what, "", rng.randint(int(self.least), int(self.most)) if self.most else 0.0
        )


def drawn(rng: random.Random, kinds: Sequence[Kind]) -> Kind:
    return rng.choice([kind for kind in kinds for _ in range(kind.weight)])


def events_of(rng: random.Random, kinds: Sequence[Kind], made: Schedule) -> list[Event]:
    """Up to twenty; troubles come in company, so that two of them often meet within a second or
    two."""
    events: list[Event] = []
    for _ in range(rng.choice([2, 6, 12, 20])):
        near = events[-1].at + rng.expovariate(1.0) if events and rng.random() < 0.4 else made.storm
        at = round(near if near < made.storm else rng.uniform(0, made.storm), rng.choice([0, 3]))
        events.append(drawn(rng, kinds).draw(rng, at, made))
    return events


TO_THE_SCALER = (
    Kind("crash", 4, "replica", 0.0, 10.0),
    Kind("stop", 2, "replica", 0.0, 10.0),
    Kind("freeze", 3, "replica", 1.0, 30.0),
    Kind("lease deleted", 1),
    Kind("lease emptied", 1),
    Kind("compaction", 2),
    Kind("watches cut", 2),
)
TO_NODES = (
    Kind("node not ready", 2, "node"),
    Kind("node gone", 2, "node"),
    Kind("node cordoned", 1, "node"),
    Kind("node back", 3, "node"),
)
TO_RULES = (
    Kind("rule edited", 3, "service"),
    Kind("rule broken", 2, "service"),
    Kind("rule deleted", 2, "service"),
    Kind("rule mended", 2, "service"),
    Kind("rule paused", 1, "service"),
)
EVENTS = (
    *TO_THE_SCALER,
    Kind("pod killed", 3, "job"),
    Kind("pod failed", 2, "job"),
    Kind("pod evicted", 2, "job"),
    Kind("instance killed", 3, "job"),
    *TO_NODES,
    Kind("job deleted", 2, "job"),
    Kind("job applied", 3, "job"),
    Kind("job applied anew", 2, "job"),
    Kind("group label changed", 1, "job"),
    Kind("rule label removed", 1, "job"),
    Kind("name taken", 1, "job"),
    *TO_RULES,
    Kind("operator comes", 1),
    Kind("operator goes", 1),
)
"""Where the scaler makes the pods."""
GATED_EVENTS = (
    *TO_THE_SCALER,
    Kind("pod killed", 4, "service"),
    Kind("pod failed", 2, "service"),
    Kind("pod evicted", 2, "service"),
    Kind("instance killed", 3, "service"),
    *TO_NODES,
    Kind("scaled", 3, "service"),
    Kind("updated", 5, "service"),
    Kind("applied", 1, "service"),
    Kind("applied anew", 1, "service"),
    *TO_RULES,
)
"""Where others make them."""
ATTACKS = (
    Kind("hostile rules", 1, "", 1, 2),
    Kind("hostile numbers", 2, "", 1, 6),
    Kind("hostile depth", 2, "", 1, 4),
    Kind("hostile crowd", 2, "", 3, 12),
    Kind("hostile labels", 3, "", 1, 12),
    Kind("hostile flood", 2, "", 10, 60),
    Kind("etcd restored", 1, "", 5, 60),
    Kind("clock stepped", 1, "replica", 3600, 3600),
    Kind("clock stepped", 1, "replica", -3600, -3600),
)


def api_fault(fault: Fault, start: float, lasting: float, **more: Any) -> Rule:
    """From `start` for `lasting` seconds, for the controller's clients."""
    return Rule(fault=fault, start=start, end=start + lasting, **more)


_API_FAULTS: tuple[tuple[Fault, dict[str, Any]], ...] = (
    (Fault.REFUSED, {"verbs": WRITES}),  # 409
    (Fault.REFUSED, {"verbs": ("patch",), "status": 404}),
    (Fault.REFUSED, {"status": 429}),
    (Fault.REFUSED, {"status": 429, "retry_after": 2}),
    (Fault.REFUSED, {"status": 500}),
    (Fault.REFUSED, {"status": 503}),
    (Fault.REFUSED, {"status": 401}),
    (Fault.REFUSED, {"verbs": ("create",), "kinds": ("Pod",), "status": 403}),  # a quota
    (Fault.REFUSED, {"verbs": ("create",), "kinds": ("Pod", "PodGroup", "Service"), "status": 422}),
    (Fault.REFUSED, {"verbs": ("list", "watch"), "status": 410}),
    (Fault.NOT_SENT, {}),
    (Fault.LOST_REQUEST, {}),
    (Fault.LOST_ANSWER, {}),
    (Fault.LOST_ANSWER, {"verbs": WRITES}),
    (Fault.LOST_REQUEST, {"kinds": ("Lease",)}),  # out of reach
    (Fault.LOST_ANSWER, {"verbs": WRITES, "kinds": ("Lease",)}),
    (Fault.DELAY, {"seconds": 3.0}),
    (Fault.SLOW_ANSWER, {"seconds": 12.0}),  # after the deadline
    (Fault.CUT, {"verbs": ("watch",)}),
    (Fault.RESET, {"verbs": ("watch",)}),
)


def random_api_fault(rng: random.Random, made: Schedule) -> Rule:
    replica = rng.choice([-1, rng.randrange(made.replicas)])
    start = round(rng.uniform(0, made.storm * 0.8), 1)
    lasting = round(rng.uniform(1, made.storm - start), 1)
    if rng.random() < 0.25:
        seconds = round(rng.uniform(0.1, 30), 1)
        kind = rng.choice(GATED_WATCHED if made.inventory.gated else WATCHED)
        more: dict[str, Any] = {"seconds": seconds, "kinds": (kind,)}
        return api_fault(Fault.LAG, start, lasting, verbs=("watch",), replica=replica, **more)
    fault, more = rng.choice(_API_FAULTS)
    probability = rng.choice([0.02, 0.1, 0.3, 1.0 if lasting < 30 else 0.5])
    return api_fault(fault, start, lasting, probability=probability, replica=replica, **more)


def blind(kind: str, how: str, start: float, lasting: float, replica: int = -1) -> tuple[Rule, ...]:
    """The watch of one kind ends and is not to be had again (403, hang), or says nothing any more
    (silent)."""
    on: dict[str, Any] = {"kinds": (kind,), "replica": replica}
    if how == "silent":
        return (api_fault(Fault.SILENT, start, lasting, verbs=("watch",), **on),)
    fault = Fault.REFUSED if how == "403" else Fault.DELAY
    both = ("list", "watch")
    return (
        api_fault(fault, start, lasting, verbs=both, seconds=30.0, status=403, **on),
        api_fault(Fault.CUT, start, lasting, verbs=("watch",), **on),
    )


def slow_webhook(namespace: str, start: float, lasting: float) -> Rule:
    """Creating pods in one namespace takes longer than any timeout: the webhook of another tenant
    does not answer."""
    of_pods: dict[str, Any] = {"verbs": ("create",), "kinds": ("Pod",), "namespaces": (namespace,)}
    return api_fault(Fault.DELAY, start, lasting, seconds=30.0, **of_pods)


def retry_later(start: float, lasting: float, verbs: tuple[str, ...] = ()) -> Rule:
    """Everything (or these verbs) is refused with a Retry-After of a minute."""
    kinds = ("Pod", "PodGroup", "Service", "AscendJob", "ConfigMap")
    return api_fault(
        Fault.REFUSED, start, lasting, verbs=verbs, kinds=kinds, status=429, retry_after=60.0
    )


def hardship(rng: random.Random, made: Schedule, start: float, lasting: float) -> tuple[Rule, ...]:
    match rng.choice(["blind", "blind", "slow", "wait"]):
        case "slow":
            return (slow_webhook(rng.choice(made.inventory.services).namespace, start, lasting),)
        case "wait":
            return (
                retry_later(start, min(lasting, 20.0), rng.choice([(), WRITES, ("list", "watch")])),
            )
        case _:
            replica = rng.choice([-1, rng.randrange(made.replicas)])
            return blind(
                rng.choice(WATCHED[:-1]),
                rng.choice(["403", "silent", "hang"]),
                start,
                lasting,
                replica,
            )


# what is drawn


def schedule(seed: int) -> Schedule:
    """What happens of itself, in every second one attacks as well, and in some an autoscaler."""
    # other words here would make other schedules of all known seeds
    rng = random.Random(f"campaign-{seed}")
    number = rng.choice([1, 1, 1, 2, 2, 3])
    shared = number > 1 and rng.random() < 0.4
    apart = rng.random() < 0.5
    services = tuple(_service(rng, NAMES[i], shared=shared, apart=apart) for i in range(number))
    made = _schedule(rng, seed, Inventory(services, _nodes(rng, services, most=1)), most_lost=2)
    return scaled(
        _attacked(made, random.Random(f"attacks-{seed}")), random.Random(f"scaled-{seed}")
    )


def gated_schedule(seed: int) -> Schedule:
    """The same for services whose pods others make: a few of different kinds, each on its own
    nodes."""
    rng = random.Random(f"gated-{seed}")
    services = tuple(_gated_service(rng, NAMES[i]) for i in range(rng.choice([1, 1, 2])))
    made = _schedule(rng, seed, Inventory(services, _nodes(rng, services, most=2)), most_lost=1)
    return scaled(made, random.Random(f"gated-scaled-{seed}"))


def _schedule(rng: random.Random, seed: int, inventory: Inventory, *, most_lost: int) -> Schedule:
    storm = rng.choice([60.0, 120.0, 240.0])
    replicas = rng.choice([1, 2, 2])
    election = replicas > 1 or rng.random() < 0.5
    made = Schedule(seed, inventory, storm, replicas=replicas, election=election)
    names = [node.name for node in inventory.nodes if node is not CPU_NODE]
    return made.also(
        *events_of(rng, GATED_EVENTS if inventory.gated else EVENTS, made),
        api_faults=tuple(random_api_fault(rng, made) for _ in range(rng.choice([0, 1, 2, 4, 7]))),
        linger=rng.choice([0.0, 0.0, 0.1]),
        stale_lists=rng.choice([0.0, 0.0, 0.2]),
        lost_nodes=tuple(
            rng.sample(names, rng.choice([0, 0, 0, *range(1, most_lost + 1)]) % (len(names) + 1))
        ),
    )


def _nodes(rng: random.Random, services: Sequence[Service], *, most: int) -> tuple[NodeSpec, ...]:
    """Of each pool from just enough for the largest minimum to so many more than needed."""
    made = [CPU_NODE]
    for pool in dict.fromkeys(service.pool for service in services):
        inside = [service for service in services if service.pool == pool]
        enough = max(s.nodes_for(s.ladder[-1]) for s in inside)
        made += nodes(
            pool, rng.randint(enough, sum(s.nodes_for(s.ladder[0]) for s in inside) + most)
        )
    return tuple(made)


def _service(rng: random.Random, name: str, *, shared: bool, apart: bool) -> Service:
    ladder = _ladder(rng, 4, 3, 3)
    jobs = (
        max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])),
        max(1, ladder[0][1] + rng.choice([-1, 0, 0, 1])),
    )
    pods = (rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3]))
    namespace = f"ns-{name}" if apart else "mindie"
    return Service(
        name, namespace, "all" if shared else name, ladder, jobs, pods, mindie=rng.random() < 0.7
    )


def _gated_service(rng: random.Random, name: str) -> Service:
    ladder = _ladder(rng, 3, 2, 2)
    jobs = (
        max(1, ladder[0][0] + rng.choice([-1, 0, 0, 1])),
        max(1, ladder[0][1] + rng.choice([0, 0, 1])),
    )
    return gated_service(name, rng.choice(GATED_KINDS), ladder, jobs, quota=rng.random() < 0.3)


def gated_service(
    name: str, kind: kinds.Kind, ladder: tuple[Ratio, ...], jobs: Ratio, *, quota: bool = False
) -> Service:
    """A service whose pods others make, in a namespace and on nodes of its own."""
    return Service(name, f"ns-{name}", name, ladder, jobs, kind.pods, kind=kind, quota=quota)


def _ladder(rng: random.Random, prefill: int, decode: int, steps: int) -> tuple[Ratio, ...]:
    """Falling ratios, at most so many below the first; the smallest serves."""
    ladder = [(rng.randint(1, prefill), rng.randint(1, decode))]
    for _ in range(rng.randint(0, steps)):
        below = (rng.randint(1, ladder[-1][0]), rng.randint(1, ladder[-1][1]))
        if below != ladder[-1]:
            ladder.append(below)
    return tuple(ladder)


def _attacked(made: Schedule, rng: random.Random) -> Schedule:
    """In every second one a hostile tenant, a blind spell or the like, and a healthy service that
    is left alone."""
    if rng.random() < 0.5:
        return made
    storm = made.storm
    events = [
        drawn(rng, ATTACKS).draw(rng, round(rng.uniform(0, storm), 1), made)
        for _ in range(rng.choice([0, 1, 3, 6]))
    ]
    faults = [
        one
        for _ in range(rng.choice([0, 1, 2]))
        for one in hardship(
            rng, made, round(rng.uniform(0, storm * 0.6), 1), round(rng.uniform(5, storm * 0.4), 1)
        )
    ]
    inventory = Inventory(
        (*made.inventory.services, HEALTHY), (*made.inventory.nodes, *HEALTHY_NODES)
    )
    return made.also(*events, inventory=inventory, api_faults=(*made.api_faults, *faults))


def scaled(made: Schedule, rng: random.Random) -> Schedule:
    """Other numbers of instances are asked for at random moments; the last stays."""
    if rng.random() < 0.6:
        return made
    names = [service.name for service in made.inventory.services if service is not HEALTHY]
    times = range(rng.choice([1, 2, 4, 8]))
    return made.also(
        *(
            Event(
                round(rng.uniform(0, made.storm), 1), SCALED, rng.choice(names), rng.choice(NUMBERS)
            )
            for _ in times
        )
    )
