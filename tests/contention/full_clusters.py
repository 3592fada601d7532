"""Random histories of full clusters: services of any kind fill the nodes, and want more than there
is. Then something is lost for a while: a container exits, chips or nodes fail, an image is rolled
out, who makes the pods is away, a quota refuses them.

Once all is mended, every service serves again that could, and nothing waits that fits. All that
happens follows from the seed. `python -m tests.contention.full_clusters 0-99` plays a hundred."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.world import Preempt
from scaler.kube.api import NAMESPACES, PODS, PRIORITY_CLASSES, Object
from scaler.names import NAMESPACE_LABEL
from scaler.sim import loop
from scaler.sim.actors import objects
from scaler.sim.actors.nodes import exit_pod
from scaler.sim.actors.stand_in import key_of
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import ADMISSION, real_controller, settings_of, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from tests.chaos import inventory
from tests.chaos.inventory import OPTED_IN, Service
from tests.contention.services import written
from tests.contention.stories import dice, event, node_event
from tests.jobs import manifest
from tests.rig import Rig
from tests.simulation.kinds import ASCEND_JOBS, KINDS, PLAIN_PODS, Kind, Ratio
from tests.simulation.worlds import failures

FULL = 300.0
"""Seconds after which all that fits runs, and the first loss comes."""
TROUBLE = 600.0
"""Seconds in which losses begin."""
LONGEST = 240.0
"""Seconds that a loss lasts at most, less than `backoff_max`: what lasts longer may cost a service
its place (3b.5e)."""
AFTERWARDS = 2700.0
"""Seconds from the last event to the end."""
APPLIED_AGAIN = 120.0
"""Seconds from the last event until users apply again the pods that nobody else makes again."""
QUIET = 600.0
"""Seconds at the end in which nobody is evicted any more."""
LADDERS: tuple[tuple[Ratio, ...], ...] = (
    ((2, 1), (1, 1)),
    ((3, 1), (1, 1)),
    ((2, 2), (1, 1)),
    ((3, 2), (2, 1), (1, 1)),
    ((4, 2), (2, 2)),
)
LOSSES = (
    "exit",
    "exits",
    "deleted",
    "chip",
    "node",
    "node gone",
    "cordon",
    "rollout",
    "owner away",
    "quota",
    "scheduler",
)


class Loss(msgspec.Struct, frozen=True):
    """What happens from `at` to `until`, to this service or to these nodes."""

    what: str
    at: float
    until: float
    service: str = ""
    nodes: tuple[str, ...] = ()


class History(msgspec.Struct, frozen=True):
    """One history with everything decided but which pods exit. `minimum`: nodes that all services
    need to serve."""

    seed: int
    services: tuple[Service, ...]
    priorities: dict[str, int]
    """Of services by name; 0 = none is named."""
    trade: dict[str, str]
    nodes: int
    losses: tuple[Loss, ...]
    settings: dict[str, Any]
    beside: bool

    @property
    def end(self) -> float:
        return max(loss.until for loss in self.losses) + AFTERWARDS


class Outcome(msgspec.Struct, frozen=True):
    """`failures` in words; what is known not to be promised is in `gaps`."""

    failures: list[str]
    gaps: list[str]


def history(seed: int) -> History:
    rng = dice("full", seed)
    beside = rng.random() < 0.4
    services = []
    for number in range(rng.randint(2, 5)):
        services.append(_service(rng, f"s{number}", beside))
    minimum = 0
    most = 0
    for one in services:
        minimum += one.nodes_for(one.ladder[-1])
        most += one.nodes_for(one.ladder[0])
    count = min(most, minimum + rng.choice((0, 1, 1, 2, 3)))
    several = rng.random() < 0.5
    return History(
        seed,
        tuple(services),
        {one.name: rng.choice((0, 5, 9)) if several else 0 for one in services},
        {one.name: rng.choice(("always", "off")) for one in services if rng.random() < 0.2},
        count,
        tuple(_losses(rng, services, count)),
        {"preempt": rng.choice(list(Preempt)).value},
        beside,
    )


def _service(rng: random.Random, name: str, beside: bool) -> Service:
    """Half of the services are AscendJobs."""
    kind: Kind | None = rng.choice(KINDS)
    if rng.random() < 0.5 or kind is ASCEND_JOBS:
        kind = ASCEND_JOBS if beside else None
    ladder = rng.choice(LADDERS)
    pods = kind.pods if kind else rng.choice(((1, 1), (1, 2), (2, 1)))
    return Service(name, name, "npu", ladder, ladder[0], pods, kind=kind)


def _losses(rng: random.Random, services: Sequence[Service], nodes: int) -> list[Loss]:
    found = []
    for _ in range(rng.randint(1, 6)):
        at = round(FULL + rng.uniform(0.0, TROUBLE), 1)
        until = round(at + rng.uniform(5.0, LONGEST), 1)
        on = rng.sample(range(nodes), min(nodes, rng.choice((1, 1, 1, 2, 3))))
        found.append(
            Loss(
                rng.choice(LOSSES),
                at,
                until,
                rng.choice(services).name,
                tuple(f"npu-{number}" for number in on),
            )
        )
    return found


# What the users write


def _manifests(of: History, one: Service, image: str = "server:1") -> list[Object]:
    if one.kind is None:
        made = [inventory.server_job(one, name) for name in one.job_names()]
    else:
        made = inventory.made_by_others(one, one.jobs, image)
    priority = of.priorities[one.name]
    if priority:
        for obj in made:
            _name_priority(obj, f"value-{priority}")
    return made


def _name_priority(obj: Object, priority_class: str) -> None:
    """Jobs name it in their scheduling policy, all others in the templates of their pods."""
    if obj["kind"] == "AscendJob":
        policy = {"schedulingPolicy": {"priorityClass": priority_class}}
        obj["spec"].setdefault("runPolicy", {}).update(policy)
        return
    if obj["kind"] == "Pod":
        obj["spec"]["priorityClassName"] = priority_class
    _name_in_templates(obj["spec"], priority_class)


def _name_in_templates(part: Any, priority_class: str) -> None:
    if isinstance(part, list):
        for inner in part:
            _name_in_templates(inner, priority_class)
    elif isinstance(part, dict):
        if "containers" in part:
            part["priorityClassName"] = priority_class
        for inner in part.values():
            _name_in_templates(inner, priority_class)


def _first(of: History) -> list[Object]:
    """All that is there at the start."""
    made = []
    for value in (5, 9):
        made.append(manifest(PRIORITY_CLASSES, f"value-{value}", value=value))
    for one in of.services:
        labels = {NAMESPACE_LABEL: "enabled"}
        if one.kind is None:
            labels = {}
        elif one.kind is ASCEND_JOBS:
            labels = OPTED_IN
        made.append(manifest(NAMESPACES, one.namespace, labels=labels))
        rule = inventory.rule(one)
        if one.name in of.trade:
            rule["metadata"]["annotations"]["mind-cluster/trade"] = of.trade[one.name]
        made.append(rule)
    for one in of.services:
        made += _manifests(of, one)
    return made


# What happens


def _scenario(of: History, folder: Path) -> Scenario:
    events = [event(0.0, apply=str(written(folder, "all", _first(of))))]
    curses = []
    for number, loss in enumerate(of.losses):
        name = f"{number}-{loss.what}"
        (one,) = [one for one in of.services if one.name == loss.service]
        if loss.what in ("node", "node gone", "cordon"):
            fate = {"node": "not-ready", "node gone": "gone", "cordon": "cordoned"}[loss.what]
            there = [node for node in loss.nodes if not _is_gone_at(of, node, loss.at)]
            if there:
                events.append(node_event(loss.at, fate, *there))
            events.append(node_event(loss.until, "ready", *loss.nodes))
        elif loss.what == "chip":
            on = {"what": "chip", "chips": [number % 8], "names": list(loss.nodes)}
            events.append(event(loss.at, fault=on))
            events.append(event(loss.until, fault={**on, "becomes": "healthy"}))
        elif loss.what == "rollout" and one.kind is not None and one.kind.rolls:
            made = written(folder, name, _manifests(of, one, f"server:{number + 2}"))
            events.append(event(loss.at, apply=str(made)))
        elif loss.what in ("owner away", "quota"):
            never = {"owner away": "made", "quota": "created"}[loss.what]
            curses.append(
                {"of": f"{one.namespace}/*", "never": never, "from": loss.at, "until": loss.until}
            )
        elif loss.what == "scheduler":
            events.append(event(loss.at, scheduler="stopped"))
            events.append(event(loss.until, scheduler="running"))
    mended = max(loss.until for loss in of.losses)
    events.append(node_event(mended, "ready"))
    events.append(event(mended, scheduler="running"))
    for one in of.services:
        if one.kind is PLAIN_PODS:
            again = written(folder, f"{one.name}-again", _manifests(of, one))
            events.append(event(mended + APPLIED_AGAIN, apply=str(again)))
    events.sort(key=lambda one: float(one["at"]))
    return Scenario.model_validate(
        {
            "nodes": [
                {"name": "npu-{}", "count": of.nodes, "labels": {"pool": "npu"}},
                {"name": "cpu-0", "npu": 0, "cpu": 2000, "memory": "8Ti", "pods": 500},
            ],
            "events": events,
            "curse": curses,
            "until": of.end,
            "timing": {"mindie_patience": 86400},
            "settings": of.settings,
            "ascend_operator": of.beside,
        }
    )


def _is_gone_at(of: History, node: str, time: float) -> bool:
    """Whether an earlier loss has taken the node out of the cluster, and nobody has put it back."""
    is_gone = False
    changes = []
    for loss in of.losses:
        if node in loss.nodes and loss.what in ("node", "node gone", "cordon"):
            changes.append((loss.at, loss.what == "node gone"))
            changes.append((loss.until, False))
    for at, becomes_gone in sorted(changes):
        if at < time:
            is_gone = becomes_gone
    return is_gone


async def _strike(on: Rig, of: History, loss: Loss) -> None:
    """Containers exit or pods are deleted, whichever run then."""
    rng = dice(f"strike-{loss.at}", of.seed)
    await asyncio.sleep(loss.at)
    found = _running(on.cluster, loss.service)
    rng.shuffle(found)
    (one,) = [one for one in of.services if one.name == loss.service]
    for pod in found[: rng.randint(1, 3) if loss.what == "exits" else 1]:
        if loss.what == "deleted" or one.kind is PLAIN_PODS:
            await on.cluster.delete(PODS, *key_of(pod))
        else:
            await exit_pod(on.cluster, pod, now=on.clock.now(), code=1)


def _running(cluster: SimCluster, namespace: str) -> list[Object]:
    found = []
    for pod in cluster.peek(PODS, namespace):
        if objects.phase(pod) == "Running" and not objects.terminating(pod):
            found.append(pod)
    return found


def play(of: History, *, told: Timeline | None = None) -> Outcome:
    """Play it and judge its end."""
    silence_logs()
    timeline = told or Timeline(None)
    free: Counter[str] = Counter()

    async def story(what: Scenario) -> None:
        on = Rig(*ADMISSION, seed=of.seed)
        struck = ("exit", "exits", "deleted", "owner away", "quota")
        controller = real_controller(of.seed, settings=settings_of(what))
        async with asyncio.TaskGroup() as group:
            for loss in of.losses:
                if loss.what in struck:
                    group.create_task(_strike(on, of, loss))
            await ScenarioRun(
                on.cluster,
                on.clock,
                what,
                controller=controller,
                timeline=timeline,
                seed=of.seed,
            ).play()
        free["nodes"] = of.nodes - len(_occupied(on.cluster))

    with tempfile.TemporaryDirectory() as folder:
        loop.run(story(_scenario(of, Path(folder))), seed=of.seed)
    return _judged(of, timeline, free["nodes"])


def _occupied(cluster: SimCluster) -> set[str]:
    """NPU nodes with pods that have not ended."""
    found = set()
    for pod in cluster.peek(PODS):
        if objects.node_of(pod).startswith("npu-") and not objects.ended(pod):
            found.add(objects.node_of(pod))
    return found


# What must come out


def _judged(of: History, timeline: Timeline, free: int) -> Outcome:
    """Not promised: two half services left by losses in both (3b.10), a place for pods that their
    user makes again only after minutes, and one that the minimum of such a service has taken."""
    wrong = failures(timeline)
    gaps: list[str] = []
    half = 0
    lost: list[str] = []
    for one in of.services:
        before = timeline.at_time(one.key, FULL - 1.0)
        after = timeline.at_time(one.key, timeline.end)
        if not before.serves:
            wrong.append(f"L1: {one.name} does not serve before anything is lost: {before.reasons}")
        if before.serves and not after.serves and one.kind is not PLAIN_PODS:
            said = f"L10: {one.name} served and does not any more: {after.reasons}"
            (gaps if _gives_way_to_one_made_late(of, one) else lost).append(said)
            half += any(after.running.values())
        step = _next_step(one, after.running)
        if after.serves and step and step <= free:
            wrong.append(f"L1: {one.name} needs {step} of {free} free nodes: {after.reasons}")
        recent = timeline.at_time(one.key, timeline.end - QUIET)
        if after.evictions > recent.evictions:
            wrong.append(f"L4: pods of {one.name} are still evicted")
    (gaps if half > 1 or _is_gone_for_good(of) else wrong).extend(lost)
    return Outcome(wrong, gaps)


def _gives_way_to_one_made_late(of: History, one: Service) -> bool:
    """Whether pods of another service, with no lower priority, were made again only after minutes:
    its minimum waits, and another instance of it may take what `one` loses meanwhile (L10)."""
    for other in of.services:
        is_before = of.priorities[other.name] >= of.priorities[one.name]
        if other is one or other.kind is not PLAIN_PODS or not is_before:
            continue
        for loss in of.losses:
            if loss.what == "owner away" and loss.service == other.name:
                return True
    return False


def _is_gone_for_good(of: History) -> bool:
    """Whether a node was taken out of the cluster: its room is not expected back (3b, words)."""
    return any(loss.what == "node gone" for loss in of.losses)


def _next_step(one: Service, running: dict[str, int]) -> int:
    """Nodes that the next larger ratio needs beyond what runs; 0 at the largest."""
    prefill, decode = one.groups
    runs = (running.get(prefill, 0), running.get(decode, 0))
    for ratio in reversed(one.ladder):
        missing = [max(0, wanted - there) for wanted, there in zip(ratio, runs, strict=True)]
        if any(missing):
            return one.nodes_for(missing)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", help="FIRST-LAST, or one, whose timeline is printed")
    args = parser.parse_args()
    first, _, last = args.seeds.partition("-")
    if not last:
        return _tell(int(first))
    failed = []
    gaps = 0
    for seed in range(int(first), int(last) + 1):
        outcome = play(history(seed))
        gaps += bool(outcome.gaps)
        if outcome.failures:
            failed.append(seed)
            print(f"seed {seed}: {outcome.failures[0]}", flush=True)
    print(f"failed: {failed}; not promised: {gaps}")
    return bool(failed)


def _tell(seed: int) -> int:
    of = history(seed)
    for one in of.services:
        print(one, of.priorities[one.name], of.trade.get(one.name, ""))
    print(*of.losses, of.settings, f"{of.nodes} nodes, beside: {of.beside}", sep="\n")
    say = partial(print, flush=True)
    timeline = Timeline(lambda one: say(f"{one.at:9.3f} {one.service} {one.subject} {one.text}"))
    outcome = play(of, told=timeline)
    print(*outcome.failures, *outcome.gaps, sep="\n")
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main())
