"""Loads and renews the webhook's certificate, and writes it into the caBundle. serve.certificates
decides what is due.

    Secret in the scaler's own namespace --read by every replica--> used by their TLS servers
          ^ made and renewed by the leader, which also writes the caBundle of the webhook
          configurations

Every write has the resourceVersion that was read as its precondition, so a former leader cannot
overwrite anything. Or another program renews the certificate in files (`CertificateFiles`); then
nothing is made and nothing is written. No key ever reaches a disk or a log: the log has the words
of the API server or of OpenSSL."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
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
from scaler.serve.certificates import KeyPair, Keys
from scaler.settings import Settings

PERIOD = 10.0
"""Seconds between two checks of the leader: at most so long a newly applied configuration lacks its
caBundle."""
REREAD = 60.0
"""Seconds until a replica uses a renewed certificate."""
SOON = 2.0
"""Seconds between two reads while there is no certificate."""
PATIENCE = 8
"""Reads without a Secret until any replica makes it: the leader may have no webhook yet."""
_LABELS = {"app.kubernetes.io/part-of": "mind-cluster-scaler"}
_log = structlog.get_logger("webhook")


class ServerCertificate:
    """The certificate that a TLS server uses from the next handshake on; subclasses know its
    source.

    One thread may replace it while another thread serves."""

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None
        """The TLS context, a new one for each pair: one in use is never changed. None before the
        first `use`."""
        self.pair: KeyPair | None = None
        self._problems = {"reading": "", "keeping": ""}

    def use(self, pair: KeyPair) -> None:
        """Use this pair from now on. Raises ssl.SSLError or OSError when it is unusable: the last
        pair stays."""
        if pair == self.pair:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads only files; this one is in memory, never on a disk. Linux only.
        # No path.
        with open(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb", buffering=0) as file:  # noqa: PTH123
            file.write(pair.key.rstrip() + b"\n" + pair.certificate)
            # never prompt at a terminal
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: "")
        self.context = context
        self.pair = pair

    @property
    def problem(self) -> str:
        """Why there is no certificate in use, for people; "" while there is one."""
        words = self._problems["reading"] or self._problems["keeping"]
        return "" if self.pair else words or "no certificate yet"

    @property
    def ends(self) -> float | None:
        """The end of the certificate in use, in seconds since the epoch; None without a readable
        one."""
        try:
            return certificates.ends(self.pair) if self.pair else None
        except ValueError:
            return None

    async def follow(self) -> None:
        """Use the newest certificate, in every replica, until cancelled."""
        while True:
            self._note("reading", await self._read())
            await asyncio.sleep(REREAD if self.pair else SOON)

    async def run_as_leader(self) -> None:
        """Make and renew the certificate and write the caBundles, until cancelled; does nothing for
        files."""

    async def _read(self) -> str:
        """Read the newest certificate and use it; returns why that failed, or ""."""
        return ""

    def _note(self, doing: str, problem: str) -> None:
        """Note what is wrong with the certificate; a log line when that changes, not every time."""
        if problem and problem != self._problems[doing]:
            _log.warning("webhook certificate", problem=problem)
        self._problems[doing] = problem

    def _show(self, pair: KeyPair, source: str) -> str:
        before = self.pair
        try:
            self.use(pair)
        except (ssl.SSLError, OSError) as error:
            return f"{source}: not usable: {error}"
        if pair != before:
            _log.info("webhook certificate shown", source=source)
        return ""


class CertificateFiles(ServerCertificate):
    """Files that another program renews, for example cert-manager; certificate and key may be one
    file."""

    def __init__(self, certificate: Path, key: Path) -> None:
        super().__init__()
        self._certificate = certificate
        self._key = key

    async def _read(self) -> str:
        try:
            shown = await asyncio.to_thread(self._certificate.read_bytes)
            private = (
                await asyncio.to_thread(self._key.read_bytes)
                if self._key != self._certificate
                else b""
            )
        except OSError as error:
            return f"cannot read {error.filename}: {error.strerror}"
        return self._show(KeyPair(shown, private), str(self._certificate))


class CertificateKeeper(ServerCertificate):
    """The certificate in a Secret, for the name by which API servers reach the webhook of these
    settings."""

    def __init__(self, api: KubeApi, clock: Clock, settings: Settings) -> None:
        super().__init__()
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
        return CertificateFiles(certificate, Path(settings.webhook_key_file or certificate))
    return CertificateKeeper(api, clock, settings)


def _keys_of(secret: Object | None) -> Keys | None:
    data = (secret or {}).get("data") or {}
    try:
        return certificates.read({name: base64.b64decode(value) for name, value in data.items()})
    except (ValueError, TypeError):
        return None
