"""The client as it runs inside a cluster: a mounted token and CA, both of which are rotated under its feet."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from kubernetes_asyncio.config import incluster_config

from scaler.kube.api import PODS
from scaler.kube.client import connect
from scaler.kube.errors import NotSentError
from tests.kube.raw_server import RawServer, reply, serving

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
REFUSED = {"kind": "Status", "code": 401, "reason": "Unauthorized"}


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1 and its key."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, "-keyout", key, "-out", cert, "-days", "2", *subject], check=True, capture_output=True)
    return cert, key


def tls(pair: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    return context


class Mounted:
    """What the kubelet mounts into a pod."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.token, self.ca = folder / "token", folder / "ca.crt"
        self.token.write_text("t1\n")
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(self.token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(self.ca))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")

    def of(self, server: RawServer) -> None:
        self._monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    folder = tmp_path / "mounted"
    folder.mkdir()
    return Mounted(folder, monkeypatch)


async def test_the_mounted_token_is_used_and_read_again_when_it_is_refused(mounted: Mounted, tmp_path: Path) -> None:
    pair = certificate(tmp_path, "a")
    shutil.copy(pair[0], mounted.ca)
    async with serving(reply(200, POD), reply(401, REFUSED), reply(200, POD), tls=tls(pair)) as server:
        mounted.of(server)
        async with connect() as api:
            await api.get(PODS, "ns", "p")
            mounted.token.write_text("t2\n")
            await api.get(PODS, "ns", "p")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_a_ca_that_was_rotated_is_believed_from_the_next_request_on(mounted: Mounted, tmp_path: Path) -> None:
    old, new = certificate(tmp_path, "old"), certificate(tmp_path, "new")
    shutil.copy(old[0], mounted.ca)
    async with serving(reply(200, POD), tls=tls(new)) as server:
        mounted.of(server)
        async with connect() as api:
            for _ in range(2):
                with pytest.raises(NotSentError):
                    await api.create(PODS, "ns", POD)
            shutil.copy(new[0], mounted.ca)
            with pytest.raises(NotSentError):
                await api.create(PODS, "ns", POD)
            assert await api.create(PODS, "ns", POD) == POD
    assert len(server.requests) == 1
