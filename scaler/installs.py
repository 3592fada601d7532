"""No two installs decide about the same namespace: a second one ends with an error message.

Every install writes the namespaces that it governs on its Lease, and a leader reads the Leases of
the others before it does anything. Both write before they read, so of two that start together at
least one sees the other: the one with the younger Lease gives way at once, the other waits for that
for one lease duration. A namespace with the label of an install belongs to an administrator, and so
does the own one. Leases elsewhere may belong to a tenant: they count only among installs without
the label, and only if they are older than the own one, so what is made later stops no running
install. Such an install is not seen by those with the label, so it checks repeatedly, and gives way
when one comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from scaler.kube.api import LEASES, NAMESPACES, KubeApi, Object
from scaler.kube.errors import KubeError
from scaler.kube.metadata import uid_of
from scaler.names import GOVERNS, INSTALL_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from scaler.rules.values import at
from scaler.settings import Settings

EVERYTHING = "*"
LONGEST = 60.0
"""Seconds of the longest wait for a Lease to be renewed."""
MARGIN = 2.0
POLL = 1.0
AGAIN = 10.0
"""Seconds between two checks of an install without the label."""
_MOST = 500
"""Namespaces, and Leases in each, that are read."""
_OURS = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
_log = structlog.get_logger("installs")


class OverlapError(Exception):
    """Another install governs some of the same namespaces. The message is for the administrator of
    both."""


def marks(namespaces: Sequence[str]) -> Object:
    """Labels and annotations of the Lease of an install that governs these namespaces; none = all.
    A shadow governs nothing, and its Lease has none of these marks."""
    governed = ",".join(sorted(namespaces)) or EVERYTHING
    return {"labels": {MANAGED_BY_LABEL: MANAGED_BY}, "annotations": {GOVERNS: governed}}


class Installs:
    """One check per term of leadership. A process without leader election holds no Lease, and gives
    way to any Lease with a holder."""

    def __init__(self, api: KubeApi, settings: Settings) -> None:
        self._api = api
        self._own = (
            settings.lease_namespace,
            settings.lease_name if settings.leader_election else "",
        )
        self._governed = frozenset(settings.namespaces)
        self._own_is_labelled = False
        self._is_there = False
        """There was no conflict with another install: from then on a younger one has to give
        way."""
        self._logged = ""

    async def look(self) -> None:
        """Return when no other install governs any of the namespaces, else raise OverlapError. Logs
        missing rights."""
        try:
            page = await self._api.list(NAMESPACES, label_selector=INSTALL_LABEL, limit=_MOST)
            scopes = [str(item["metadata"]["name"]) for item in page.items]
            self._own_is_labelled = self._own[0] in scopes
            await self._look(scopes)
            self._is_there = True
            label = (
                f"namespace {self._own[0]} has no label {INSTALL_LABEL}: it gives way to installs"
                " that have it"
            )
            problem = ("", "") if self._own_is_labelled else ("not known as an install", label)
        except KubeError as error:
            problem = ("other installs are not looked for", str(error))
        if problem[0] not in ("", self._logged):
            _log.warning(problem[0], why=problem[1])
        self._logged = problem[0]

    async def follow(self) -> None:
        """Check again and again, until the own namespace has the label; raises OverlapError."""
        while not self._own_is_labelled:
            await asyncio.sleep(AGAIN)
            await self.look()

    async def _look(self, scopes: Sequence[str]) -> None:
        first = await self._others(scopes)
        if not first:
            return
        known: dict[str, Any] = {}
        longest = 0.0
        for other in first:
            spec = at(other, "spec")
            known[uid_of(other)] = spec.get("renewTime")
            longest = max(longest, float(spec.get("leaseDurationSeconds") or 0))
        now = asyncio.get_running_loop().time
        end = now() + min(longest, LONGEST) + MARGIN
        _log.warning(
            "another install governs the same", **self._words(first[0]), waits=round(end - now())
        )
        alive: list[dict[str, Any]] | None = None  # not known yet
        while now() < end and not any(other["older"] for other in alive or ()):
            await asyncio.sleep(POLL)
            with suppress(KubeError):
                found = await self._others(scopes)
                if not found:
                    return
                alive = []
                for other in found:
                    if known.get(uid_of(other)) != at(other, "spec").get("renewTime"):
                        alive.append(other)
        if alive or alive is None:  # otherwise none of the Leases is renewed
            words = (
                "another install governs {both} as well: Lease {lease}, held by {holder}; give each"
                " install namespaces of its own (setting namespaces), or remove one of the two"
            )
            raise OverlapError(words.format(**self._words((alive or first)[0])))

    async def _others(self, scopes: Sequence[str]) -> list[dict[str, Any]]:
        """The held Leases of installs that govern some of the same namespaces and need not give
        way, oldest first."""

        def age(lease: Object) -> tuple[object, ...]:
            """The install with the smallest one stays; all others give way."""
            return (
                _name(lease)[0] not in scopes,
                lease["metadata"].get("creationTimestamp") or "",
                _name(lease),
            )

        found = await self._leases({*scopes, self._own[0]})
        own = found.pop(self._own, None)
        if own is not None and not self._own_is_labelled:
            anywhere = await self._leases([None])
            found |= {name: lease for name, lease in anywhere.items() if age(lease) < age(own)}
        others = list[dict[str, Any]]()
        for lease in sorted(found.values(), key=age):
            held = at(lease, "spec").get("holderIdentity")
            older = own is None or age(lease) < age(own)
            if held and self._shared(lease) and (older or not self._is_there):
                others.append({**lease, "older": older})
        return others

    async def _leases(self, scopes: Iterable[str | None]) -> dict[tuple[str, str], Object]:
        found: list[Object] = []
        for scope in scopes:
            found += (await self._api.list(LEASES, scope, label_selector=_OURS, limit=_MOST)).items
        return {_name(lease): lease for lease in found}

    def _shared(self, lease: Object) -> str:
        """The namespaces that both govern, "" = none."""
        theirs = frozenset(
            filter(None, str(at(lease, "metadata", "annotations").get(GOVERNS, "")).split(","))
        )
        if EVERYTHING in theirs:
            return ", ".join(sorted(self._governed)) or "all namespaces"
        shared = theirs & self._governed if self._governed else theirs
        return ", ".join(sorted(shared))

    def _words(self, lease: Object) -> dict[str, str]:
        return {
            "lease": "/".join(_name(lease)),
            "holder": lease["spec"]["holderIdentity"],
            "both": self._shared(lease),
        }


def _name(lease: Object) -> tuple[str, str]:
    return lease["metadata"]["namespace"], lease["metadata"]["name"]
