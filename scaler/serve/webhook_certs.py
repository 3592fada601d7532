"""Keeps the webhook's certificate shown, renewed and trusted. What is due is decided in serve.certificates.

    Secret in the scaler's own namespace --read by every replica--> shown by their TLS servers
          ^ made and renewed by the leader, which also has it trusted by the webhook configurations

Every write has the resourceVersion that was read as its precondition, so a former leader cannot undo anything. Or the
certificate comes from files that another program renews (`CertificateFiles`); then nothing is made and nothing written.
No key ever reaches a disk or a log: errors are logged in the API server's or OpenSSL's words.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from pathlib import Path

import structlog

from scaler.clock import Clock
from scaler.kube.api import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, KubeApi, Object, PatchType, within
from scaler.kube.errors import KubeError, NotFoundError
from scaler.names import WEBHOOK_SECRET
from scaler.serve import certificates
from scaler.serve.certificates import KeyPair, Keys
from scaler.settings import Settings

PERIOD = 10.0
"""Seconds between two looks of the leader: so long may a configuration that was just applied lack its caBundle."""
REREAD = 60.0
"""Seconds until a replica shows a renewed certificate."""
SOON = 2.0
"""Seconds between two looks for the first certificate."""
PATIENCE = 8
"""Looks without a Secret until a replica makes it: the leader may have no webhook until this replica is ready."""
DEADLINE = 10.0
"""Seconds for one request."""
_LABELS = {"app.kubernetes.io/part-of": "mind-cluster-scaler"}
_log = structlog.get_logger("webhook")


class ServerCertificate:
    """What a TLS server shows from the next handshake on; a subclass knows where it comes from.

    It may be exchanged in one thread while another serves."""

    def __init__(self) -> None:
        self.context: ssl.SSLContext | None = None
        """Another one for each pair: none is changed once it is in use. None before the first `use`."""
        self.pair: KeyPair | None = None
        """What is shown now."""
        self._problems = {"reading": "", "keeping": ""}

    def use(self, pair: KeyPair) -> bool:
        """Show this one from the next handshake on; whether it differs from the last. Raises ssl.SSLError or OSError
        when it cannot be used: then the last one stays."""
        if pair == self.pair:
            return False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Under a file name, which is all that the ssl module reads, and never on a disk. Linux only.
        with open(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb", buffering=0) as file:  # noqa: PTH123 - no path
            file.write(pair.key.rstrip() + b"\n" + pair.certificate)
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: "")  # never ask at a terminal
        self.context, self.pair = context, pair
        return True

    @property
    def problem(self) -> str:
        """Why no certificate can be shown, for people; "" while one is."""
        words = self._problems["reading"] or self._problems["keeping"]
        return "" if self.pair else words or "no certificate yet"

    @property
    def ends(self) -> float | None:
        """Until when what is shown is valid, in seconds since the epoch; None while that is nothing, or unreadable."""
        try:
            return certificates.ends(self.pair) if self.pair else None
        except ValueError:
            return None

    async def follow(self) -> None:
        """Show the newest certificate, in every replica, until cancelled."""
        while True:
            self._note("reading", await self._read())
            await asyncio.sleep(REREAD if self.pair else SOON)

    async def run_as_leader(self) -> None:
        """Make and renew the certificate and have it trusted, until cancelled; nothing where another program does."""

    async def _read(self) -> str:
        """Look for the newest certificate and show it; why that is not possible, or ""."""
        return ""

    def _note(self, doing: str, problem: str) -> None:
        """What keeps the certificate from being what it should; logged when it changes, not every time."""
        if problem and problem != self._problems[doing]:
            _log.warning("webhook certificate", problem=problem)
        self._problems[doing] = problem

    def _show(self, pair: KeyPair, source: str) -> str:
        try:
            changed = self.use(pair)
        except (ssl.SSLError, OSError) as error:
            return f"{source}: not usable: {error}"
        if changed:
            _log.info("webhook certificate shown", source=source)
        return ""


class CertificateFiles(ServerCertificate):
    """A certificate in files that another program renews, cert-manager for example; both may be the same file."""

    def __init__(self, certificate: Path, key: Path) -> None:
        super().__init__()
        self._paths = certificate, key

    async def _read(self) -> str:
        certificate, key = self._paths
        try:
            shown = await asyncio.to_thread(certificate.read_bytes)
            private = await asyncio.to_thread(key.read_bytes) if key != certificate else b""
        except OSError as error:
            return f"cannot read {error.filename}: {error.strerror}"
        return self._show(KeyPair(shown, private), str(certificate))


class CertificateKeeper(ServerCertificate):
    """The certificate in a Secret. The API server reaches the webhook by `name`; `configurations` is the name of both
    webhook configurations."""

    def __init__(self, api: KubeApi, clock: Clock, *, namespace: str, configurations: str, name: str) -> None:
        super().__init__()
        self._api = api
        self._clock = clock
        self._namespace = namespace
        self._configurations = configurations
        self._name = name
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
        """One look: what was read is trusted before it is advanced, what was made is stored before it is shown."""
        secret = await self._stored()
        stored = _keys_of(secret)
        keys = stored or self._keys
        problem = await self._trust(keys) if keys else ""
        now = self._clock.server()
        if problem and keys and keys.coming and certificates.believed(keys.shown, self._name, now):
            return problem  # the coming one would not be believed yet
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
            return await within(DEADLINE, self._api.get(SECRETS, self._namespace, WEBHOOK_SECRET))
        except NotFoundError:
            return None

    async def _store(self, secret: Object | None, keys: Keys) -> None:
        data = {name: _base64(value) for name, value in certificates.write(keys).items()}
        _log.info("webhook certificate written", name=WEBHOOK_SECRET, next=keys.coming is not None)
        if secret is not None:
            replaced = self._api.replace(SECRETS, self._namespace, WEBHOOK_SECRET, {**secret, "data": data})
            await within(DEADLINE, replaced)
            return
        metadata = {"name": WEBHOOK_SECRET, "namespace": self._namespace, "labels": _LABELS}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}
        await within(DEADLINE, self._api.create(SECRETS, self._namespace, body))

    async def _trust(self, keys: Keys) -> str:
        """Have every webhook of our two configurations believe what is shown and comes next; why not, or ""."""
        problems, name, bundle = [], self._configurations, _base64(keys.trusted)
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            try:
                found = await within(DEADLINE, self._api.get(resource, None, name))
                patch: list[Object] = [
                    {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
                    for number, webhook in enumerate(found.get("webhooks") or [])
                    if webhook["clientConfig"].get("caBundle") != bundle
                ]
                if patch:
                    version = found["metadata"]["resourceVersion"]
                    unchanged = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
                    _log.info("certificate trusted", kind=resource.kind, webhooks=len(patch))
                    send = self._api.patch(resource, None, name, [unchanged, *patch], patch_type=PatchType.JSON)
                    await within(DEADLINE, send)
            except NotFoundError:
                continue  # this one is not installed
            except KubeError as error:
                problems.append(f"{resource.kind}: {error}")
        return "; ".join(problems)


def certificate_source(api: KubeApi, clock: Clock, settings: Settings) -> ServerCertificate:
    """As the settings have it."""
    if settings.webhook_cert_file:
        certificate = Path(settings.webhook_cert_file)
        return CertificateFiles(certificate, Path(settings.webhook_key_file or certificate))
    home, name = settings.lease_namespace, settings.webhook_name
    return CertificateKeeper(api, clock, namespace=home, configurations=settings.install, name=name)


def _keys_of(secret: Object | None) -> Keys | None:
    data = (secret or {}).get("data") or {}
    try:
        return certificates.read({name: base64.b64decode(value) for name, value in data.items()})
    except (ValueError, TypeError):
        return None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
