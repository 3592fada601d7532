"""Writes the scaler's own ConfigMaps: only when their content changes, never over an object of somebody else's.

Remembers a digest of what it wrote last instead of watching: one read before each write, no read at rest.
"""

from __future__ import annotations

import hashlib
import json

import structlog

from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.kube.writer import Writer
from scaler.report.metrics import Metrics
from scaler.state.own_config_maps import is_ours, same_content

_log = structlog.get_logger("report")


class OwnConfigMaps:
    """Create, patch and delete ConfigMaps of ours. Raises KubeError; calling again is always right."""

    def __init__(self, writer: Writer, metrics: Metrics) -> None:
        self._writer = writer
        self._metrics = metrics
        self._written: dict[tuple[str, str], str] = {}
        """Namespace and name -> digest of what was wanted last."""

    async def put(self, wanted: Object) -> None:
        """Make the cluster say `wanted`, a ConfigMap from state.own_config_maps.config_map."""
        key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
        if self._written.pop(key, "") != digest:  # after an error nothing is known
            await self._write(wanted)
        self._written[key] = digest

    def forget(self, namespace: str, name: str) -> None:
        """Somebody deleted it: what was written last says nothing any more."""
        self._written.pop((namespace, name), None)

    async def remove(self, namespace: str, name: str) -> None:
        """Delete it when it is there and ours."""
        self.forget(namespace, name)
        try:
            existing = await self._writer.get(CONFIG_MAPS, namespace, name)
        except NotFoundError:
            return
        if is_ours(existing):
            await self._writer.delete(CONFIG_MAPS, namespace, name, uid=existing["metadata"]["uid"])

    async def _write(self, wanted: Object) -> None:
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        try:
            existing = await self._writer.get(CONFIG_MAPS, namespace, name)
        except NotFoundError:
            await self._writer.create(CONFIG_MAPS, namespace, wanted)
            return
        if not is_ours(existing):
            self._metrics.report_dropped("config-map", "foreign")
            _log.warning("a ConfigMap of this name is not ours and is left alone", namespace=namespace, name=name)
        elif not same_content(existing, wanted):
            # Labels and annotations of other people's tools stay.
            patch = {key: value for key, value in wanted.items() if key in ("data", "binaryData")}
            patch["metadata"] = {
                **{key: wanted["metadata"][key] for key in ("labels", "annotations")},
                **{key: existing["metadata"][key] for key in ("uid", "resourceVersion")},
            }
            await self._writer.patch(CONFIG_MAPS, namespace, name, patch, patch_type=PatchType.MERGE)
