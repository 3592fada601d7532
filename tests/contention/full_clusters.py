"""Random histories of full clusters: services of any kind fill the nodes, and want more than there
is. Then something is lost for a while: a container exits, chips or nodes fail, an image is rolled
out, who makes the pods is away, a quota refuses them.

Once all is mended, every service serves again that could, and nothing waits that fits. All that
happens follows from the seed. `python -m tests.contention.full_clusters 0-99` plays a hundred.

From seed WIDER on people do things as well: they order scales, edit rules, taint nodes, delete and
create, and the scaler is restarted or away. From seed SLOWER on pods need up to their whole grace
period to end, a minute to start, and the scheduler does not bind some service for a while."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaler.decide.world import Preempt
from scaler.kube.api import NAMESPACES, PODS, PRIORITY_CLASSES, Object
from scaler.names import NAMESPACE_LABEL, RULE_KEY
from scaler.rules.rule import ALL
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
WIDER = 100_000
"""The first seed of histories in which people act as well."""
SLOWER = 200_000
"""The first seed of histories in which pods end and start slowly."""
CURSES = {
    "owner away": "made",
    "quota": "created",
    "not ready": "ready",
    "not bound": "bound",
}
ACTS = ("order", "rule", "taint", "restart", "scaler away", "not ready")
"""After these every service has what it had."""
REQUESTS = ("minimum", "deletion", "newcomer")
"""By these somebody waits for its minimum, who may take what another one has lost (L10)."""
TAINT = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}


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
    counts_from: dict[str, str]
    """Of services by name; others have the default."""
    newcomers: tuple[Service, ...]
    """Each comes with the loss that names it, and goes at its end."""
    nodes: int
    losses: tuple[Loss, ...]
    settings: dict[str, Any]
    beside: bool
    timing: dict[str, tuple[float, float]] = {}
    """How long pods take, where not as usual."""

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
    priorities = {one.name: rng.choice((0, 5, 9)) if several else 0 for one in services}
    trade = {one.name: rng.choice(("always", "off")) for one in services if rng.random() < 0.2}
    wide = dice("wider", seed) if seed >= WIDER else None
    what = _wider(wide) if wide else LOSSES
    if seed >= SLOWER:
        what = (*what, "not bound", "not bound")
    losses = _losses(rng, services, count, what)
    settings = {"preempt": rng.choice(list(Preempt)).value}
    counts_from = {}
    newcomers = []
    if wide:
        for one in services:
            counts_from[one.name] = wide.choice(("running", "running", "ready", "bound"))
        for number, loss in enumerate(losses):
            if loss.what == "newcomer":
                new = _service(wide, f"new{number}", beside)
                newcomers.append(new)
                losses[number] = msgspec.structs.replace(loss, service=new.name)
                priorities[new.name] = wide.choice((0, 5, 9)) if several else 0
    return History(
        seed,
        tuple(services),
        priorities,
        trade,
        counts_from,
        tuple(newcomers),
        count,
        tuple(losses),
        settings,
        beside,
        _timing(seed),
    )


def _timing(seed: int) -> dict[str, tuple[float, float]]:
    if seed < SLOWER:
        return {}
    rng = dice("slower", seed)
    stop = rng.choice((5.0, 15.0, 30.0))
    start = rng.choice((5.0, 20.0, 60.0))
    return {"stop": (1.0, stop), "start": (2.0, start)}


def _wider(rng: random.Random) -> tuple[str, ...]:
    """In half of the histories nobody comes to wait for a minimum, so that L10 is judged."""
    acts = ACTS if rng.random() < 0.5 else ACTS + REQUESTS
    return (*rng.sample(LOSSES, 6), *acts)


def _service(rng: random.Random, name: str, beside: bool) -> Service:
    """Half of the services are AscendJobs."""
    kind: Kind | None = rng.choice(KINDS)
    if rng.random() < 0.5 or kind is ASCEND_JOBS:
        kind = ASCEND_JOBS if beside else None
    ladder = rng.choice(LADDERS)
    pods = kind.pods if kind else rng.choice(((1, 1), (1, 2), (2, 1)))
    return Service(name, name, "npu", ladder, ladder[0], pods, kind=kind)


def _losses(
    rng: random.Random, services: Sequence[Service], nodes: int, what: Sequence[str]
) -> list[Loss]:
    found = []
    for _ in range(rng.randint(1, 6)):
        at = round(FULL + rng.uniform(0.0, TROUBLE), 1)
        until = round(at + rng.uniform(5.0, LONGEST), 1)
        on = rng.sample(range(nodes), min(nodes, rng.choice((1, 1, 1, 2, 3))))
        found.append(
            Loss(
                rng.choice(what),
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
        made += _surroundings(of, one)
    for one in of.services:
        made += _manifests(of, one)
    return made


def _surroundings(of: History, one: Service) -> list[Object]:
    """The namespace and the rule of a service."""
    labels = {NAMESPACE_LABEL: "enabled"}
    if one.kind is None:
        labels = {}
    elif one.kind is ASCEND_JOBS:
        labels = OPTED_IN
    rule = inventory.rule(one)
    annotations = rule["metadata"]["annotations"]
    if one.name in of.trade:
        annotations["mind-cluster/trade"] = of.trade[one.name]
    if one.name in of.counts_from:
        annotations["mind-cluster/counts-from"] = of.counts_from[one.name]
    return [manifest(NAMESPACES, one.namespace, labels=labels), rule]


# What happens


def _scenario(of: History, folder: Path) -> Scenario:
    events = [event(0.0, apply=str(written(folder, "all", _first(of))))]
    curses = []
    for number, loss in enumerate(of.losses):
        one = _service_of(of, loss)
        write = partial(written, folder, f"{number}-{loss.what}")
        if loss.what in ACTS + REQUESTS:
            events += _acts(of, loss, one, write)
        elif loss.what == "rollout" and one.kind is not None and one.kind.rolls:
            made = write(_manifests(of, one, f"server:{number + 2}"))
            events.append(event(loss.at, apply=str(made)))
        else:
            events += _faults(of, number, loss)
        if loss.what in CURSES:
            never = CURSES[loss.what]
            curses.append(
                {"of": f"{one.namespace}/*", "never": never, "from": loss.at, "until": loss.until}
            )
    mended = max(loss.until for loss in of.losses)
    events.append(node_event(mended, "ready"))
    events.append(event(mended, scheduler="running"))
    events.append(event(mended, controller="start"))
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
            "timing": {"mindie_patience": 86400, **of.timing},
            "settings": of.settings,
            "ascend_operator": of.beside,
        }
    )


def _faults(of: History, number: int, loss: Loss) -> list[dict[str, Any]]:
    """Of nodes, chips and the scheduler; none where something else is lost."""
    events = []
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
    elif loss.what == "scheduler":
        events.append(event(loss.at, scheduler="stopped"))
        events.append(event(loss.until, scheduler="running"))
    return events


def _service_of(of: History, loss: Loss) -> Service:
    (one,) = [one for one in of.services + of.newcomers if one.name == loss.service]
    return one


def _acts(
    of: History, loss: Loss, one: Service, write: Callable[[list[Object]], Path]
) -> list[dict[str, Any]]:
    """What a person does, and takes back."""
    rng = dice(f"act-{loss.at}", of.seed)
    first: dict[str, Any]
    then: dict[str, Any]
    if loss.what == "order":
        wanted = rng.randint(sum(one.ladder[-1]), sum(one.ladder[0]))
        first = {"scale": {"service": one.key, "replicas": wanted}}
        then = {"scale": {"service": one.key, "replicas": ALL}}
    elif loss.what in ("rule", "minimum"):
        ladder = one.ladder[1:] if loss.what == "rule" else one.ladder[:-1]
        first = {"rule": _text(one, ladder)}
        then = {"rule": _text(one, one.ladder)}
    elif loss.what == "deletion":
        some = str(write([rng.choice(_manifests(of, one))]))
        first = {"delete_file": some}
        then = {"apply": some}
    elif loss.what == "newcomer":
        made = _manifests(of, one)
        first = {"apply": str(write([*_surroundings(of, one), *made]))}
        then = {"delete_file": first["apply"]}
    elif loss.what == "restart":
        first = {"controller": "restart"}
        then = {"controller": "start"}
    elif loss.what == "scaler away":
        first = {"controller": "stop"}
        then = {"controller": "start"}
    else:
        return _taints(of, loss) if loss.what == "taint" else []
    return [event(loss.at, **first), event(loss.until, **then)]


def _text(one: Service, ladder: tuple[Ratio, ...]) -> dict[str, str]:
    """The rule with this ladder."""
    text = inventory.rule(one, ladder)["data"][RULE_KEY]
    return {"namespace": one.namespace, "name": one.name, "text": text}


def _taints(of: History, loss: Loss) -> list[dict[str, Any]]:
    """Of nodes that are there then."""
    events = []
    for at, taints in ((loss.at, [TAINT]), (loss.until, [])):
        for node in loss.nodes:
            if not _is_gone_at(of, node, at):
                merge = {"spec": {"taints": taints}}
                patch = {"object": {"kind": "Node", "name": node}, "merge": merge}
                events.append(event(at, patch=patch))
    return events


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
    one = _service_of(of, loss)
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
        struck = ("exit", "exits", "deleted", "owner away", "quota", "not bound")
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
        if (after.serves or one.kind is not PLAIN_PODS) and step and step <= free:
            wrong.append(f"L1: {one.name} needs {step} of {free} free nodes: {after.reasons}")
        recent = timeline.at_time(one.key, timeline.end - QUIET)
        if after.evictions > recent.evictions:
            wrong.append(f"L4: pods of {one.name} are still evicted")
    (gaps if half > 1 or _is_excused(of) else wrong).extend(lost)
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


def _is_excused(of: History) -> bool:
    """Whether a node was taken out of the cluster: its room is not expected back (3b, words). Or
    somebody came to wait for a minimum."""
    return any(loss.what in ("node gone", *REQUESTS) for loss in of.losses)


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
