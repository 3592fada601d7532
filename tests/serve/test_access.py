"""Who may get the metrics, and what those cost who may not: in virtual time, against the simulated
cluster's reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from scaler.clock import Clock, loop_time
from scaler.kube.api import ACCESS_REVIEWS, TOKEN_REVIEWS, Object, Resource
from scaler.kube.errors import ForbiddenError, status_error
from scaler.serve import access
from scaler.serve.access import ALLOWED, DEADLINE, MOST_WAITING, REFUSED, Access, BusyError
from scaler.sim import loop
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START

PROMETHEUS: Object = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "groups": ["scrapers"],
}
TENANT: Object = {"username": "system:serviceaccount:mindie:default", "groups": ["tenants"]}
SCRAPER = "10.0.0.1"
FLOOD = "10.0.0.66"


class Cluster(Interceptor):
    """An API server that counts what it is asked, or does not answer."""

    def __init__(self) -> None:
        self.cluster = SimCluster(Clock(START))
        self.reviews = self.cluster.server.reviews
        self.reviews.users = {"good": PROMETHEUS, "tenants": TENANT}
        self.reviews.may_get = {"/metrics": {"scrapers"}}
        self.asked: list[tuple[float, Resource, Object]] = []
        self.silent = False
        self.refuses = False
        self.access = Access(self.cluster.client("metrics", self).create)

    async def before(self, request: Request) -> None:
        self.asked.append((loop_time(), request.resource, request.body["spec"]))
        if self.silent:
            await asyncio.sleep(3600)
        if self.refuses:
            raise status_error(403, "Forbidden", "may not create tokenreviews")

    async def get(self, token: str, address: str = SCRAPER) -> int:
        return (await self.access.verdict(f"Bearer {token}", address)).status


def story(tell: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await tell(Cluster())

    loop.run(main())


def test_without_a_token_nobody_is_asked() -> None:
    async def tell(on: Cluster) -> None:
        for header in ("", "good", "Basic good", "Bearer", "Bearer a b", "Bearer g\u00f6\u00f6d"):
            assert (await on.access.verdict(header, SCRAPER)).status == 401
        assert on.asked == []

    story(tell)


def test_a_wrong_token_one_without_the_right_and_one_with_it() -> None:
    async def tell(on: Cluster) -> None:
        assert await on.get("wrong") == 401
        refusal = await on.access.verdict("Bearer tenants", SCRAPER)
        assert (refusal.status, TENANT["username"] in refusal.words) == (403, True)
        assert await on.get("good") == 200
        (*_, last) = on.asked
        assert last[1:] == (
            ACCESS_REVIEWS,
            {
                "user": PROMETHEUS["username"],
                "uid": "",
                "groups": ["scrapers"],
                "extra": {},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        )

    story(tell)


def test_a_verdict_is_kept_for_a_while_and_no_longer() -> None:
    async def tell(on: Cluster) -> None:
        for token, seconds, status, later in (
            ("good", ALLOWED, 200, 401),
            ("new", REFUSED, 401, 200),
        ):
            assert await on.get(token) == status
            asked = len(on.asked)
            on.reviews.users = {"new": PROMETHEUS}
            await asyncio.sleep(seconds - 1)
            assert (await on.get(token), len(on.asked)) == (status, asked)
            await asyncio.sleep(1)
            assert await on.get(token) == later
            on.reviews.users = {}

    story(tell)


@pytest.mark.parametrize("how", ["silent", "refuses"])
def test_without_an_answer_nobody_gets_anything_and_the_log_says_so_once(how: str) -> None:
    async def tell(on: Cluster) -> None:
        setattr(on, how, True)
        began = loop_time()
        with capture_logs() as logs:
            assert [await on.get("good") for _ in range(3)] == [503, 503, 503]
        assert loop_time() - began <= 3 * DEADLINE
        assert [entry["log_level"] for entry in logs] == ["warning"]
        setattr(on, how, False)
        assert await on.get("good") == 200  # what is not known is not kept

    story(tell)


@pytest.mark.parametrize(
    "status", [None, [], {"authenticated": "yes"}, {"authenticated": True}, {"user": 7}]
)
def test_an_answer_of_another_form_opens_nothing(status: object) -> None:
    async def answer(*_: object) -> Object:
        return {"status": status}

    async def main() -> None:
        assert (await Access(answer).verdict("Bearer good", SCRAPER)).status in (401, 503)

    loop.run(main())


def test_a_flood_of_wrong_tokens_is_reviewed_slowly_and_others_wait_for_their_turn_only() -> None:
    async def tell(on: Cluster) -> None:
        async def flood(address: str) -> None:
            for number in range(1_000_000):
                await on.get(f"{address}-{number}", address)

        floods = [
            asyncio.create_task(flood(f"10.1.0.{number // MOST_WAITING}"))
            for number in range(31 * MOST_WAITING)
        ]
        await asyncio.sleep(30)
        before = loop_time()
        assert await on.get("good") == 200
        assert loop_time() - before < 4.0
        assert await on.get("good") == 200  # and then it waits for nobody
        assert loop_time() - before < 4.0
        reviews = [moment for moment, kind, _ in on.asked if kind == TOKEN_REVIEWS]
        assert len(reviews) <= 10 * (loop_time() - reviews[0]) + 2
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)

    story(tell)


def test_a_flood_from_one_address_is_turned_away_and_leaves_half_of_the_places() -> None:
    async def tell(on: Cluster) -> None:
        waiting = [
            asyncio.create_task(on.get(f"wrong-{number}", FLOOD)) for number in range(MOST_WAITING)
        ]
        await asyncio.sleep(0.01)
        with pytest.raises(BusyError):
            await on.get("one-more", FLOOD)
        before = loop_time()
        assert await on.get("good") == 200
        assert loop_time() - before < 0.3
        assert set(await asyncio.gather(*waiting)) == {401}

    story(tell)


def test_wrong_tokens_push_no_right_one_out_and_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "PACE", 0.0)
    monkeypatch.setattr(access, "MOST_REFUSED", 10)

    async def tell(on: Cluster) -> None:
        assert await on.get("good") == 200
        for number in range(30):
            assert await on.get(f"wrong-{number}") == 401
        asked = len(on.asked)
        assert await on.get("good") == 200
        assert await on.get("wrong-29") == 401
        assert len(on.asked) == asked
        assert await on.get("wrong-0") == 401
        assert len(on.asked) == asked + 1

    story(tell)


def test_the_same_token_at_once_is_reviewed_once() -> None:
    async def tell(on: Cluster) -> None:
        assert set(await asyncio.gather(*(on.get("good") for _ in range(5)))) == {200}
        assert len(on.asked) == 2

    story(tell)


def test_a_refused_right_is_the_right_to_ask() -> None:
    """Not that of the client: its 403 is no verdict about the token."""

    async def main() -> None:
        async def refuse(*_: object) -> Object:
            raise ForbiddenError(403, "Forbidden", "no")

        assert (await Access(refuse).verdict("Bearer good", SCRAPER)).status == 503

    loop.run(main())
