"""Which sources of our gate are installed in this cluster, for the log and as a metric. Only reads.

An installed source may not work for every pod: those that arrive without the gate are counted where
pods are seen."""

from __future__ import annotations

import structlog

from scaler.kube.api import MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS, KubeApi, Resource
from scaler.kube.errors import KubeError, NotFoundError
from scaler.report.metrics import Metrics

SET_UP = "set up"
NOT_SET_UP = "not set up"
NOT_TRUSTED = "set up, but API servers do not trust it yet"
UNKNOWN = "not known"
_SOURCES = {"policy": MUTATING_POLICY_BINDINGS, "webhook": MUTATING_WEBHOOKS}
"""Beside these, users may write the gate into their pod templates; only the pods show that."""
_log = structlog.get_logger("gates")


class GateSetup:
    """Reads once per `look`, and logs changes. Both sources have the name of the install."""

    def __init__(self, api: KubeApi, metrics: Metrics, install: str) -> None:
        self._api = api
        self._install = install
        self._metrics = metrics
        self._found: dict[str, str] = {}

    async def look(self) -> dict[str, str]:
        """Source -> whether it is installed. Never raises an error of the seam: without rights the
        state is unknown."""
        found = {source: await self._state(resource) for source, resource in _SOURCES.items()}
        if found != self._found:
            self._found = found
            _log.info("gate sources read", **found)
            for source, state in found.items():
                self._metrics.gate_ways.labels(source).set(state == SET_UP)
        return found

    async def _state(self, resource: Resource) -> str:
        try:
            found = await self._api.get(resource, None, self._install)
        except NotFoundError:
            return NOT_SET_UP
        except KubeError:
            return UNKNOWN
        webhooks = found.get("webhooks") or []
        trusted = bool(webhooks) and all(
            (webhook.get("clientConfig") or {}).get("caBundle") for webhook in webhooks
        )
        return SET_UP if trusted or resource is MUTATING_POLICY_BINDINGS else NOT_TRUSTED
