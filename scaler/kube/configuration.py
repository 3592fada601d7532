"""The address of the API server, the credentials, and the trusted certificates: of a pod, or of a
kubeconfig.

Only the loader of a kubeconfig (with its exec plugins) is from kubernetes_asyncio. The files that
Kubernetes mounts into a pod are read here: importing that loader also imports all models, which
take 40 MiB."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from scaler.clock import loop_time
from scaler.kube.errors import NotSentError

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


class InCluster:
    """The fields of kubernetes_asyncio's Configuration that are read. Raises OSError or ValueError
    when a file is missing or empty."""

    cert_file = key_file = proxy = tls_server_name = None
    verify_ssl = True
    disable_strict_ssl_verification = False

    def __init__(self) -> None:
        host = os.environ.get(HOST, "")
        port = os.environ.get(PORT, "")
        if not (host and port):
            raise ValueError(f"{HOST} or {PORT} is not set")
        self.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.ssl_ca_cert = str(MOUNTED / "ca.crt")
        self.api_key: dict[str, str] = {}
        self.read()

    def read(self) -> None:
        """Read the token again: it is renewed while the pod lives."""
        token = (MOUNTED / "token").read_text().strip()
        if not token:
            raise ValueError(f"{MOUNTED / 'token'} is empty")
        self.api_key["BearerToken"] = f"Bearer {token}"


Configuration: TypeAlias = Any
"""The class of kubernetes_asyncio, or an `InCluster`, which has the fields that are read."""


class Credentials:
    """Token, basic auth or client certificate: read again when they are old, and after the server
    refused them.

    `loader` is that of a kubeconfig, whose plugins then run again; None inside a cluster, where
    files are mounted."""

    def __init__(self, configuration: Configuration, loader: Any, tls: ssl.SSLContext) -> None:
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
        ages = (
            loader is None or loader.provider is not None or hasattr(loader, "exec_plugin_expiry")
        )
        if ages and now >= self._loaded_at + TOKEN_LIFE:
            await self._load()
        return str(self._configuration.api_key.get("BearerToken") or "").strip()

    async def renew(self) -> None:
        """Read the files again that may have been rotated: the token was refused, or the server's
        certificate was."""
        with suppress(AttributeError):
            del self._loader.exec_plugin_expiry
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
                    else:
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
    loader = None
    try:
        if kubeconfig is None and context is None and is_here():
            configuration: Configuration = InCluster()
        else:
            _require(
                kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
            )
            # 40 MiB, and a second to import.
            from kubernetes_asyncio import client, config  # noqa: PLC0415

            configuration = client.Configuration()
            given = {
                "config_file": kubeconfig,
                "context": context,
                "client_configuration": configuration,
            }
            loading = config.load_kube_config(**given, persist_config=False)
            loader = await asyncio.wait_for(loading, PLUGIN_TIMEOUT)
        tls = _tls(configuration, insecure=insecure)
    except Exception as error:
        words = (
            f"no token in {PLUGIN_TIMEOUT:g} s"
            if isinstance(error, TimeoutError)
            else " ".join(str(error).split())
        )
        # from the library, for a file of another shape
        if isinstance(error, TypeError | AttributeError | KeyError):
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
        from kubernetes_asyncio import config  # noqa: PLC0415

        contexts, current = config.list_kube_config_contexts(kubeconfig)
        chosen = (
            next((one for one in contexts if one["name"] == context), None) if context else current
        )
        return str((chosen or {})["context"].get("namespace") or "default")
    return "default"


def _require(paths: str) -> None:
    """Check that the files exist: for a missing file the library's own message names only a key in
    it."""
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise FileNotFoundError(f"not in a cluster, and there is no kubeconfig {paths}")


def _tls(configuration: Configuration, *, insecure: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if insecure or not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
