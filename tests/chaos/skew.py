"""Two releases beside each other: replicas that write as the release before does, and are replaced one by one.

The code is this tree's; what it writes is turned into the formats of the release before (tests/formats holds both).
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from scaler.kube.api import CONFIG_MAPS, ELASTIC_SERVICES, Object, Resource
from tests.chaos.client import Life
from tests.chaos.schedule import SCALED, Event, Schedule, schedule

ROLLED = "roll"
APART = (2.0, 15.0)
"""Seconds between two replicas of one rolling update."""


def earlier(resource: Resource, body: Any) -> Any:
    """`body` as v0.1.0 writes it."""
    if resource == CONFIG_MAPS and "data" in body:
        return body | {"data": {key: value for key, value in body["data"].items() if key != "format"}}
    if resource == ELASTIC_SERVICES and "status" in body:
        said = {key: value for key, value in body["status"].items() if key not in ("selector", "wanted")}
        said["conditions"] = [each for each in said["conditions"] if each["type"] != "ScalingLimited"]
        return body | {"status": said}
    return body


class EarlierLife(Life):
    """One of the release before."""

    async def create(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """See KubeApi.create."""
        return await super().create(resource, namespace, earlier(resource, body))

    async def patch(self, resource: Resource, namespace: str | None, name: str, patch: Any, **options: Any) -> Object:
        """See KubeApi.patch."""
        return await super().patch(resource, namespace, name, earlier(resource, patch), **options)


def upgrade(seed: int) -> Schedule:
    """Of two replicas of the release before, each is replaced during whatever else goes wrong; in every second history
    both are replaced back. Nobody scales: the release before does not know of it."""
    rng, made = random.Random(f"upgrade-{seed}"), schedule(seed)
    events = [event for event in made.events if event.what != SCALED]
    for at in sorted(rng.uniform(0, made.storm * 0.8) for _ in range(rng.choice([1, 2]))):
        slots = rng.sample(range(2), 2)
        events += [
            Event(round(at + number * rng.uniform(*APART), 1), ROLLED, str(slot)) for number, slot in enumerate(slots)
        ]
    return msgspec.structs.replace(
        made, replicas=2, election=True, events=tuple(sorted(events, key=lambda event: event.at)), earlier=True
    )
