"""What Kubernetes gives to a pod: where the API server is, a token, and whom to trust.

Read here, because the loaders of kubernetes_asyncio cannot be had without all its models, which take 40 MiB.
"""

from __future__ import annotations

import os
from pathlib import Path

MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_here() -> bool:
    """Whether this is a pod with a service account."""
    return HOST in os.environ and (MOUNTED / "token").is_file()


class InCluster:
    """As much of the Configuration of kubernetes_asyncio as is read of one. Raises OSError or ValueError when anything
    is missing or empty."""

    cert_file = key_file = proxy = tls_server_name = None
    verify_ssl, disable_strict_ssl_verification = True, False

    def __init__(self) -> None:
        host, port = os.environ.get(HOST, ""), os.environ.get(PORT, "")
        if not (host and port):
            raise ValueError(f"{HOST} or {PORT} is not set")
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ssl_ca_cert = str(MOUNTED / "ca.crt")
        self.api_key: dict[str, str] = {}
        self.read()

    def read(self) -> None:
        """The token as it is now: it is renewed while the pod lives."""
        token = (MOUNTED / "token").read_text().strip()
        if not token:
            raise ValueError(f"{MOUNTED / 'token'} is empty")
        self.api_key["BearerToken"] = f"Bearer {token}"
