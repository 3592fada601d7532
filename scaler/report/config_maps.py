"""Writes the scaler's own ConfigMaps: only when their content changes, and never over an object of another owner."""

from __future__ import annotations

import structlog

from scaler.kube.api import CONFIG_MAPS, Object, PatchType
from scaler.kube.errors import NotFoundError
from scaler.kube.writer import Writer
from scaler.report.metrics import Metrics
from scaler.state.last_valid import is_ours, same_content

_log = structlog.get_logger("report")


async def put(writer: Writer, metrics: Metrics, content: Object) -> None:
    """Create or patch the ConfigMap with this `content`, made by state.last_valid.config_map. Raises KubeError."""
    namespace, name = content["metadata"]["namespace"], content["metadata"]["name"]
    try:
        existing = await writer.get(CONFIG_MAPS, namespace, name)
    except NotFoundError:
        await writer.create(CONFIG_MAPS, namespace, content)
        return
    if not is_ours(existing):
        metrics.reports_dropped.labels("config-map", "foreign").inc()
        _log.warning("a ConfigMap of this name is not ours and is left alone", namespace=namespace, name=name)
    elif not same_content(existing, content):
        # Labels and annotations that other tools have added stay.
        patch: Object = {key: content[key] for key in ("data", "binaryData") if key in content}
        changed = {key: content["metadata"][key] for key in ("labels", "annotations")}
        patch["metadata"] = changed | {key: existing["metadata"][key] for key in ("uid", "resourceVersion")}
        await writer.patch(CONFIG_MAPS, namespace, name, patch, patch_type=PatchType.MERGE)


async def remove(writer: Writer, namespace: str, name: str) -> None:
    """Delete the ConfigMap if it exists and is the scaler's own. Raises KubeError."""
    try:
        existing = await writer.get(CONFIG_MAPS, namespace, name)
    except NotFoundError:
        return
    if is_ours(existing):
        await writer.delete(CONFIG_MAPS, namespace, name, uid=existing["metadata"]["uid"])
