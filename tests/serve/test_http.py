"""What probes and people get over HTTP, through a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import aiohttp
import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scaler.decide.world import ServiceKey, World
from scaler.report.metrics import Metrics
from scaler.serve.http import Health, http_server
from tests.builders import service, world

ALONE = service(None, "p0 Running", key=ServiceKey("default", "", "mindie"))
WORLD = world(service("2P1D > 1P1D", "p0 Running, d0 Held"), ALONE)


class Served(NamedTuple):
    health: Health
    metrics: Metrics
    world: Callable[[], World | None]
    metrics_port: int = 0


@pytest.fixture
async def state() -> Served:
    return Served(Health(list, list), Metrics(), lambda: WORLD)


@pytest.fixture
async def client(state: Served) -> AsyncIterator[aiohttp.ClientSession]:
    async with (
        http_server(*state).served("127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def fetched(state: Served, path: str) -> tuple[int, str]:
    async with (
        http_server(*state).served("127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_it_is_ready_once_it_waits_for_nothing(state: Served) -> None:
    missing = [
        "waiting for ascendjobs.mindxdl.gitee.com: CRD not installed",
        "waiting for pods: not listed yet",
    ]
    state = state._replace(health=Health(list, lambda: missing))
    assert await fetched(state, "/readyz") == (503, "\n".join(missing) + "\n")
    missing.clear()
    assert await fetched(state, "/readyz") == (200, "ok\n")


async def test_a_stalled_loop_is_unhealthy(state: Served) -> None:
    said = "decision loop: no sign of life for 31 s"
    broken = state._replace(health=Health(lambda: [said], list))
    assert await fetched(broken, "/healthz") == (500, f"{said}\n")
    assert await fetched(state, "/healthz") == (200, "ok\n")


async def test_metrics_are_in_the_text_format(client: aiohttp.ClientSession, state: Served) -> None:
    state.metrics.passes.inc()
    async with client.get("/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "scaler_passes_total 1.0" in await answer.text()


@pytest.mark.parametrize(
    ("peer", "own", "served"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.7", "10.0.0.9", False),
        ("::ffff:10.0.0.7", "::ffff:10.0.0.9", False),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        # a proxy beside it that passes on what comes from outside
        ("127.0.0.6", "10.0.0.9", False),
    ],
)
async def test_snapshots_are_served_over_loopback_only_and_metrics_and_probes_to_all(
    monkeypatch: pytest.MonkeyPatch,
    client: aiohttp.ClientSession,
    peer: str,
    own: str,
    served: bool,
) -> None:
    ends = {"peername": (peer, 1), "sockname": (own, 2)}
    monkeypatch.setattr(web.BaseRequest, "get_extra_info", lambda _, name: ends[name])
    for path in ("/snapshots", "/snapshots/world", "/snapshots/default/rule/mindie"):
        async with client.get(path) as answer:
            assert answer.status == (200 if served else 403)
            assert served or "mindie" not in await answer.text()
    for path in ("/healthz", "/metrics"):
        async with client.get(path) as answer:
            assert answer.status == 200


async def test_services_are_listed_and_all_that_was_decided_on_can_be_replayed(
    client: aiohttp.ClientSession,
) -> None:
    async with client.get("/snapshots") as answer:
        assert (await answer.text()).splitlines() == ["default/-/mindie", "default/rule/mindie"]
    for path in ("world", "default/-/mindie", "default/rule/mindie"):
        async with client.get(f"/snapshots/{path}") as answer:
            assert msgspec.json.decode(await answer.read(), type=World) == WORLD


async def test_before_the_first_decision_there_is_nothing_to_replay(state: Served) -> None:
    early = state._replace(world=lambda: None)
    assert await fetched(early, "/snapshots") == (200, "")
    assert await fetched(early, "/snapshots/world") == (404, "404 nothing was decided yet\n")
    assert (await fetched(early, "/snapshots/default/rule/mindie"))[0] == 404


async def test_an_unknown_service_says_where_to_look(client: aiohttp.ClientSession) -> None:
    async with client.get("/snapshots/default/rule/nobody") as answer:
        assert (answer.status, await answer.text()) == (
            404,
            "404 no such service; /snapshots lists them\n",
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_nothing_can_be_changed(client: aiohttp.ClientSession, method: str) -> None:
    async with client.request(method, "/metrics") as answer:
        assert answer.status == 405


async def test_bodies_are_refused(client: aiohttp.ClientSession) -> None:
    async with client.get("/metrics", data=b"x" * 10) as answer:
        assert answer.status == 413


@pytest.mark.parametrize("path", ["/", "/healthz/..%2f", "/nothing"])
async def test_every_answer_has_safe_headers(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as answer:
        assert answer.status == 404
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Server"] == "scaler"


async def test_a_bug_shows_in_the_log_and_not_on_the_wire(state: Served) -> None:
    with capture_logs() as lines:
        broken = state._replace(world=None)  # type: ignore[arg-type]
        assert await fetched(broken, "/snapshots") == (500, "500 internal error\n")
    assert [line["event"] for line in lines] == ["request failed"]


async def test_a_taken_port_is_told_at_start(state: Served) -> None:
    async with http_server(*state).served("127.0.0.1", 0) as port:
        with pytest.raises(OSError, match="ddress already in use"):
            async with http_server(*state).served("127.0.0.1", port):
                pass


@pytest.mark.parametrize(("peer", "own"), [("10.0.0.7", "10.0.0.9"), ("127.0.0.1", "127.0.0.1")])
async def test_where_the_metrics_have_a_port_of_their_own_others_than_loopback_are_sent_there(
    monkeypatch: pytest.MonkeyPatch, state: Served, peer: str, own: str
) -> None:
    ends = {"peername": (peer, 1), "sockname": (own, 2)}
    monkeypatch.setattr(web.BaseRequest, "get_extra_info", lambda _, name: ends[name])
    status, words = await fetched(state._replace(metrics_port=8443), "/metrics")
    if peer == own:
        assert (status, "scaler_passes_total" in words) == (200, True)
    else:
        assert status == 403
        assert words == (
            "403 metrics are on port 8443, over HTTPS; here they are served over loopback only:"
            " use kubectl port-forward\n"
        )
    for path in ("/healthz", "/readyz"):
        assert (await fetched(state._replace(metrics_port=8443), path))[0] == 200
