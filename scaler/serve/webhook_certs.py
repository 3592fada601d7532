"""Loads and renews the webhook's certificate, and writes it into the caBundle. serve.certificates
decides what is due.

    Secret in the scaler's own namespace --read by every replica--> used by their TLS servers
          ^ made and renewed by the leader, which also writes the caBundle of the webhook
          configurations

Every write has the resourceVersion that was read as its precondition, so a former leader cannot
overwrite anything. Or another program renews the certificate in files (`CertificateFiles`); then
nothing is made and nothing is written. No key ever reaches a disk or a log."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import structlog

from scaler.clock import Clock
from scaler.kube.api import (
    MUTATING_WEBHOOKS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    KubeApi,
    Object,
    PatchType,
)
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import WEBHOOK_SECRET
from scaler.serve import certificates
from scaler.serve.certificates import Keys
from scaler.serve.server_certificate import CertificateFiles, ServerCertificate
from scaler.settings import Settings

PERIOD = 10.0
"""Seconds between two checks of the leader: at most so long a newly applied configuration lacks its
caBundle."""
PATIENCE = 8
"""Reads without a Secret until any replica makes it: the leader may have no webhook yet."""
_LABELS = {"app.kubernetes.io/part-of": "mind-cluster-scaler"}
_log = structlog.get_logger("webhook")


class CertificateKeeper(ServerCertificate):
    """The certificate in a Secret, for the name by which API servers reach the webhook of these
    settings."""

    def __init__(self, api: KubeApi, clock: Clock, settings: Settings) -> None:
        super().__init__("webhook")
        self._api = api
        self._clock = clock
        self._home = settings.lease_namespace
        self._name = settings.webhook_name
        self._configurations = settings.install
        self._keys: Keys | None = None
        self._missed = 0

    async def run_as_leader(self) -> None:
        while True:
            pause = PERIOD
            try:
                self._note("keeping", await self._keep())
            except KubeError as error:
                self._note("keeping", str(error))
                pause = max(pause, error.retry_after or 0.0)
            await asyncio.sleep(pause)

    async def _read(self) -> str:
        try:
            secret = await self._stored()
            self._missed = self._missed + 1 if secret is None else 0
            if self._missed > PATIENCE:
                return await self._keep()
            keys = _keys_of(secret)
        except KubeError as error:
            return str(error)
        return self._use(keys) if keys else f"Secret {WEBHOOK_SECRET} holds no usable certificate"

    async def _keep(self) -> str:
        """One check: the caBundle is written before the keys advance, new keys are stored before
        they are used."""
        secret = await self._stored()
        stored = _keys_of(secret)
        keys = stored or self._keys
        problem = await self._trust(keys) if keys else ""
        now = self._clock.server()
        if problem and keys and keys.coming and certificates.believed(keys.shown, self._name, now):
            return problem  # clients do not trust the next certificate yet
        better = certificates.advance(keys, self._name, now) or keys
        if better is None:
            return problem
        if better is not stored:
            await self._store(secret, better)
        return self._use(better) or await self._trust(better)

    def _use(self, keys: Keys) -> str:
        self._keys = keys
        return self._show(keys.shown, f"Secret {WEBHOOK_SECRET}")

    async def _stored(self) -> Object | None:
        try:
            return await self._api.get(SECRETS, self._home, WEBHOOK_SECRET)
        except NotFoundError:
            return None

    async def _store(self, secret: Object | None, keys: Keys) -> None:
        data = {
            name: base64.b64encode(value).decode()
            for name, value in certificates.write(keys).items()
        }
        _log.info("webhook certificate written", name=WEBHOOK_SECRET, next=keys.coming is not None)
        if secret is not None:
            await self._api.replace(SECRETS, self._home, WEBHOOK_SECRET, {**secret, "data": data})
        else:
            metadata = {"name": WEBHOOK_SECRET, "namespace": self._home, "labels": _LABELS}
            new = SECRETS.object(metadata, type="kubernetes.io/tls", data=data)
            await self._api.create(SECRETS, self._home, new)

    async def _trust(self, keys: Keys) -> str:
        """Write the certificate in use and the next one into our two webhook configurations;
        returns why not, or ""."""
        problems = []
        name = self._configurations
        bundle = base64.b64encode(keys.trusted).decode()
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            try:
                found = await self._api.get(resource, None, name)
                patch: list[Object] = [
                    {
                        "op": "add",
                        "path": f"/webhooks/{number}/clientConfig/caBundle",
                        "value": bundle,
                    }
                    for number, webhook in enumerate(found.get("webhooks") or [])
                    if webhook["clientConfig"].get("caBundle") != bundle
                ]
                if patch:
                    version = found["metadata"]["resourceVersion"]
                    unchanged = {
                        "op": "test",
                        "path": "/metadata/resourceVersion",
                        "value": version,
                    }
                    _log.info("certificate trusted", kind=resource.kind, webhooks=len(patch))
                    await self._api.patch(
                        resource, None, name, [unchanged, *patch], patch_type=PatchType.JSON
                    )
            except NotFoundError:
                continue  # this configuration is not installed
            except KubeError as error:
                problems.append(f"{resource.kind}: {error}")
        return "; ".join(problems)


def certificate_source(api: KubeApi, clock: Clock, settings: Settings) -> ServerCertificate:
    if settings.webhook_cert_file:
        certificate = Path(settings.webhook_cert_file)
        key = Path(settings.webhook_key_file or certificate)
        return CertificateFiles("webhook", certificate, key)
    return CertificateKeeper(api, clock, settings)


def _keys_of(secret: Object | None) -> Keys | None:
    data = (secret or {}).get("data") or {}
    try:
        return certificates.read({name: base64.b64decode(value) for name, value in data.items()})
    except (ValueError, TypeError):
        return None
