"""Training jobs in one line, beside what `tests/builders.py` has:

    job("8 > 4 > 2", "held")                    we make its pods, and it has none
    job("8 > 4 > 2", "held 4", recorded="4")    its owner has made 4, gated
    job("8 > 4 > 2", "on a0 + on a1", recorded="2")

A size is a number of servers with 8 NPUs each. `on_one_server` has sizes in NPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from scaler.decide.decide import decide
from scaler.decide.decision import Admit, Decision, Restart
from scaler.decide.world import (
    NOT_STARTED,
    Service,
    ServiceKey,
    Size,
    Training,
)
from scaler.rules.rule import Ratio, Rule
from tests.builders import NOW, WHOLE, Story, located, pods_of, request, world

GROUP = "train"
RULE = Rule((Ratio(counts={GROUP: 1}, sizes={GROUP: 1}),))


def job(ladder: str, where: str, *, name: str = "j", recorded: str = "", **changes: Any) -> Service:
    """A job of several servers. `held` is with all pods gated where a number stands behind it."""
    sizes = []
    for word in ladder.split(">"):
        number = int(word)
        sizes.append(Size(str(number), number, number, ((request(WHOLE), number),)))
    return _service(tuple(sizes), where, name, recorded, **changes)


def on_one_server(
    ladder: str, where: str, *, name: str = "j", recorded: str = "", **changes: Any
) -> Service:
    """A job of one pod, whose sizes are NPUs."""
    sizes = []
    for word in ladder.split(">"):
        sizes.append(Size(word.strip(), int(word), 1, ((request(int(word)), 1),)))
    return _service(tuple(sizes), where, name, recorded, **changes)


_OF_TRAINING = set(Training.__struct_fields__) - {"sizes", "recorded"}


def _service(
    sizes: tuple[Size, ...], where: str, name: str, recorded: str, **changes: Any
) -> Service:
    names = [size.name for size in sizes]
    at = names.index(recorded) if recorded else 0
    of_training = {one: changes.pop(one) for one in tuple(changes) if one in _OF_TRAINING}
    of_service = {one: changes.pop(one) for one in tuple(changes) if one in ("replicas", "options")}
    held = re.fullmatch(r"held(?: (\d+))?", where)
    made_here = not held or held[1] is None
    made_here = changes.pop("made_by_us", made_here)
    if held:
        pods = ["g"] * int(held[1] or 0) if not made_here else ["."] * sizes[at].pods
        pods = pods or ["."] * sizes[at].pods
    else:
        pods = pods_of(where)
    released = not held and set(pods) - {"!", ".", "g"}
    started = of_training.pop("started", at if released else NOT_STARTED)
    training = Training(sizes, recorded=at, started=started, **of_training)
    need = sizes[started if started >= 0 else at].needs[0][0]
    instance = located(
        "train0",
        need,
        pods,
        **{
            "uid": f"{name}-0",
            "group": GROUP,
            "revision": "1",
            "newest": NOW - 100 if set(pods) - {"!", "."} else 0.0,
            "made_by_us": made_here,
            "training": training,
            **changes,
        },
    )
    return Service(ServiceKey("default", "", f"vcjob/{name}"), (instance,), RULE, **of_service)


def with_training(service: Service, **changes: Any) -> Service:
    """The same job, of which this is other."""
    instance = service.instances[0]
    training = replace(instance.training, **changes)  # type: ignore[type-var]
    return replace(service, instances=(replace(instance, training=training),))


class Told(Story):
    """A story of training jobs, with sizes in what is done."""

    def at(
        self, time: float, *services: Service, nodes: str = "", bound: bool = False
    ) -> dict[str, str]:
        super().at(time, *services, nodes=nodes, bound=bound)
        return doings_of(self.made, services)


def on(letter: str, number: int, first: int = 0) -> str:
    """Pods that run on so many nodes: `on("a", 2)` is `on a0 + on a1`."""
    return " + ".join([f"on {letter}{at}" for at in range(first, first + number)])


def done(*services: Service, nodes: str, **changes: Any) -> dict[str, str]:
    """What is decided in a world, with the sizes of training jobs: `{"j-0": "Admit 4"}`,
    `{"j-0": "Restart 4 fault"}`."""
    return doings_of(decide(world(*services, nodes=nodes, **changes)), services)


def doings_of(made: Decision, services: Iterable[Service]) -> dict[str, str]:
    """The same of a decision about these services."""
    trainings = {}
    for service in services:
        for one in service.instances:
            trainings[one.uid] = one.training
    found = {}
    for plan in made.plans:
        for action in plan.actions:
            training = trainings[action.uid]
            words = type(action).__name__
            if isinstance(action, Admit | Restart) and isinstance(training, Training):
                words += f" {training.sizes[action.size].name}"
            if isinstance(action, Restart):
                words += f" {action.cause}"
            found[action.uid] = words
    return found
