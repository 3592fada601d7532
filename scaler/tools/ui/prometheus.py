"""The past of one service, from a Prometheus that scrapes the scaler. Errors become words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp
import msgspec

from scaler.decide.world import ServiceKey
from scaler.kube.client import TooLongError, read_at_most
from scaler.rules.values import as_list, as_text, at

HOURS = 6
STEP = 60
"""Seconds."""
TIMEOUT = 5.0
MOST_BYTES = 8 * 1024 * 1024
INSTANCES = "scaler_service_instances"
AVAILABLE = "scaler_service_available"


class Past(msgspec.Struct, frozen=True):
    """`totals`: time -> instances by state, all groups together. `problem`: why there are none."""

    totals: dict[str, dict[str, int]] = {}
    moments: dict[str, dict[str, Any]] = {}
    problem: str = ""


class Prometheus:
    """`url` is the address of its API, without /api/v1."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    async def past(self, key: ServiceKey, now: float) -> Past:
        """The last hours of a service."""
        labels = {"namespace": key.namespace, "rule": key.rule, "job_id": key.job_id}
        selector = ",".join(f"{name}={_quoted(value)}" for name, value in labels.items())
        try:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT)
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
                instances = await self._range(
                    session, f"sum by (state) ({INSTANCES}{{{selector}}})", now
                )
                # the least of each step: a shorter outage would fall between two points
                available = await self._range(
                    session, f"max(min_over_time({AVAILABLE}{{{selector}}}[{STEP}s]))", now
                )
        except (
            TimeoutError,
            TooLongError,
            aiohttp.ClientError,
            msgspec.MsgspecError,
            UnicodeError,
        ) as error:
            return Past(problem=f"Prometheus: {type(error).__name__}: {error}")
        return Past(_totals(instances), _moments(available))

    async def _range(self, session: aiohttp.ClientSession, query: str, now: float) -> list[Any]:
        asked = {
            "query": query,
            "start": str(now - HOURS * 3600),
            "end": str(now),
            "step": str(STEP),
        }
        async with session.post(f"{self._url}/api/v1/query_range", data=asked) as response:
            response.raise_for_status()
            answer = msgspec.json.decode(await read_at_most(response, MOST_BYTES))
        return as_list(at(answer, "data").get("result"))


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _totals(series: Iterable[Any]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for one in series:
        state = as_text(at(one, "metric").get("state"))
        for moment, value in _points(one):
            found.setdefault(f"{moment:.3f}", {})[state] = int(value)
    return dict(sorted(found.items(), key=lambda pair: float(pair[0])))


def _moments(series: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """When the service became available, and when it stopped being so."""
    found: dict[str, dict[str, Any]] = {}
    for one in series:
        last = None
        for moment, value in _points(one):
            if last is not None and value != last:
                said = {
                    "at": moment,
                    "kind": "condition",
                    "level": "good" if value else "bad",
                    "subject": "Available",
                }
                text = {
                    "reason": "True" if value else "False",
                    "text": "",
                    "count": 1,
                    "source": "Prometheus",
                }
                found[f"prometheus/{moment:.3f}"] = {**said, **text}
            last = value
    return found


def _points(series: Mapping[str, Any]) -> Iterable[tuple[float, float]]:
    for point in as_list(at(series).get("values")):
        try:
            yield float(point[0]), float(point[1])
        except (TypeError, ValueError, IndexError, KeyError):
            continue
