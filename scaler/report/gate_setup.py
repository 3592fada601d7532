"""Which sources of our gate are set up in this cluster, for the log and as a metric. Only reads.

A source that is set up need not work for every pod; what arrives without the gate is counted where pods are observed.
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


class GateSource(StrEnum):
    """Beside these, users may write the gate into their pod templates, which shows only on the pods."""

    POLICY = "policy"
    WEBHOOK = "webhook"


class SetupState(StrEnum):
    """Whether a source of the gate is set up."""

    YES = "set up"
    NO = "not set up"
    NOT_TRUSTED = "set up, but API servers do not trust it yet"
    UNKNOWN = "not known"


class GateSetup:
    """Reads once per `look`, and logs what has changed since."""

    def __init__(self, api: KubeApi, metrics: Metrics) -> None:
        self._api = api
        self._metrics = metrics
        self._found: dict[GateSource, SetupState] = {}

    async def look(self) -> dict[GateSource, SetupState]:
        """Never raises an error of the seam: without rights the answer is that it is not known."""
        found = {GateSource.POLICY: await self._policy(), GateSource.WEBHOOK: await self._webhook()}
        if found != self._found:
            self._found = found
            _log.info("gate sources read", **{source.value: answer.value for source, answer in found.items()})
            for source, answer in found.items():
                self._metrics.gate_way(source.value, set_up=answer is SetupState.YES)
        return found

    async def _policy(self) -> SetupState:
        found = await self._get(MUTATING_POLICY_BINDINGS, POLICY)
        return found if isinstance(found, SetupState) else SetupState.YES

    async def _webhook(self) -> SetupState:
        found = await self._get(MUTATING_WEBHOOKS, WEBHOOK)
        if isinstance(found, SetupState):
            return found
        webhooks = found.get("webhooks") or []
        trusted = all((webhook.get("clientConfig") or {}).get("caBundle") for webhook in webhooks)
        return SetupState.YES if webhooks and trusted else SetupState.NOT_TRUSTED

    async def _get(self, resource: Resource, name: str) -> Object | SetupState:
        try:
            async with asyncio.timeout(DEADLINE):
                return await self._api.get(resource, None, name)
        except NotFoundError:
            return SetupState.NO
        except (KubeError, TimeoutError):
            return SetupState.UNKNOWN
