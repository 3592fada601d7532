"""The scaler as `scaler run` builds it, with a stopwatch at the seam: `python -m
tests.control_plane.timed_scaler`.

Every watch event and every write is noted with the loop's time as it passes through KubeApi;
SIGTERM ends the run and writes the notes. Must not: change anything that passes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from scaler.app import App
from scaler.clock import Clock
from scaler.kube.api import KubeApi, Resource, WatchEvent
from scaler.kube.client import connect
from scaler.report.log import configure
from scaler.settings import Settings


class Note(msgspec.Struct, frozen=True, array_like=True):
    """`what` is event, send or answer; `at` is seconds of the loop's clock; `number` pairs a send
    with its answer."""

    at: float
    what: str
    verb: str
    resource: str
    name: str
    number: int = 0


class Stopwatch:
    """A KubeApi that notes what passes."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.notes: list[Note] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        return partial(self._timed, name, call) if name in ("create", "patch") else call

    async def watch(
        self, resource: Resource, *place: str | None, **how: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        async for event in self._api.watch(resource, *place, **how):
            metadata = getattr(event.object, "metadata", None) or (event.object or {}).get(
                "metadata", {}
            )
            name = metadata.get("name", "") if isinstance(metadata, dict) else metadata.name
            self._note("event", event.type.value, resource, name)
            yield event

    async def _timed(
        self, verb: str, call: Any, resource: Resource, place: str | None, *what: Any, **how: Any
    ) -> Any:
        name = what[0]["metadata"]["name"] if verb == "create" else what[0]
        number = len(self.notes)
        self._note("send", verb, resource, name, number)
        answer = await call(resource, place, *what, **how)
        self._note("answer", verb, resource, name, number)
        return answer

    def _note(self, what: str, verb: str, resource: Resource, name: str, number: int = 0) -> None:
        at = asyncio.get_running_loop().time()
        self.notes.append(Note(at, what, verb, resource.plural, name, number))


async def _main(kubeconfig: str) -> list[Note]:
    loop = asyncio.get_running_loop()
    clock = Clock()
    configure("json", "info", timestamp=clock.micro_timestamp)
    settings = Settings.model_validate({"leader_election": False, "http_port": 0})
    async with connect(kubeconfig=kubeconfig) as api:
        stopwatch = Stopwatch(api)
        running = loop.create_task(App(stopwatch, settings, clock).run())
        loop.add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.gather(running, return_exceptions=True)
    return stopwatch.notes


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(msgspec.json.encode(asyncio.run(_main(sys.argv[1]))))
