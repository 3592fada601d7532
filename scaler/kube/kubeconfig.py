"""What a kubeconfig says of one cluster and one user: address, trusted certificates, credentials.

As kubectl reads it: several files are merged, the first that names something wins, and paths are
relative to the file in which they stand. Credentials are a token, a file with one, a client
certificate, a name with a password, or a plugin (`exec`). An `auth-provider`, which kubectl knows
no more since 1.26, is left to kubernetes_asyncio: importing that library takes 0.4 s of CPU."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scaler.clock import wall_clock
from scaler.timestamps import seconds_of

Part = Mapping[str, Any]

SKEW = 300.0
"""Seconds before its end at which a plugin's token is renewed."""
PLUGIN_PATIENCE = 300.0
"""Seconds for the answer of a plugin: it may ask a person to log in."""


class Connection:
    """What a client needs to know. `api_key` has the Authorization header as `BearerToken`."""

    def __init__(self) -> None:
        self.host = ""
        self.api_key: dict[str, str] = {}
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.proxy: str | None = None
        self.tls_server_name: str | None = None
        self.verify_ssl = True


class Files:
    """The merged files. Raises OSError for one that cannot be read, ValueError for one that is no
    kubeconfig. Files that do not exist are left out, as by kubectl."""

    def __init__(self, paths: str) -> None:
        import yaml  # noqa: PLC0415 - a pod has no kubeconfig

        self._found: dict[str, dict[str, tuple[Part, Path]]] = {}
        self.current = ""
        for text in paths.split(os.pathsep):
            path = Path(text).expanduser()
            if not text or not path.is_file():
                continue
            try:
                document = yaml.safe_load(path.read_text("utf-8"))
            except yaml.YAMLError as error:
                raise ValueError(f"{path} is no YAML: {error}") from None
            if not isinstance(document, dict):
                raise ValueError(f"{path} is empty, or no kubeconfig")
            self.current = self.current or str(document.get("current-context") or "")
            for kind in ("clusters", "contexts", "users"):
                self._merge(kind, document.get(kind) or [], path)

    def _merge(self, kind: str, listed: Any, path: Path) -> None:
        known = self._found.setdefault(kind, {})
        if not isinstance(listed, list):
            raise ValueError(f"{path}: {kind} is no list")
        for one in listed:
            if not isinstance(one, dict) or "name" not in one:
                raise ValueError(f"{path}: something in {kind} has no name")
            part = one.get(kind.removesuffix("s")) or {}
            if not isinstance(part, dict):
                raise ValueError(f"{path}: {kind} {one['name']} is no mapping")
            known.setdefault(str(one["name"]), (part, path.parent))

    def named(self, kind: str, name: str) -> tuple[Part, Path]:
        """One cluster, context or user, and the folder that its paths begin at. Raises ValueError
        without one."""
        found = self._found.get(kind, {}).get(name)
        if found is None:
            raise ValueError(f"there is no {kind.removesuffix('s')} {name!r} in it")
        return found

    def context(self, name: str | None) -> Part:
        """The context of this name, else the current one. Raises ValueError without one."""
        chosen = name or self.current
        if not chosen:
            raise ValueError("it names no current context")
        return self.named("contexts", chosen)[0]


