"""The client as it runs inside a cluster: a mounted token and CA, both of which are rotated under
its feet."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from scaler.kube import configuration
from scaler.kube.api import PODS
from scaler.kube.client import connect
from scaler.kube.errors import NotSentError
from tests.kube.raw_server import RawServer, reply, serving

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="needs openssl to make certificates"
)

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
REFUSED = {"kind": "Status", "code": 401, "reason": "Unauthorized"}


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate of 127.0.0.1 and its key."""
    cert = folder / f"{name}.crt"
    key = folder / f"{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    subprocess.run(
        [*command, "-keyout", key, "-out", cert, "-days", "2", *subject],
        check=True,
        capture_output=True,
    )
    return cert, key


def tls(pair: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    return context


class Mounted:
    """What the kubelet mounts into a pod."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.token = folder / "token"
        self.ca = folder / "ca.crt"
        self.token.write_text("t1\n")
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(configuration, "MOUNTED", folder)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")

    def of(self, server: RawServer) -> None:
        self._monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    folder = tmp_path / "mounted"
    folder.mkdir()
    return Mounted(folder, monkeypatch)


async def test_the_mounted_token_is_used_and_read_again_when_it_is_refused(
    mounted: Mounted, tmp_path: Path
) -> None:
    pair = certificate(tmp_path, "a")
    shutil.copy(pair[0], mounted.ca)
    async with serving(
        reply(200, POD), reply(401, REFUSED), reply(200, POD), tls=tls(pair)
    ) as server:
        mounted.of(server)
        async with connect() as api:
            await api.get(PODS, "ns", "p")
            mounted.token.write_text("t2\n")
            await api.get(PODS, "ns", "p")
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer t1",
        "Bearer t1",
        "Bearer t2",
    ]


async def test_a_ca_that_was_rotated_is_believed_from_the_next_request_on(
    mounted: Mounted, tmp_path: Path
) -> None:
    old = certificate(tmp_path, "old")
    new = certificate(tmp_path, "new")
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


def test_in_a_pod_the_models_of_the_client_library_are_not_loaded(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path, "ca")
    shutil.move(cert, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("t")
    code = """if True:
        import asyncio, os, pathlib, sys
        import scaler.run, scaler.app
        from scaler.kube import client, configuration
        configuration.MOUNTED = pathlib.Path(sys.argv[1])
        os.environ |= {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "6443"}
        async def main():
            async with client.connect() as api:
                print(api.server, "kubernetes_asyncio" in sys.modules)
        asyncio.run(main())
    """
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "https://[::1]:6443 False"


@pytest.mark.parametrize("missing", ["token", "host", "ca"])
async def test_a_pod_without_what_is_mounted_says_so(
    mounted: Mounted, missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copy(certificate(tmp_path, "a")[0], mounted.ca)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    match missing:
        case "token":
            mounted.token.write_text("\n")
        case "host":
            monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "")
        case _:
            mounted.ca.unlink()
    with pytest.raises(NotSentError, match="no usable configuration"):
        async with connect():
            raise AssertionError("connected")
