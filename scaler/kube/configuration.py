"""The address of the API server, the credentials, and the trusted certificates: of a pod, or of a
kubeconfig (kubeconfig.py).

Both are read by our own code: importing the loader of kubernetes_asyncio also imports all models,
which take 40 MiB, and 0.4 s of each command."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from scaler.clock import loop_time
from scaler.kube.errors import NotSentError
from scaler.kube.kubeconfig import Connection, Files, Loader, WithAuthProvider, loader_of, usual

MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST = "KUBERNETES_SERVICE_HOST"
PORT = "KUBERNETES_SERVICE_PORT"

TOKEN_LIFE = 60.0
"""Seconds after which a mounted token is read again."""
PLUGIN_TIMEOUT = 30.0
"""Seconds for an exec plugin or an identity provider to return a token."""


def is_here() -> bool:
    """Whether this process is in a pod with a service account."""
    return HOST in os.environ and (MOUNTED / "token").is_file()


class InCluster(Connection):
    """What is mounted into a pod. Raises OSError or ValueError when a file is missing or empty."""

    def __init__(self) -> None:
        super().__init__()
        host = os.environ.get(HOST, "")
        port = os.environ.get(PORT, "")
        if not (host and port):
            raise ValueError(f"{HOST} or {PORT} is not set")
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ssl_ca_cert = str(MOUNTED / "ca.crt")
        self.read()

    def read(self) -> None:
        """Read the token again: it is renewed while the pod lives."""
        token = (MOUNTED / "token").read_text().strip()
        if not token:
            raise ValueError(f"{MOUNTED / 'token'} is empty")
        self.api_key["BearerToken"] = f"Bearer {token}"


Configuration: TypeAlias = Connection
AnyLoader: TypeAlias = Loader | WithAuthProvider


class Credentials:
    """Token, basic auth or client certificate: read again when they are old, and after the server
    refused them.

    `loader` is that of a kubeconfig, whose plugins then run again; None inside a cluster, where
    files are mounted."""

    def __init__(
        self, configuration: Configuration, loader: AnyLoader | None, tls: ssl.SSLContext
    ) -> None:
        self._configuration = configuration
        self._loader = loader
        self._tls = tls
        self._lock = asyncio.Lock()
        self._loaded_at = loop_time()

    async def header(self) -> str:
        """The Authorization header, "" for none. Never raises: the server's answer 401 to a stale
        token says more."""
        loader = self._loader
        now = loop_time()
        ages = loader is None or loader.ages
        if ages and now >= self._loaded_at + TOKEN_LIFE:
            await self._load()
        return str(self._configuration.api_key.get("BearerToken") or "").strip()

    async def renew(self) -> None:
        """Read the files again that may have been rotated: the token was refused, or the server's
        certificate was."""
        if self._loader is not None:
            self._loader.forget()
        await self._load()

    async def _load(self) -> None:
        """Load the credentials; after an error the old ones stay."""
        asked_at = loop_time()
        async with self._lock:
            if self._loaded_at > asked_at:
                return
            with suppress(Exception):
                async with asyncio.timeout(PLUGIN_TIMEOUT):
                    if isinstance(self._configuration, InCluster):
                        self._configuration.read()
                    elif self._loader is not None:
                        await self._loader.load_and_set(self._configuration)
                if self._configuration.cert_file:
                    self._tls.load_cert_chain(
                        self._configuration.cert_file, self._configuration.key_file
                    )
                elif self._loader is None:
                    self._tls.load_verify_locations(self._configuration.ssl_ca_cert)
            self._loaded_at = loop_time()


async def load(
    kubeconfig: str | None, context: str | None, *, insecure: bool
) -> tuple[Configuration, Credentials, ssl.SSLContext]:
    """The configuration for `client.connect`. NotSentError without a usable one."""
    loader: AnyLoader | None = None
    try:
        if kubeconfig is None and context is None and is_here():
            configuration: Configuration = InCluster()
        else:
            loader = loader_of(kubeconfig or usual(), context)
            configuration = Connection()
            await asyncio.wait_for(loader.load_and_set(configuration), PLUGIN_TIMEOUT)
        tls = _tls(configuration, insecure=insecure)
    except Exception as error:
        words = (
            f"no token in {PLUGIN_TIMEOUT:g} s"
            if isinstance(error, TimeoutError)
            else " ".join(str(error).split())
        )
        if isinstance(error, TypeError | AttributeError | KeyError):  # for a file of another shape
            words = "it is empty, or no kubeconfig"
        if kubeconfig is not None and kubeconfig not in words:
            words = f"{kubeconfig}: {words}"
        raise NotSentError(f"no usable configuration of a cluster: {words}") from error
    return configuration, Credentials(configuration, loader, tls), tls


def namespace_of(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace of commands that name none: that of the context or of this pod, else
    "default"."""
    with suppress(Exception):  # `connect` reports what is wrong with the configuration
        if kubeconfig is None and context is None and is_here():
            return (MOUNTED / "namespace").read_text("utf-8").strip()
        return str(Files(kubeconfig or usual()).context(context).get("namespace") or "default")
    return "default"


def _tls(configuration: Configuration, *, insecure: bool) -> ssl.SSLContext:
    if not configuration.host.startswith("https"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used; others load what is trusted
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if insecure or not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
