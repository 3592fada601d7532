"""The page's HTTP server: who is answered, with which headers, and what the stream says. On this
machine's loopback."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from scaler.clock import Clock
from scaler.decide.world import ServiceKey, shown
from scaler.kube.api import CONFIG_MAPS, ELASTIC_SERVICES, PatchType
from scaler.sim.cluster import SimCluster
from scaler.tools.common.view import Cluster
from scaler.tools.ui.guard import HEADERS
from scaler.tools.ui.prometheus import MOST_BYTES, Prometheus
from scaler.tools.ui.server import Page, keep_up, served
from tests.jobs import NAMESPACE, job, manifest, node, rule_config_map

TOKEN = "right-token"  # noqa: S105
KEY = f"{NAMESPACE}/rule/mindie"
MINE = {"Authorization": f"Bearer {TOKEN}"}


class Site:
    """A page on a simulated cluster of one service, and somebody who asks it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, cluster: SimCluster) -> None:
        self.url = url
        self.session = session
        self.cluster = cluster

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(f"{self.url}{path}", headers=headers) as answer:
            assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
            return answer.status, await answer.text()

    async def post(self, body: Any, **headers: str) -> tuple[int, Any]:
        async with self.session.post(f"{self.url}/api/try", json=body, headers=headers) as answer:
            return answer.status, json.loads(await answer.text())


