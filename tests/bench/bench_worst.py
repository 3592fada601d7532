"""Which world takes a decision the longest: a search by mutation, from seeds found by people.

    python -m tests.bench.bench_worst [--seeds] [--rounds N] [--seed N] [--replay JSON]

A world is made from a few numbers (`Genes`), so a line that the search prints makes the same world
again. The search changes the numbers of the dearest worlds and keeps what costs more. `first`:
milliseconds of CPU of the first decision, with empty caches, in so many slices; `event`: of the
decision that follows, which finds the clocks of all that was released begun, and the slowest of
those after it, each after a change of one object, the cache kept; `slice`:
the longest slice, and 99 % of all of them are no longer than the second number. `calls`:
function calls of the first decision: the same on every machine and in every run. The search goes by
the time of whole decisions."""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections.abc import Callable
from itertools import chain
from types import FrameType
from typing import Any

import msgspec
from msgspec.structs import replace

from scaler.decide.again import DecisionCache
from scaler.decide.decide import begin, decide
from scaler.decide.decision import Decision, State
from scaler.decide.nodes import PodRequest, PodRequests, Requirement, Toleration, Where
from scaler.decide.world import Instance, Service, ServiceKey, World
from scaler.garbage import no_collection
from tests.builders import NOW, Machine, instance, on_machines, others, rule
from tests.steps import calls_of

CPU = 192_000
GIB = 1 << 30
LABELS = 64
EVENTS = 6
KEPT = 6
MOST_S = 20.0
"""A decision that takes longer is given up: that world is dear enough."""


class Genes(msgspec.Struct, frozen=True):
    """All that a world is made of."""

    seed: int = 1
    services: int = 10
    instances: int = 10
    """Of each service."""
    tenants: int = 10
    nodes: int = 100
    pods: int = 1
    """Of each instance."""
    shapes: int = 1
    """Different requests that are dealt out to the instances."""
    unlike_pods: bool = False
    """The pods of one instance differ too."""
    step: int = 1
    """Milli-CPU between one request and the next."""
    npus: int = 1
    """Of a pod, at most."""
    wheres: int = 1
    """Different selectors."""
    loose: bool = False
    """Selectors exclude a value instead of naming one, so that all services share nodes."""
    tolerations: int = 1
    priorities: int = 1
    minimum: int = 1
    """Instances of the smallest ratio."""
    running: int = 0
    """Instances of each service that are bound, in percent."""
    with_scheduler: int = 0
    """Instances that are with the scheduler, in percent."""
    full: int = 50
    """How much of the nodes others use, in percent."""
    unlike_nodes: bool = False
    gates: bool = False


LARGEST: dict[str, int] = {
    "services": 1000,
    "instances": 500,
    "tenants": 1000,
    "nodes": 1000,
    "pods": 1000,
    "shapes": 10_000,
    "step": 4096,
    "npus": 8,
    "wheres": 1000,
    "tolerations": 100,
    "priorities": 100,
    "minimum": 500,
    "running": 100,
    "with_scheduler": 100,
    "full": 100,
}
MOST_INSTANCES = 10_000

UNLIKE = Genes(services=1, instances=100, tenants=1, shapes=100, minimum=100, full=10, nodes=200)
SEEDS: dict[str, Genes] = {
    "one service of 100 unlike jobs": UNLIKE,
    "one service of 200 unlike jobs": replace(UNLIKE, instances=200, shapes=200, minimum=200),
    "one service of 300 unlike jobs": replace(UNLIKE, instances=300, shapes=300, minimum=300),
    "two tenants, 100 unlike jobs each": replace(UNLIKE, services=2, tenants=2, shapes=200),
    "150 tenants, a request each": Genes(
        services=150, instances=4, tenants=150, shapes=150, minimum=2, full=20
    ),
    "one instance of 500 unlike pods": Genes(
        services=1, instances=1, tenants=1, pods=500, shapes=500, unlike_pods=True, gates=True
    ),
    "1,000 tenants, alike": Genes(services=1000, instances=10, tenants=1000, nodes=1000),
    "1,000 tenants, a request each": Genes(
        services=1000, instances=10, tenants=1000, nodes=1000, shapes=1000
    ),
    "1,000 tenants, a selector each": Genes(
        services=1000, instances=10, tenants=1000, nodes=1000, wheres=1000, loose=True
    ),
    "500 tenants, two requests each, room for all": Genes(
        services=500, instances=2, tenants=500, nodes=1000, shapes=1000, minimum=2, full=20
    ),
    "500 tenants, two requests each, few nodes free": Genes(
        services=500, instances=2, tenants=500, nodes=500, shapes=1000, minimum=2, full=90
    ),
    "1,000 tenants, ten requests each, all needed": Genes(
        services=1000, instances=10, tenants=1000, nodes=1000, shapes=10_000, minimum=10
    ),
    "10,000 unlike instances of one tenant": Genes(
        services=1000, instances=10, tenants=1, nodes=1000, shapes=10_000
    ),
}


