"""The admission webhook as one thing that a process runs: its certificate and its server. Every replica serves."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from scaler.clock import Clock
from scaler.kube.api import KubeApi
from scaler.report.metrics import Metrics
from scaler.serve.labelled import GroupsOf
from scaler.serve.tls import ServerCertificate
from scaler.serve.webhook import WebhookState, serve_webhook
from scaler.serve.webhook_certs import CertificateFiles, CertificateKeeper, CertificateSource
from scaler.settings import Settings


class Admission:
    """`groups_of` as in serve.webhook.WebhookState."""

    certificate: CertificateSource

    def __init__(
        self, api: KubeApi, clock: Clock, settings: Settings, *, groups_of: GroupsOf, metrics: Metrics
    ) -> None:
        self._settings = settings
        shown = ServerCertificate()
        self._state = WebhookState(shown, groups_of, metrics)
        if settings.webhook_cert_file:
            key = settings.webhook_key_file or settings.webhook_cert_file
            self.certificate = CertificateFiles(shown, Path(settings.webhook_cert_file), Path(key))
        else:
            home, names = settings.lease_namespace, (settings.webhook_name,)
            self.certificate = CertificateKeeper(
                api, clock, shown, namespace=home, configurations=settings.install, names=names
            )

    def serving(self) -> AbstractAsyncContextManager[int]:
        """Raises OSError when the port is taken."""
        return serve_webhook(self._state, self._settings.http_host, self._settings.webhook_port)
