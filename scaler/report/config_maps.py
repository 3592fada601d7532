"""Writes the scaler's own ConfigMaps: only when their content changes, never over an object of somebody else's.

Remembers a digest of what it wrote last instead of watching: one read per object and leadership, no read at rest.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import structlog

from scaler.kube.api import CONFIG_MAPS, KubeApi, Object, PatchType
from scaler.kube.errors import KubeError, NotFoundError
from scaler.kube.writer import Writer
from scaler.report.metrics import Metrics
from scaler.state.own_config_maps import is_ours, same_content

_log = structlog.get_logger("report")


class _Written(NamedTuple):
    digest: str
    uid: str
    resource_version: str


_FOREIGN = ""
"""The uid remembered for an object of somebody else's."""


class OwnConfigMaps:
    """Create, patch and delete ConfigMaps of ours. Raises KubeError; calling again is always right."""

    def __init__(self, writer: Writer, reader: KubeApi, metrics: Metrics) -> None:
        self._writer = writer
        self._reader = reader
        self._metrics = metrics
        self._written: dict[tuple[str, str], _Written] = {}

    async def put(self, wanted: Object) -> None:
        """Make the cluster say `wanted`, a ConfigMap from objects.config_map."""
        key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        digest = _digest(wanted)
        before = self._written.get(key)
        if before and before.digest == digest:
            return
        try:
            after = await (self._update(wanted, before) if before and before.uid else self._write(wanted))
        except KubeError:
            self._written.pop(key, None)
            raise
        metadata = after.get("metadata") or {}
        uid = str(metadata.get("uid", "")) if is_ours(after) else _FOREIGN
        self._written[key] = _Written(digest, uid, str(metadata.get("resourceVersion", "")))

    def forget(self, namespace: str, name: str) -> None:
        """Somebody deleted it: what was written last says nothing any more."""
        self._written.pop((namespace, name), None)

    async def remove(self, namespace: str, name: str) -> None:
        """Delete it when it is there and ours."""
        self.forget(namespace, name)
        try:
            existing = await self._reader.get(CONFIG_MAPS, namespace, name)
            if is_ours(existing):
                await self._writer.delete(CONFIG_MAPS, namespace, name, uid=existing["metadata"]["uid"])
        except NotFoundError:
            return

    async def _write(self, wanted: Object) -> Object:
        """Without knowledge of what is there."""
        namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
        try:
            existing = await self._reader.get(CONFIG_MAPS, namespace, name)
        except NotFoundError:
            return await self._writer.create(CONFIG_MAPS, namespace, wanted)
        if not is_ours(existing):
            self._metrics.report_dropped("config-map", "foreign")
            _log.warning("a ConfigMap of this name is not ours and is left alone", namespace=namespace, name=name)
            return existing
        if same_content(existing, wanted):
            return existing
        metadata = existing["metadata"]
        return await self._update(wanted, _Written("", metadata["uid"], metadata["resourceVersion"]))

    async def _update(self, wanted: Object, before: _Written) -> Object:
        """A patch, so that labels and annotations of other people's tools stay."""
        metadata, precondition = wanted["metadata"], {"uid": before.uid, "resourceVersion": before.resource_version}
        patch = {key: value for key, value in wanted.items() if key in ("data", "binaryData")}
        patch["metadata"] = {"labels": metadata["labels"], "annotations": metadata["annotations"], **precondition}
        return await self._writer.patch(
            CONFIG_MAPS, metadata["namespace"], metadata["name"], patch, patch_type=PatchType.MERGE
        )


def _digest(wanted: Object) -> str:
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
