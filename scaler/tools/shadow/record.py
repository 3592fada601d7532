"""Stores the notes of a shadow: one ConfigMap in its own namespace, read when a term begins,
written twice a minute.

A restart loses up to that much, and the time until the next term is not counted. Must not note
anything."""

from __future__ import annotations

import asyncio
import base64
import zlib
from typing import TYPE_CHECKING

import msgspec
import structlog

from scaler.decide.decision import Decision
from scaler.decide.memory import Memory
from scaler.decide.world import World
from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import KubeError, NotFoundError
from scaler.timestamps import rfc3339
from scaler.tools.shadow.notes import Shadow, Tally

if TYPE_CHECKING:  # the report needs no controller
    from scaler.app import App
    from scaler.controller import Pairs

NAME = "mind-cluster-scaler-shadow"
KEY = "noted.json.z"
INTERVAL = 30.0
"""Seconds between two writes."""
MAX_BYTES = 700 * 1024
MAX_READ = 256 << 20
_HOW = "what mode shadow noted; read it with: scaler shadow report"
_log = structlog.get_logger("shadow")


class Noted(msgspec.Struct):
    """The content of the ConfigMap. Times are seconds since the epoch."""

    at: float
    services: dict[str, Tally] = {}
    alone: str = ""
    """Why each service is decided alone, without room; "" when it is not."""
    left_out: int = 0
    """Differences that did not fit."""
    format: int = 1


def decode(found: Object) -> Noted:
    """The content of a ConfigMap of ours. Raises ValueError for any other."""
    text = (found.get("binaryData") or {}).get(KEY)
    if not isinstance(text, str):
        raise ValueError(f"it has no {KEY}")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(text), MAX_READ)
        noted = msgspec.json.decode(raw, type=Noted)
    except (ValueError, zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(f"{KEY} cannot be read: {error}") from None
    if noted.format != 1:
        raise ValueError(f"{KEY} has format {noted.format}, and 1 is known")
    return noted


def encode(noted: Noted) -> str:
    """The text, with as many differences as fit."""
    for most in (50, 5, 0):
        services = {name: _with(tally, most) for name, tally in noted.services.items()}
        left_out = sum(map(_differences, noted.services.values())) - sum(
            map(_differences, services.values())
        )
        kept = msgspec.structs.replace(noted, services=services, left_out=left_out)
        packed = zlib.compress(msgspec.json.encode(kept), 6)
        if len(packed) <= MAX_BYTES:
            break
    return base64.b64encode(packed).decode("ascii")


def _with(tally: Tally, most: int) -> Tally:
    open_ = dict(list(tally.open.items())[:most])
    ended = {what: found[-most:] if most else [] for what, found in tally.ended.items()}
    return msgspec.structs.replace(tally, open=open_, ended=ended)


def _differences(tally: Tally) -> int:
    return len(tally.open) + sum(map(len, tally.ended.values()))


class Record:
    """One per process; its notes are in `shadow`. Time without a complete view is not counted."""

    def __init__(self) -> None:
        self._shadow = Shadow()
        self._app: App | None = None

    def saw(self, world: World, decision: Decision, pairs: Pairs) -> Memory:
        """Note a decision."""
        return self._shadow.saw(world, decision, pairs)

    async def load(self, app: App) -> None:
        """Read the notes of an earlier leader. Raises KubeError."""
        self._app = app
        noted = Noted(0.0)
        try:
            noted = decode(await app.writer.get(CONFIG_MAPS, app.home, NAME))
        except NotFoundError:
            pass
        except ValueError as error:
            _log.warning("what was noted before is lost", why=str(error))
        self._shadow.begin(noted.services, app.clock.now())

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            try:
                await self._write()
            except KubeError as error:
                _log.warning("what was noted is not written", why=str(error))

    async def _write(self) -> None:
        app = self._app
        if app is None:
            return
        now = app.clock.now()
        self._shadow.advance(now, seen=not app.freshness.words())
        body = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": NAME, "namespace": app.home},
            "data": {"readme": _HOW, "asOf": rfc3339(now)},
            "binaryData": {KEY: encode(Noted(now, self._shadow.services, self._shadow.alone))},
        }
        await app.writer.patch(CONFIG_MAPS, app.home, NAME, body, patch_type=PatchType.APPLY)
