"""Which ways of putting our gate onto pods are set up in this cluster: told in the log and as a metric. Only looks.

A way that is set up need not work for every pod; what arrives without the gate is counted where pods are observed.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum

import structlog

from scaler.kube.api import MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS, KubeApi, Object, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import POLICY, WEBHOOK
from scaler.report.metrics import Metrics

DEADLINE = 10.0
"""Seconds for one request."""
_log = structlog.get_logger("gates")


class Way(StrEnum):
    """Beside these, users may write the gate into their pod templates, which shows only on the pods."""

    POLICY = "policy"
    WEBHOOK = "webhook"


class Answer(StrEnum):
    YES = "set up"
    NO = "not set up"
    NOT_TRUSTED = "set up, but API servers do not trust it yet"
    UNKNOWN = "not known"


class Ways:
    """Asks once per `look`, and tells what has changed since."""

    def __init__(self, api: KubeApi, metrics: Metrics) -> None:
        self._api = api
        self._metrics = metrics
        self._told: dict[Way, Answer] = {}

    async def look(self) -> dict[Way, Answer]:
        """Never raises an error of the seam: without rights the answer is that it is not known."""
        found = {Way.POLICY: await self._policy(), Way.WEBHOOK: await self._webhook()}
        if found != self._told:
            self._told = found
            _log.info("ways to hold pods", **{way.value: answer.value for way, answer in found.items()})
            for way, answer in found.items():
                self._metrics.gate_way(way.value, set_up=answer is Answer.YES)
        return found

    async def _policy(self) -> Answer:
        found = await self._get(MUTATING_POLICY_BINDINGS, POLICY)
        return found if isinstance(found, Answer) else Answer.YES

    async def _webhook(self) -> Answer:
        found = await self._get(MUTATING_WEBHOOKS, WEBHOOK)
        if isinstance(found, Answer):
            return found
        webhooks = found.get("webhooks") or []
        trusted = all((webhook.get("clientConfig") or {}).get("caBundle") for webhook in webhooks)
        return Answer.YES if webhooks and trusted else Answer.NOT_TRUSTED

    async def _get(self, resource: Resource, name: str) -> Object | Answer:
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._api.get(resource, None, name)
        except NotFoundError:
            return Answer.NO
        except (KubeError, TimeoutError):
            return Answer.UNKNOWN
