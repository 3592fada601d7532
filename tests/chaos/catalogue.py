"""All that may go wrong in a schedule, with weights: events, attacks, and faults of the API. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from scaler.sim.actors.nodes import NodeSpec
from tests.chaos.world import Service
from tests.faults import WRITES, Fault, Rule

WATCHED = ("AscendJob", "Pod", "PodGroup", "Service", "ConfigMap", "Node", "Lease")
SCALED = "service scaled"


class Event(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Something that happens `at` seconds to `subject`; `amount` is a duration in seconds or a number, by `what`."""

    at: float
    what: str
    subject: str = ""
    amount: float = 0.0


class Scene(NamedTuple):
    """What events may happen to."""

    services: Sequence[Service]
    nodes: Sequence[NodeSpec]
    replicas: int


class Kind(NamedTuple):
    """One kind of event, `to` what it happens ("replica", "job", "service", "node", "" for the cluster), and bounds of
    its amount."""

    what: str
    weight: int
    to: str = ""
    least: float = 0
    most: float = 0

    def draw(self, rng: random.Random, at: float, scene: Scene) -> Event:
        match self.to:
            case "replica":
                subject = str(rng.randrange(scene.replicas))
                return Event(at, self.what, subject, round(rng.uniform(self.least, self.most), 2))
            case "job":
                return Event(at, self.what, rng.choice(rng.choice(scene.services).job_names()), rng.randrange(3))
            case "service":
                return Event(at, self.what, rng.choice(scene.services).name, rng.randrange(100))
            case "node":
                return Event(at, self.what, rng.choice(scene.nodes).name)
        return Event(at, self.what, "", rng.randint(int(self.least), int(self.most)) if self.most else 0.0)


def drawn(rng: random.Random, kinds: Sequence[Kind]) -> Kind:
    """One of them, by weight."""
    return rng.choice([kind for kind in kinds for _ in range(kind.weight)])


def events_of(rng: random.Random, kinds: Sequence[Kind], scene: Scene, storm: float) -> list[Event]:
    """Up to twenty; troubles come in company, so that two of them often meet within a second or two."""
    made: list[Event] = []
    for _ in range(rng.choice([2, 6, 12, 20])):
        near = made[-1].at + rng.expovariate(1.0) if made and rng.random() < 0.4 else storm
        at = round(near if near < storm else rng.uniform(0, storm), rng.choice([0, 3]))
        made.append(drawn(rng, kinds).draw(rng, at, scene))
    return made


TO_THE_SCALER = (
    Kind("crash", 4, "replica", 0.0, 10.0), Kind("stop", 2, "replica", 0.0, 10.0),
    Kind("freeze", 3, "replica", 1.0, 30.0), Kind("lease deleted", 1), Kind("lease emptied", 1),
    Kind("compaction", 2), Kind("watches cut", 2),
)  # fmt: skip
TO_NODES = (
    Kind("node not ready", 2, "node"), Kind("node gone", 2, "node"), Kind("node cordoned", 1, "node"),
    Kind("node back", 3, "node"),
)  # fmt: skip
TO_RULES = (
    Kind("rule edited", 3, "service"), Kind("rule broken", 2, "service"), Kind("rule deleted", 2, "service"),
    Kind("rule mended", 2, "service"), Kind("rule paused", 1, "service"),
)  # fmt: skip
EVENTS = (
    *TO_THE_SCALER, Kind("pod killed", 3, "job"), Kind("pod failed", 2, "job"), Kind("pod evicted", 2, "job"),
    Kind("instance killed", 3, "job"), *TO_NODES, Kind("job deleted", 2, "job"), Kind("job applied", 3, "job"),
    Kind("job applied anew", 2, "job"), Kind("group label changed", 1, "job"), Kind("rule label removed", 1, "job"),
    Kind("name taken", 1, "job"), *TO_RULES, Kind("operator comes", 1), Kind("operator goes", 1),
)  # fmt: skip
"""Where the scaler makes the pods."""
GATED_EVENTS = (
    *TO_THE_SCALER, Kind("pod killed", 4, "service"), Kind("pod failed", 2, "service"),
    Kind("pod evicted", 2, "service"), Kind("instance killed", 3, "service"), *TO_NODES, Kind("scaled", 3, "service"),
    Kind("updated", 5, "service"), Kind("applied", 1, "service"), Kind("applied anew", 1, "service"), *TO_RULES,
)  # fmt: skip
"""Where others make them."""
ATTACKS = (
    Kind("hostile rules", 1, "", 1, 2), Kind("hostile numbers", 2, "", 1, 6), Kind("hostile depth", 2, "", 1, 4),
    Kind("hostile crowd", 2, "", 3, 12), Kind("hostile labels", 3, "", 1, 12), Kind("hostile flood", 2, "", 10, 60),
    Kind("etcd restored", 1, "", 5, 60), Kind("clock stepped", 1, "replica", 3600, 3600),
    Kind("clock stepped", 1, "replica", -3600, -3600),
)  # fmt: skip


# faults of the API


def api_fault(what: str, fault: Fault, start: float, lasting: float, **more: Any) -> Rule:
    """From `start` for `lasting` seconds, for the controller's clients."""
    return Rule(what=what, fault=fault, start=start, end=start + lasting, **more)


