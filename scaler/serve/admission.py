"""The admission webhook as one thing that a process runs: certificate, server, and what the leader does for both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from scaler.clock import Clock
from scaler.kube.api import KubeApi
from scaler.serve.labelled import GroupsOf
from scaler.serve.tls import ServerCertificate
from scaler.serve.webhook import WebhookState, serve_webhook
from scaler.serve.webhook_certs import CertificateFiles, CertificateKeeper
from scaler.settings import Settings


class Admission:
    """`groups_of` and `answered` as in serve.webhook.WebhookState. Every replica serves; one leads."""

    def __init__(
        self, api: KubeApi, clock: Clock, settings: Settings, *, groups_of: GroupsOf,
        answered: Callable[[str, str, float], None],
    ) -> None:  # fmt: skip
        self._settings = settings
        certificate = ServerCertificate()
        self._state = WebhookState(certificate, groups_of, answered)
        self._keeper: CertificateKeeper | None = None
        self._files: CertificateFiles | None = None
        if settings.webhook_cert_file:
            key = Path(settings.webhook_key_file or settings.webhook_cert_file)
            self._files = CertificateFiles(certificate, Path(settings.webhook_cert_file), key)
        else:
            self._keeper = CertificateKeeper(
                api,
                clock,
                certificate,
                namespace=settings.lease_namespace,
                secret=settings.webhook_secret,
                names=(settings.webhook_service,),
            )

    @property
    def problem(self) -> str:
        """Why it cannot answer, for readiness; "" when it can."""
        source = self._keeper or self._files
        return source.problem if source is not None else ""

    async def follow(self) -> None:
        """Show the newest certificate, until cancelled."""
        source = self._keeper or self._files
        if source is not None:
            await source.follow()

    async def lead(self) -> None:
        """Make, renew and have trusted what is shown, until cancelled; nothing to do where files bring it."""
        if self._keeper is not None:
            await self._keeper.run_as_leader()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Raises OSError when the port is taken."""
        async with serve_webhook(self._state, self._settings.webhook_host, self._settings.webhook_port):
            yield