def request(genes: Genes, number: int) -> PodRequest:
    shape = number % genes.shapes
    amounts = [("cpu", 12_000 + genes.step * shape), ("memory", 8 * GIB), ("pods", 1)]
    npus = 1 + number % genes.npus
    if npus:
        amounts.insert(0, ("huawei.com/Ascend910", npus))
    return PodRequest(tuple(amounts), where(genes, number))


def where(genes: Genes, number: int) -> Where:
    label = number % genes.wheres
    requirement = Requirement(f"l{label % LABELS}", "In", (f"v{label // LABELS}",))
    if genes.loose:
        requirement = replace(requirement, operator="NotIn")
    tolerations = (Toleration(f"t{number % genes.tolerations}", "Exists"),)
    return Where(
        affinity=((requirement,),) if genes.wheres > 1 else (),
        tolerations=tolerations if genes.tolerations > 1 else (),
    )


def requests_of(genes: Genes, first: int) -> PodRequests:
    """The pods of one instance."""
    if not genes.unlike_pods:
        return ((request(genes, first), genes.pods),)
    counts: dict[PodRequest, int] = {}
    for pod in range(genes.pods):
        one = request(genes, first + pod)
        counts[one] = counts.get(one, 0) + 1
    return tuple(sorted(counts.items()))


def service(genes: Genes, number: int, dice: random.Random) -> Service:
    found: list[Instance] = []
    for index in range(genes.instances):
        what = requests_of(genes, number * genes.instances + index)
        draw = dice.randrange(100)
        state = State.HELD
        if draw < genes.running:
            state = State.RUNNING
        elif draw < genes.running + genes.with_scheduler:
            state = State.ADMITTED
        bound_pods = []
        if state is State.RUNNING:
            for one, count in what:
                node = dice.randrange(genes.nodes)
                bound_pods += [(f"node-{node:05}", one)] * count
        make = others if genes.gates else instance
        found.append(
            make(
                f"p{index}",
                state,
                uid=f"{number}-{index}",
                created=NOW - 10_000 + number,
                requests=what,
                unbound=() if bound_pods else what,
                bound_pods=tuple(bound_pods),
                priority=number % genes.priorities,
            )
        )
    most = genes.instances
    least = min(genes.minimum, most)
    ladder = rule(f"{most}P > {least}P" if least < most else f"{most}P")
    name = f"tenant-{number % genes.tenants:05}"
    return Service(ServiceKey(name, "rule", f"s{number:05}"), tuple(found), ladder)


def world(genes: Genes) -> World:
    dice = random.Random(genes.seed)
    services = [service(genes, number, dice) for number in range(genes.services)]
    return on_machines(services, [machine(genes, number, dice) for number in range(genes.nodes)])


def machine(genes: Genes, number: int, dice: random.Random) -> Machine:
    name = f"node-{number:05}"
    labels = {"metadata.name": name}
    for label in range(LABELS):
        labels[f"l{label}"] = f"v{number % (1 + genes.wheres // LABELS)}"
    left = dice.randrange(201 - 2 * genes.full) if genes.full < 100 else 0
    share = min(100, left) / 100
    odd = 13 * number if genes.unlike_nodes else 0
    free = {
        "huawei.com/Ascend910": int(8 * share),
        "cpu": int(CPU * share) + odd,
        "memory": int(1024 * GIB * share) + odd,
        "pods": 110,
    }
    whole = {"huawei.com/Ascend910": 8, "cpu": CPU, "memory": 1024 * GIB, "pods": 110}
    return Machine(name, labels, whole, free)