@asynccontextmanager
async def site(prometheus: Prometheus | None = None) -> AsyncIterator[Site]:
    clock = Clock()
    cluster = SimCluster(clock, latency=0)
    cluster.apply([node("node-0"), rule_config_map(), job("p0"), job("d0")], NAMESPACE)
    api = cluster.client("page", latency=0)
    seen = Cluster(api, clock)
    page = Page(seen, api, {"cluster": "test"}, prometheus=prometheus)
    async with served(page, TOKEN, 0) as address, aiohttp.ClientSession() as session:
        keeping = asyncio.create_task(keep_up(page, seen))
        try:
            async with asyncio.timeout(30):
                while not page.complete:  # noqa: ASYNC110 - it says so to browsers only
                    await asyncio.sleep(0.01)
            yield Site(address.partition("/#")[0], session, cluster)
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (MINE, 200),
        ({}, 403),
        ({"Authorization": "Bearer wrong"}, 403),
        ({"Authorization": TOKEN}, 403),
        ({"Authorization": f"Bearer {TOKEN}é"}, 403),
        ({**MINE, "Host": "evil.example"}, 403),
        ({**MINE, "Host": "evil.example:8080"}, 403),
        ({**MINE, "Host": "127.0.0.1.evil.example"}, 403),
        ({**MINE, "Host": "localhost:1234"}, 200),
        ({**MINE, "Host": "[::1]:1234"}, 200),
        ({**MINE, "Origin": "https://evil.example"}, 403),
        ({**MINE, "Origin": "null"}, 403),
        ({**MINE, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**MINE, "Sec-Fetch-Site": "same-site"}, 403),
        ({**MINE, "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
async def test_only_the_page_itself_is_answered(headers: dict[str, str], status: int) -> None:
    async with site() as on:
        assert (await on.get(f"/api/rule?service={KEY}", **headers))[0] == status


async def test_nothing_of_the_cluster_is_in_what_needs_no_token() -> None:
    async with site() as on:
        status, text = await on.get("/")
        assert (status, NAMESPACE in text, TOKEN in text) == (200, False, False)
        assert (await on.get("/", Host="evil.example"))[0] == 403
        for path in (
            "/static/../server.py",
            "/static/%2e%2e/server.py",
            "/static/vendor/LICENSE-htm",
            "/server.py",
        ):
            assert (await on.get(path))[0] == 404
        assert (await on.get("/static/app.js"))[0] == 200


async def test_no_request_changes_the_cluster() -> None:
    async with site() as on:
        before = on.cluster.server.store.version
        for path in ("/api/watch", "/api/rule", "/api/past", "/api/try"):
            for method in ("PUT", "PATCH", "DELETE"):
                async with on.session.request(method, f"{on.url}{path}", headers=MINE) as answer:
                    assert answer.status == 405
        assert (await on.post({"service": KEY, "rule": "{}"}, **MINE))[0] == 200
        assert on.cluster.server.store.version == before


@pytest.mark.parametrize("body", [[], {}, {"service": 1, "rule": 2}, {"service": KEY}, "x" * 1000])
async def test_a_bad_question_is_answered_with_words(body: Any) -> None:
    async with site() as on:
        status, answer = await on.post(body, **MINE)
        assert status == 400
        assert answer["problem"]
        assert (await on.post({"service": "no/such/one", "rule": "{}"}, **MINE))[0] == 404


async def test_another_kind_of_request_is_not_taken_for_a_question() -> None:
    async with (
        site() as on,
        on.session.post(f"{on.url}/api/try", data="{}", headers=MINE) as answer,
    ):
        assert answer.status == 415


async def test_a_rule_is_read_and_tried() -> None:
    async with site() as on:
        status, text = await on.get(f"/api/rule?service={KEY}", **MINE)
        rule = json.loads(text)
        assert (status, rule["name"], rule["key"]) == (200, "rule", "elastic_scaling.json")
        status, answer = await on.post({"service": KEY, "rule": rule["text"]}, **MINE)
        assert (status, answer["valid"], answer["changes"]) == (200, True, [])


async def messages(answer: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.content:
        yield json.loads(line)


@pytest.mark.parametrize(
    ("view", "tables"),
    [
        ("view=services", {"head", "services"}),
        (f"view=service&service={KEY}", {"head", "service", "instances", "moments", "samples"}),
        ("view=cluster", {"head", "kinds", "nodes", "waiting"}),
        ("view=service&service=<script>", {"head", "service", "instances", "moments", "samples"}),
        ("", {"head", "services"}),
    ],
)
async def test_the_stream_begins_with_everything_of_its_view(view: str, tables: set[str]) -> None:
    async with site() as on, on.session.get(f"{on.url}/api/watch?{view}", headers=MINE) as answer:
        first = await anext(messages(answer))
        assert set(first) == tables
        assert first["head"]["set"][""]["cluster"] == "test"


async def test_a_change_comes_by_itself_and_alone() -> None:
    async with (
        site() as on,
        on.session.get(f"{on.url}/api/watch?view=services", headers=MINE) as answer,
    ):
        lines = messages(answer)
        first = await anext(lines)
        assert list(first["services"]["set"]) == [KEY]
        for name in ("one", "two"):
            on.cluster.apply(
                [manifest(ELASTIC_SERVICES, name, "new", spec={"rule": "rule", "jobID": name})]
            )
            async with asyncio.timeout(30):
                async for line in lines:
                    if f"new/rule/{name}" in line.get("services", {"set": {}})["set"]:
                        break
        assert list(line["services"]["set"]) == ["new/rule/two"]


async def test_a_hostile_text_stays_text() -> None:
    hostile = "</script><script>alert(1)</script>\u202e\u0000"
    async with site() as on:
        patch = {"data": {"elastic_scaling.json": hostile.replace("\u0000", "")}}
        await on.cluster.patch(CONFIG_MAPS, NAMESPACE, "rule", patch, patch_type=PatchType.MERGE)
        status, answer = await on.post({"service": KEY, "rule": hostile}, **MINE)
        assert (status, answer["valid"]) == (200, False)


async def test_why_is_answered_as_the_command_does_with_what_to_do_next() -> None:
    async with site() as on:
        status, text = await on.get(f"/api/why?service={KEY}", **MINE)
        answer = json.loads(text)
        assert (status, answer["about"], answer["well"]) == (
            200,
            f"service {shown(KEY)}",
            False,
        )
        assert {section["title"] for section in answer["sections"]} >= {
            "labels and rule",
            "minimum and room",
        }
        assert answer["next"]
        _, text = await on.get(f"/api/why?service={KEY}&language=zh", **MINE)
        checks = [check for section in json.loads(text)["sections"] for check in section["checks"]]
        assert all(re.search(r"[\u4e00-\u9fff]", check["words"]) for check in checks), checks
        assert (await on.get("/api/why?service=no/such/one", **MINE))[0] == 404


# Prometheus


@asynccontextmanager
async def prometheus(answer: Any, status: int = 200) -> AsyncIterator[tuple[Prometheus, list[str]]]:
    asked: list[str] = []

    async def ranged(request: web.Request) -> web.Response:
        asked.append(str((await request.post())["query"]))
        body = answer(asked[-1]) if callable(answer) else answer
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    app = web.Application()
    app.router.add_post("/api/v1/query_range", ranged)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield Prometheus(f"http://127.0.0.1:{runner.addresses[0][1]}/"), asked
    finally:
        await runner.cleanup()


def series(**values: list[list[Any]]) -> Any:
    return {
        "data": {
            "result": [
                {"metric": {"state": name}, "values": found} for name, found in values.items()
            ]
        }
    }


async def test_prometheus_tells_of_times_before_the_page_was_opened() -> None:
    def answer(query: str) -> Any:
        return (
            series(Running=[[100, "3"], [160, "2"]])
            if "instances" in query
            else series(x=[[100, "1"], [160, "0"]])
        )

    async with prometheus(answer) as (asked_one, asked):
        past = await asked_one.past(ServiceKey("a", 'r"}', "j"), 200.0)
    assert past.totals == {"100.000": {"Running": 3}, "160.000": {"Running": 2}}
    assert [(one["at"], one["level"]) for one in past.moments.values()] == [(160.0, "bad")]
    assert past.problem == ""
    assert (
        asked[0]
        == 'sum by (state) (scaler_service_instances{namespace="a",rule="r\\"}",job_id="j"})'
    )
    at_least = 'min_over_time(scaler_service_available{namespace="a",rule="r\\"}",job_id="j"}[60s])'
    assert asked[1] == f"max({at_least})"  # an outage between two points counts


@pytest.mark.parametrize(
    ("padding", "points", "problem"),
    [
        (1_000_000, 2, ""),
        (MOST_BYTES, 0, "Prometheus: TooLongError: the answer is longer than 8388608 bytes"),
    ],
)
async def test_what_prometheus_sends_in_many_pieces_is_read_whole_up_to_a_limit(
    padding: int, points: int, problem: str
) -> None:
    text = " " * padding + json.dumps(series(Running=[[100, "3"], [160, "2"]]))
    async with prometheus(text) as (asked_one, _):
        past = await asked_one.past(ServiceKey("a", "r", "j"), 200.0)
    assert (len(past.totals), past.problem) == (points, problem)


@pytest.mark.parametrize(
    ("answer", "status"),
    [("nonsense", 200), ({}, 503), ({"data": 7}, 200), (series(x=[[], ["a", "b"]]), 200)],
)
async def test_a_prometheus_that_does_not_answer_well_is_words(answer: Any, status: int) -> None:
    async with prometheus(answer, status) as (asked_one, _):
        past = await asked_one.past(ServiceKey("a", "r", "j"), 200.0)
    assert past.totals == {}
    assert bool(past.problem) == (answer == "nonsense" or status != 200)


async def test_without_a_prometheus_the_past_is_empty() -> None:
    async with site() as on:
        assert json.loads((await on.get(f"/api/past?service={KEY}", **MINE))[1])["totals"] == {}
