"""Writes the scaler's own ConfigMaps: only when their content changes, never over an object of somebody else's.

Remembers a digest of what it wrote last instead of watching: one read per object and leadership, no read at rest.
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
        self._written: dict[tuple[str, str], tuple[str, Object | None]] = {}
        """Namespace and name -> digest of what was written last, and the metadata that it has since; None = foreign."""

    async def put(self, wanted: Object) -> None:
        """Make the cluster say `wanted`, a ConfigMap from state.own_config_maps.config_map."""
        key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
        known, metadata = self._written.pop(key, ("", None))  # after an error nothing is known
        if known != digest:
            metadata = await (self._patch(wanted, metadata) if metadata else self._write(wanted))
        self._written[key] = digest, metadata

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

    async def _write(self, wanted: Object) -> Object | None:
        """Without knowledge of what is there; gives the metadata after it, None when it is not ours."""
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        try:
            existing = await self._writer.get(CONFIG_MAPS, namespace, name)
        except NotFoundError:
            return _metadata(await self._writer.create(CONFIG_MAPS, namespace, wanted))
        if not is_ours(existing):
            self._metrics.report_dropped("config-map", "foreign")
            _log.warning("a ConfigMap of this name is not ours and is left alone", namespace=namespace, name=name)
            return None
        return _metadata(existing) if same_content(existing, wanted) else await self._patch(wanted, _metadata(existing))

    async def _patch(self, wanted: Object, before: Object) -> Object:
        """Labels and annotations of other people's tools stay."""
        metadata = wanted["metadata"]
        patch = {key: value for key, value in wanted.items() if key in ("data", "binaryData")}
        patch["metadata"] = {"labels": metadata["labels"], "annotations": metadata["annotations"], **before}
        return _metadata(
            await self._writer.patch(
                CONFIG_MAPS, metadata["namespace"], metadata["name"], patch, patch_type=PatchType.MERGE
            )
        )


def _metadata(existing: Object) -> Object:
    """The precondition of the next write."""
    return {key: existing["metadata"][key] for key in ("uid", "resourceVersion")}