class Loader:
    """Fills a `Connection` from one context, again whenever credentials may have changed."""

    def __init__(self, files: Files, context: str | None) -> None:
        chosen = files.context(context)
        self._cluster, self._cluster_folder = files.named("clusters", str(chosen.get("cluster")))
        self._user: Part = {}
        self._user_folder = Path()
        if user := chosen.get("user"):
            self._user, self._user_folder = files.named("users", str(user))
        self._made = ""
        """The folder with certificates that stand in the kubeconfig itself; "" without any."""
        self._plugin: Part = {}
        """The last answer of the plugin."""
        self._plugin_until = 0.0
        """When that ends, in seconds since the epoch; 0 if it did not say."""

    @property
    def has_auth_provider(self) -> bool:
        return "auth-provider" in self._user

    @property
    def ages(self) -> bool:
        """Whether the credentials have an end, and so have to be loaded again."""
        return self._plugin_until > 0

    def forget(self) -> None:
        """The server refused what the plugin gave."""
        self._plugin = {}

    async def load_and_set(self, connection: Connection) -> None:
        """Read everything that may have changed. Raises OSError or ValueError."""
        if "exec" in self._user:
            await self._ask_plugin(self._user["exec"])
        header = self._authorization()
        if header:
            connection.api_key["BearerToken"] = header
        cluster = self._cluster
        server = cluster.get("server")
        if not server or not isinstance(server, str):
            raise ValueError("the cluster has no server")
        connection.host = server.rstrip("/")
        connection.verify_ssl = not cluster.get("insecure-skip-tls-verify", False)
        connection.tls_server_name = cluster.get("tls-server-name")
        connection.proxy = cluster.get("proxy-url")
        if not connection.host.startswith("https"):
            return
        connection.ssl_ca_cert = self._file(cluster, "certificate-authority", self._cluster_folder)
        if "clientCertificateData" in self._plugin:
            connection.cert_file = self._kept("client-certificate", self._plugin, "Certificate")
            connection.key_file = self._kept("client-key", self._plugin, "Key")
            return
        connection.cert_file = self._file(self._user, "client-certificate", self._user_folder)
        connection.key_file = self._file(self._user, "client-key", self._user_folder)

    def _authorization(self) -> str:
        if token := self._plugin.get("token"):
            return f"Bearer {token}"
        if "clientCertificateData" in self._plugin:
            return ""
        user = self._user
        if token := user.get("token"):
            return f"Bearer {token}"
        if path := user.get("tokenFile"):
            return f"Bearer {(self._user_folder / str(path)).read_text('utf-8')}"
        if "username" in user and "password" in user:
            both = f"{user['username']}:{user['password']}"
            return "Basic " + base64.b64encode(both.encode()).decode()
        return ""

    def _kept(self, name: str, answer: Part, which: str) -> str:
        data = answer.get(f"client{which}Data")
        if not isinstance(data, str):
            raise ValueError(f"exec: the plugin answers without client{which}Data")
        return self._written(name, data.encode())

    def _file(self, part: Part, key: str, folder: Path) -> str | None:
        """The path of what stands under this key, or under `key-data`, which wins."""
        if data := part.get(f"{key}-data"):
            return self._written(key, base64.standard_b64decode(str(data)))
        if not part.get(key):
            return None
        path = folder / str(part[key])
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        return str(path)

    def _written(self, name: str, data: bytes) -> str:
        """A file with this, for Python's ssl, which takes certificates from files only; it is
        deleted when the process ends."""
        import shutil  # noqa: PLC0415 - with what it imports, as much as half of a command's own code
        import tempfile  # noqa: PLC0415

        if not self._made:
            self._made = tempfile.mkdtemp(prefix="scaler-")
            weakref.finalize(self, shutil.rmtree, self._made, ignore_errors=True)
        path = Path(self._made, name)
        path.touch(mode=0o600)
        path.write_bytes(data)
        return str(path)

    async def _ask_plugin(self, how: Part) -> None:
        if self._plugin and (not self.ages or wall_clock() < self._plugin_until - SKEW):
            return
        self._plugin = await _answer_of(how, self._user_folder)
        ends = self._plugin.get("expirationTimestamp")
        self._plugin_until = seconds_of(str(ends)) if ends else 0.0


async def _answer_of(how: Part, folder: Path) -> Part:
    """What an exec plugin answers as its status. Raises OSError or ValueError."""
    command = str(how.get("command") or "")
    version = how.get("apiVersion")
    if not command or not version:
        raise ValueError("exec: command or apiVersion is missing")
    if "/" in command:
        command = str(folder / command)
    request = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": sys.stdout.isatty()},
    }
    environment = dict(os.environ)
    for one in how.get("env") or []:
        environment[str(one["name"])] = str(one["value"])
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(request)
    process = await asyncio.create_subprocess_exec(
        command,
        *map(str, how.get("args") or []),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PLUGIN_PATIENCE):
            out, err = await process.communicate()
    except TimeoutError:
        await _ended(process)
        raise ValueError(f"exec: {command} does not answer for {PLUGIN_PATIENCE:g} s") from None
    except BaseException:
        await _ended(process)
        raise
    if process.returncode:
        raise ValueError(f"exec: {command} ended with {process.returncode}. {err.decode().strip()}")
    answer = json.loads(out)
    if answer.get("apiVersion") != version:
        raise ValueError(f"exec: {command} answers in {answer.get('apiVersion')}, not in {version}")
    status = answer.get("status") or {}
    if "token" not in status and "clientCertificateData" not in status:
        raise ValueError(f"exec: {command} gives neither a token nor a certificate")
    made: Part = status
    return made


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


class WithAuthProvider:
    """The loader of kubernetes_asyncio, for an `auth-provider` (oidc, gcp)."""

    ages = True

    def __init__(self, paths: str, context: str | None) -> None:
        self._given = {"config_file": paths, "context": context, "persist_config": False}
        self._loader: Any = None

    def forget(self) -> None:
        """Its tokens are renewed by their own ends."""

    async def load_and_set(self, connection: Connection) -> None:
        """As `Loader.load_and_set`."""
        from kubernetes_asyncio import config  # noqa: PLC0415 - 40 MiB, and 0.4 s to import

        if self._loader is None:
            self._loader = await config.load_kube_config(
                **self._given, client_configuration=connection
            )
        else:
            await self._loader.load_and_set(connection)


def usual() -> str:
    """The kubeconfigs of this user, as kubectl finds them."""
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def loader_of(paths: str, context: str | None) -> Loader | WithAuthProvider:
    """The loader for a context of these files. Raises OSError or ValueError."""
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise FileNotFoundError(f"not in a cluster, and there is no kubeconfig {paths}")
    loader = Loader(Files(paths), context)
    return WithAuthProvider(paths, context) if loader.has_auth_provider else loader
