"""The webhook as an API server meets it: through TLS, with a certificate that is exchanged while it
serves."""

from __future__ import annotations

import asyncio
import io
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from cryptography import x509
from structlog.testing import capture_logs

from scaler.report.metrics import Metrics
from scaler.serve import certificates, reviews, webhook
from scaler.serve.certificates import KeyPair, Keys
from scaler.serve.reviews import MAX_BODY, Request, Response, review_rule
from scaler.serve.server_certificate import ServerCertificate
from scaler.serve.webhook import webhook_server
from tests.jobs import job, rule_config_map
from tests.serve.reviewing import UID, request

PATHS = ("/mutate/pods", "/mutate/ascendjobs", "/validate/rules", "/validate/labels")


def made() -> Keys:
    keys = certificates.advance(None, "127.0.0.1", time.time())
    assert keys is not None
    return keys


def shown_by(keys: Keys) -> ServerCertificate:
    certificate = ServerCertificate("webhook")
    certificate.use(keys.shown)
    return certificate


def trusting(keys: Keys) -> ssl.SSLContext:
    """As an API server trusts a caBundle."""
    context = ssl.create_default_context(cadata=keys.trusted.decode())
    context.hostname_checks_common_name = False
    return context


@asynccontextmanager
async def session(
    certificate: ServerCertificate, metrics: Metrics | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    server = webhook_server(lambda _namespace, _rule: ("group0", "group1"), metrics or Metrics())
    async with (
        server.served("127.0.0.1", 0, lambda: certificate.context) as port,
        aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=aiohttp.TCPConnector(force_close=True)
        ) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def keys() -> Keys:
    return made()


async def test_each_path_answers_its_question(keys: Keys) -> None:
    pod = {"kind": "Pod", "metadata": {"labels": {"mind-cluster/scaling-rule": "rule"}}, "spec": {}}
    objects = (pod, job("p0"), rule_config_map("{"), job("p0", "prefill"))
    said = []
    async with session(shown_by(keys)) as client:
        for path, obj in zip(PATHS, objects, strict=True):
            async with client.post(path, data=request(obj), ssl=trusting(keys)) as answer:
                assert (answer.status, answer.content_type) == (200, "application/json")
                said.append((await answer.json())["response"])
    assert [found["uid"] for found in said] == [UID] * 4
    assert [sorted(set(found) - {"uid", "allowed"}) for found in said] == [
        ["patch", "patchType"],
        ["patch", "patchType"],
        ["status"],
        ["warnings"],
    ]


async def test_every_answer_is_counted_with_its_outcome(keys: Keys) -> None:
    metrics = Metrics()
    async with session(shown_by(keys), metrics) as client:
        for path, body in (
            ("/validate/rules", request(rule_config_map("{"))),
            ("/mutate/pods", b"?"),
        ):
            async with client.post(path, data=body, ssl=trusting(keys)) as answer:
                assert answer.status == 200
    registry = metrics.registry
    for path, outcome in (("/validate/rules", "refused"), ("/mutate/pods", "unreadable")):
        assert (
            registry.get_sample_value(
                "scaler_webhook_answers_total", {"path": path, "outcome": outcome}
            )
            == 1
        )
    assert registry.get_sample_value("scaler_webhook_duration_seconds_count") == 2


@pytest.mark.parametrize(
    ("method", "path", "size", "status"),
    [
        ("GET", "/mutate/pods", 0, 405),
        ("POST", "/", 1, 404),
        ("POST", "/mutate/pods", MAX_BODY + 1, 413),
    ],
)
async def test_anything_else_is_refused(
    keys: Keys, method: str, path: str, size: int, status: int
) -> None:
    async with (
        session(shown_by(keys)) as client,
        client.request(method, path, data=io.BytesIO(b"x" * size), ssl=trusting(keys)) as answer,
    ):
        assert (answer.status, answer.headers["Server"]) == (status, "scaler")


async def test_a_body_of_unknown_length_is_refused_before_it_is_read(keys: Keys) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(3600)

    async with (
        session(shown_by(keys)) as client,
        client.post("/validate/rules", data=chunks(), ssl=trusting(keys)) as answer,
    ):
        assert answer.status == 411


async def test_more_long_requests_than_may_wait_are_told_to_come_again(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def review(asked: Request) -> Response:
        assert go_on.wait(60)
        return review_rule(asked)

    monkeypatch.setattr(reviews, "review_rule", review)
    monkeypatch.setattr(webhook, "_LONG", 4)
    long = request(rule_config_map("{" + " " * 20_000))
    metrics = Metrics()

    def turned_away() -> float:
        return (
            metrics.registry.get_sample_value("scaler_turned_away_total", {"server": "webhook"})
            or 0
        )

    async with session(shown_by(keys), metrics) as client:

        async def status() -> tuple[int, str]:
            async with client.post("/validate/rules", data=long, ssl=trusting(keys)) as answer:
                return answer.status, answer.headers.get("Retry-After", "")

        asking = [asyncio.create_task(status()) for _ in range(5)]
        async with asyncio.timeout(60):
            while turned_away() < 3:  # noqa: ASYNC110 - counted, not told
                await asyncio.sleep(0.01)
        async with client.post("/mutate/pods", data=b"{}", ssl=trusting(keys)) as answer:
            assert answer.status == 200
        go_on.set()
        assert sorted(await asyncio.gather(*asking)) == [(200, "")] * 2 + [(503, "1")] * 3


async def test_long_requests_are_read_beside_the_loop_one_at_a_time(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def review(asked: Request) -> Response:
        threads.append(threading.current_thread().name)
        return review_rule(asked)

    monkeypatch.setattr(reviews, "review_rule", review)
    short = request(rule_config_map("{"))
    long = request(rule_config_map("{" + " " * 20_000))
    async with session(shown_by(keys)) as client:

        async def refused(body: bytes) -> bool:
            async with client.post("/validate/rules", data=body, ssl=trusting(keys)) as answer:
                return not (await answer.json())["response"]["allowed"]

        assert await refused(short)
        assert all(await asyncio.gather(*(refused(long) for _ in range(5))))
    assert threads == [threading.main_thread().name, *["long-review_0"] * 5]


async def test_a_fault_of_ours_shows_no_traceback(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_asked: Request) -> object:
        raise RuntimeError("inside")

    monkeypatch.setattr(reviews, "review_pod", broken)
    with capture_logs() as logs:
        async with (
            session(shown_by(keys)) as client,
            client.post("/mutate/pods", data=request({}), ssl=trusting(keys)) as answer,
        ):
            assert (answer.status, await answer.text()) == (500, "500 internal error\n")
    assert [line["event"] for line in logs] == ["request failed"]


async def test_a_new_certificate_is_shown_from_the_next_handshake_on(keys: Keys) -> None:
    certificate = shown_by(keys)
    other = made()
    async with session(certificate) as client:
        async with client.post("/mutate/pods", data=b"{}", ssl=trusting(keys)) as answer:
            assert answer.status == 200
        certificate.use(other.shown)
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await client.post("/mutate/pods", data=b"{}", ssl=trusting(keys))
        async with client.post("/mutate/pods", data=b"{}", ssl=trusting(other)) as answer:
            assert answer.status == 200


async def test_without_a_certificate_no_handshake_succeeds(keys: Keys) -> None:
    async with session(ServerCertificate("webhook")) as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.post("/mutate/pods", data=b"{}", ssl=trusting(keys))


async def test_nothing_older_than_tls_1_2_is_spoken(keys: Keys) -> None:
    old = trusting(keys)
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with session(shown_by(keys)) as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.post("/mutate/pods", data=b"{}", ssl=old)


@pytest.mark.parametrize("spoilt", ["certificate", "key", "both", "mixed"])
def test_a_pair_that_does_not_work_leaves_the_last_one_in_place(keys: Keys, spoilt: str) -> None:
    shown = ServerCertificate("webhook")
    good = keys.shown
    other = made().shown
    shown.use(good)
    bad = {
        "certificate": KeyPair(b"nonsense", good.key),
        "key": KeyPair(good.certificate, b"nonsense"),
        "both": KeyPair(b"", b""),
        "mixed": KeyPair(good.certificate, other.key),
    }
    with pytest.raises(ssl.SSLError):
        shown.use(bad[spoilt])
    assert shown.pair == good


def test_a_pair_that_is_shown_already_is_no_change(keys: Keys) -> None:
    shown = ServerCertificate("webhook")
    shown.use(keys.shown)
    first = shown.context
    shown.use(keys.shown)
    assert shown.context is first


def test_a_chain_of_certificates_is_shown_whole(keys: Keys) -> None:
    chain = KeyPair(keys.shown.certificate + keys.trusted, keys.shown.key)
    shown = ServerCertificate("webhook")
    shown.use(chain)
    assert shown.pair == chain
    assert len(x509.load_pem_x509_certificates(chain.certificate)) == 2
