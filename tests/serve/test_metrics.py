"""The metrics as Prometheus gets them: through TLS, with a token."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from scaler.clock import Clock
from scaler.kube.api import KubeApi
from scaler.report.metrics import Metrics
from scaler.serve.metrics import metrics_certificate, served_metrics
from scaler.settings import Settings
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START

USERS = {
    "good": {"username": "prometheus", "groups": ["scrapers"]},
    "tenants": {"username": "tenant", "groups": []},
}
SETTINGS = Settings(http_host="127.0.0.1", lease_namespace="home", install="mind-cluster-scaler-a")


@asynccontextmanager
async def connected() -> AsyncIterator[KubeApi]:
    cluster = SimCluster(Clock(START))
    cluster.server.reviews.users = dict(USERS)
    cluster.server.reviews.may_get = {"/metrics": {"scrapers"}}
    yield cluster


@pytest.fixture
async def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def client(metrics: Metrics) -> AsyncIterator[aiohttp.ClientSession]:
    certificate = metrics_certificate(Clock(), SETTINGS)
    await certificate._read()
    async with (
        served_metrics(SETTINGS, connected, metrics, certificate) as port,
        aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=aiohttp.TCPConnector(ssl=False)
        ) as session,
    ):
        yield session


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_only_a_token_with_the_right_gets_them(
    client: aiohttp.ClientSession, metrics: Metrics
) -> None:
    metrics.passes.inc()
    for headers, status in (
        ({}, 401),
        (bearer("wrong"), 401),
        (bearer("tenants"), 403),
        (bearer("good"), 200),
    ):
        async with client.get("/metrics", headers=headers) as answer:
            text = await answer.text()
            assert answer.status == status
            assert ("scaler_passes_total 1.0" in text) is (status == 200)
            assert (answer.headers.get("WWW-Authenticate") == "Bearer") is (status == 401)
            assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "how", "status"),
    [
        ("POST", "/metrics", {}, 405),
        ("GET", "/metrics", {"data": b"x"}, 413),
        ("GET", "/healthz", {}, 404),
        ("GET", "/snapshots/world", {}, 404),
    ],
)
async def test_nothing_else_is_there(
    client: aiohttp.ClientSession, method: str, path: str, how: dict[str, Any], status: int
) -> None:
    async with client.request(method, path, headers=bearer("good"), **how) as answer:
        assert answer.status == status


async def test_nothing_is_served_in_plain(client: aiohttp.ClientSession) -> None:
    assert client._base_url is not None
    plain = client._base_url.with_scheme("http")
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(plain / "metrics", headers=bearer("good"))


async def test_its_own_certificate_names_the_service_of_the_install() -> None:
    certificate = metrics_certificate(Clock(), SETTINGS)
    assert certificate.problem == "no certificate yet"
    await certificate._read()
    assert certificate.pair is not None
    assert certificate.problem == ""
    trusting = ssl.create_default_context(cadata=certificate.pair.certificate.decode())
    trusting.hostname_checks_common_name = False
    async with (
        served_metrics(SETTINGS, connected, Metrics(), certificate) as port,
        aiohttp.ClientSession(headers=bearer("good")) as session,
        session.get(
            f"https://127.0.0.1:{port}/metrics",
            ssl=trusting,
            server_hostname="mind-cluster-scaler-metrics-a.home.svc",
        ) as answer,
    ):
        assert answer.status == 200
