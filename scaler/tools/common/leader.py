"""Whether a scaler is at work in this cluster, from its Lease, if that is readable. Reads only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from scaler.kube.api import LEASES, NAMESPACES, KubeApi, Object
from scaler.kube.errors import ForbiddenError, KubeError
from scaler.names import (
    BLIND_SINCE,
    GOVERNS,
    INSTALL_LABEL,
    LAST_MODE,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from scaler.rules.values import as_text, at
from scaler.timestamps import seconds_of

USUAL = "mind-cluster-scaler-system"
"""Namespace of an install, as in the manifests."""
LATE = 3.0
"""A Lease that was not renewed for this multiple of its duration has no working holder."""


class Leader(msgspec.Struct, frozen=True):
    """A scaler's Lease. `governs`: its namespaces, () for all."""

    namespace: str
    lease: str
    holder: str
    renewed: float
    duration: float
    governs: tuple[str, ...] = ()
    blind_since: str = ""
    last_mode: str = ""

    def is_at_work(self, now: float) -> bool:
        return bool(self.holder) and now < self.renewed + LATE * self.duration

    def looks_after(self, namespace: str) -> bool:
        return not self.governs or namespace in self.governs


class Leaders(msgspec.Struct, frozen=True):
    """All Leases found. `unread`: why there may be more, "" when these are all."""

    found: tuple[Leader, ...] = ()
    unread: str = ""

    def home(self, namespace: str, now: float) -> str:
        """The namespace of the install that governs this one, or the usual one."""
        leader = self.of(namespace, now)
        return leader.namespace if leader is not None else USUAL

    def of(self, namespace: str, now: float) -> Leader | None:
        """The leader that governs this namespace; of several the one that renewed last."""
        fitting = [leader for leader in self.found if leader.looks_after(namespace)]
        return max(
            fitting, key=lambda leader: (leader.is_at_work(now), leader.renewed), default=None
        )


async def leaders(api: KubeApi) -> Leaders:
    """The scalers of this cluster, as far as their Leases are readable. Never raises KubeError."""
    selector = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
    unread = ""
    try:
        return Leaders(_read((await api.list(LEASES, label_selector=selector)).items))
    except ForbiddenError:
        unread = "you may not read Leases"
    except KubeError as error:
        unread = str(error)
    found: list[Object] = []
    async for namespace in _homes(api):
        try:
            found += (await api.list(LEASES, namespace, label_selector=selector)).items
        except KubeError:
            continue
        else:
            unread = ""
    return Leaders(_read(found), unread if not found else "")


async def _homes(api: KubeApi) -> AsyncIterator[str]:
    yield USUAL
    try:
        page = await api.list(NAMESPACES, label_selector=INSTALL_LABEL, limit=100)
    except KubeError:
        return
    for item in page.items:
        if item["metadata"]["name"] != USUAL:
            yield item["metadata"]["name"]


def _read(leases: list[Object]) -> tuple[Leader, ...]:
    found = []
    for lease in leases:
        if GOVERNS in at(lease, "metadata", "annotations"):
            found.append(_leader(lease))
    return tuple(found)


def _leader(lease: Object) -> Leader:
    spec = at(lease, "spec")
    notes = at(lease, "metadata", "annotations")
    duration: Any = spec.get("leaseDurationSeconds")
    return Leader(
        namespace=lease["metadata"]["namespace"],
        lease=lease["metadata"]["name"],
        holder=as_text(spec.get("holderIdentity")),
        renewed=seconds_of(as_text(spec.get("renewTime"))),
        duration=float(duration) if isinstance(duration, int | float) else 15.0,
        governs=tuple(filter(None, notes[GOVERNS].split(","))) if notes[GOVERNS] != "*" else (),
        blind_since=notes.get(BLIND_SINCE, ""),
        last_mode=as_text(notes.get(LAST_MODE)),
    )