_API_FAULTS: tuple[tuple[str, Fault, dict[str, Any]], ...] = (
    ("409", Fault.REFUSED, {"verbs": WRITES}),
    ("404 on patch", Fault.REFUSED, {"verbs": ("patch",), "status": 404}),
    ("429", Fault.REFUSED, {"status": 429}),
    ("429 with Retry-After", Fault.REFUSED, {"status": 429, "retry_after": 2}),
    ("500", Fault.REFUSED, {"status": 500}),
    ("503", Fault.REFUSED, {"status": 503}),
    ("401", Fault.REFUSED, {"status": 401}),
    ("quota 403", Fault.REFUSED, {"verbs": ("create",), "kinds": ("Pod",), "status": 403}),
    ("422", Fault.REFUSED, {"verbs": ("create",), "kinds": ("Pod", "PodGroup", "Service"), "status": 422}),
    ("410 on list or watch", Fault.REFUSED, {"verbs": ("list", "watch"), "status": 410}),
    ("not sent", Fault.NOT_SENT, {}),
    ("lost request", Fault.LOST_REQUEST, {}),
    ("lost answer", Fault.LOST_ANSWER, {}),
    ("lost answer of a write", Fault.LOST_ANSWER, {"verbs": WRITES}),
    ("lease out of reach", Fault.LOST_REQUEST, {"kinds": ("Lease",)}),
    ("lease written, answer lost", Fault.LOST_ANSWER, {"verbs": WRITES, "kinds": ("Lease",)}),
    ("delay", Fault.DELAY, {"seconds": 3.0}),
    ("answer after the deadline", Fault.SLOW_ANSWER, {"seconds": 12.0}),
    ("watch cut", Fault.CUT, {"verbs": ("watch",)}),
    ("watch reset", Fault.RESET, {"verbs": ("watch",)}),
)


def random_api_fault(rng: random.Random, storm: float, replica: int, watched: Sequence[str] = WATCHED) -> Rule:
    """Watches of the kinds in `watched` may lag."""
    start = round(rng.uniform(0, storm * 0.8), 1)
    lasting = round(rng.uniform(1, storm - start), 1)
    if rng.random() < 0.25:
        lag: dict[str, Any] = {"seconds": round(rng.uniform(0.1, 30), 1), "kinds": (rng.choice(watched),)}
        return api_fault(
            f"lag of {lag['kinds'][0]}", Fault.LAG, start, lasting, verbs=("watch",), replica=replica, **lag
        )  # fmt: skip
    what, fault, more = rng.choice(_API_FAULTS)
    probability = rng.choice([0.02, 0.1, 0.3, 1.0 if lasting < 30 else 0.5])
    return api_fault(what, fault, start, lasting, probability=probability, replica=replica, **more)


def blind(kind: str, how: str, start: float, lasting: float, replica: int = -1) -> tuple[Rule, ...]:
    """The watch of one kind ends and is not to be had again (403, hang), or says nothing any more (silent)."""
    on: dict[str, Any] = {"kinds": (kind,), "replica": replica}
    if how == "silent":
        return (api_fault(f"silent: {kind}", Fault.SILENT, start, lasting, verbs=("watch",), **on),)
    fault, both = Fault.REFUSED if how == "403" else Fault.DELAY, ("list", "watch")
    return (
        api_fault(f"{how}: {kind}", fault, start, lasting, verbs=both, seconds=30.0, status=403, **on),
        api_fault(f"watch of {kind} cut", Fault.CUT, start, lasting, verbs=("watch",), **on),
    )


def slow_webhook(namespace: str, start: float, lasting: float) -> Rule:
    """Creating pods in one namespace takes longer than any timeout: the webhook of another tenant does not answer."""
    return api_fault(
        f"pods of {namespace} hang", Fault.DELAY, start, lasting, verbs=("create",), kinds=("Pod",), seconds=30.0,
        namespaces=(namespace,),
    )  # fmt: skip


def retry_later(start: float, lasting: float, verbs: tuple[str, ...] = ()) -> Rule:
    """Everything (or these verbs) is refused with a Retry-After of a minute."""
    kinds = ("Pod", "PodGroup", "Service", "AscendJob", "ConfigMap")
    return api_fault(
        "429 with Retry-After 60", Fault.REFUSED, start, lasting, verbs=verbs, kinds=kinds, status=429, retry_after=60.0
    )  # fmt: skip


def hardship(rng: random.Random, scene: Scene, start: float, lasting: float) -> tuple[Rule, ...]:
    """One of those three."""
    match rng.choice(["blind", "blind", "slow", "wait"]):
        case "slow":
            return (slow_webhook(rng.choice(scene.services).namespace, start, lasting),)
        case "wait":
            return (retry_later(start, min(lasting, 20.0), rng.choice([(), WRITES, ("list", "watch")])),)
        case _:
            replica = rng.choice([-1, rng.randrange(scene.replicas)])
            return blind(rng.choice(WATCHED[:-1]), rng.choice(["403", "silent", "hang"]), start, lasting, replica)