class Price(msgspec.Struct, frozen=True):
    """Milliseconds of CPU of each slice, of the first decision and of those after an event."""

    calls: int
    slices: list[float]
    slices_of_events: list[list[float]]

    @property
    def first(self) -> float:
        return sum(self.slices)

    @property
    def events(self) -> list[float]:
        return [sum(slices) for slices in self.slices_of_events]

    def __str__(self) -> str:
        second = self.events[0] if self.events else 0.0
        later = max(self.events[1:], default=0.0)
        every = sorted([*self.slices, *chain.from_iterable(self.slices_of_events)])
        nearly_all = every[len(every) * 99 // 100]
        return (
            f"first {self.first:9.1f} ms in {len(self.slices):3}"
            f"   event {second:9.1f}, {later:9.1f} ms"
            f"   slice {every[-1]:6.1f}, 99 % {nearly_all:6.1f} ms   calls {self.calls:11,}"
        )


def changed(before: World, number: int) -> World:
    """One instance is another object now: its owner changed what says nothing of the pods."""
    at = number * 7919 % len(before.services)
    one = before.services[at]
    first = replace(one.instances[0], generation=one.instances[0].generation + 1)
    after = replace(one, instances=(first, *one.instances[1:]))
    services = (*before.services[:at], after, *before.services[at + 1 :])
    return replace(before, services=services)


class GivenUp(BaseException):
    """No `Exception`: a decision goes on after those."""


def give_up(_number: int, _frame: FrameType | None) -> None:
    raise GivenUp


def timed(made: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds of CPU, and the value; None when it was given up."""
    start = time.process_time()
    value = None
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_S)
    try:
        value = made()
    except GivenUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return (time.process_time() - start) * 1e3, value


def in_slices(one: World, cache: DecisionCache) -> tuple[list[float], Decision | None]:
    """Milliseconds of each slice, and the whole decision; None when it was given up."""
    under_way = begin(one, cache)
    slices = []
    made: Decision | None = None
    while made is None:
        with no_collection():
            took, made = timed(under_way.go_on)
        slices.append(took)
        if sum(slices) > MOST_S * 1e3:
            return slices, None
    return slices, made


def price(genes: Genes, *, counts: bool = True) -> Price:
    one = world(genes)
    cache = DecisionCache()
    first, made = in_slices(one, cache)
    events = []
    for number in range(EVENTS):
        if made is None:
            break
        one = replace(changed(one, number), memory=made.memory, now=one.now + 0.005)
        took, made = in_slices(one, cache)
        events.append(took)
    # the first event finds all memories changed: it decides about everybody again
    calls = calls_of(lambda: decide(world(genes))) if counts else 0
    return Price(calls, first, events)


def mutated(genes: Genes, dice: random.Random) -> Genes:
    """Other numbers: one to three of them doubled, halved, drawn anew or at an end."""
    changes: dict[str, Any] = {"seed": dice.randrange(1000)}
    for name in dice.sample(sorted(LARGEST), dice.randint(1, 3)):
        now = getattr(genes, name)
        drawn = (now * 2, now // 2, now + 1, dice.randint(0, LARGEST[name]), LARGEST[name])
        least = 0 if name in ("running", "with_scheduler", "full") else 1
        changes[name] = max(least, min(dice.choice(drawn), LARGEST[name]))
    for name in ("loose", "unlike_pods", "unlike_nodes", "gates"):
        if dice.random() < 0.1:
            changes[name] = not getattr(genes, name)
    after = replace(genes, **changes)
    most = max(1, MOST_INSTANCES // after.services)
    after = replace(after, instances=min(after.instances, most))
    pods = max(1, MOST_INSTANCES // (after.services * after.instances))
    return replace(after, pods=min(after.pods, pods))


def in_words(genes: Genes) -> str:
    return msgspec.json.encode(genes).decode()


def search(rounds: int, seed: int) -> None:
    """Keep the dearest worlds, change them, keep what costs more."""
    dice = random.Random(seed)
    kept: list[tuple[float, Genes]] = []
    start = list(SEEDS.values())
    for number in range(rounds):
        genes = start[number] if number < len(start) else mutated(dice.choice(kept)[1], dice)
        found = price(genes, counts=False)
        cost = found.first  # given up: dearer than all that end
        if found.events:
            cost = max(found.first / 5, *found.events)
        kept = sorted([*kept, (cost, genes)], key=lambda one: -one[0])[:KEPT]
        if kept[0][1] is genes:
            print(f"{found}   {in_words(genes)}", flush=True)
    print("the dearest:")
    for _, genes in kept[:3]:
        print(f"{price(genes)}\n    --replay '{in_words(genes)}'")


def main() -> None:
    signal.signal(signal.SIGVTALRM, give_up)
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    said.add_argument("--seeds", action="store_true", help="measure the seeds, search nothing")
    said.add_argument("--rounds", type=int, default=60)
    said.add_argument("--seed", type=int, default=1)
    said.add_argument("--replay", help="a line that the search printed")
    asked = said.parse_args()
    if asked.replay:
        print(price(msgspec.json.decode(asked.replay, type=Genes)))
        return
    for name, genes in SEEDS.items():
        print(f"{price(genes, counts=False)}   {name}", flush=True)
    if not asked.seeds:
        search(asked.rounds, asked.seed)


if __name__ == "__main__":
    main()
