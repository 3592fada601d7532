from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scaler.clock import Clock
from scaler.kube.api import PODS, Object, PatchType, Resource
from scaler.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    NotSentError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from scaler.kube.writer import (
    ENDS_FOR,
    JITTER,
    NAMESPACE_ENDS,
    TRIES,
    NotLeaderError,
    Writer,
)
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from tests.faults import Fault, Faults, Rule

NS = "default"


def pod(owner: str = "job-1", name: str = "p") -> Object:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "job",
        "uid": owner,
        "controller": True,
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    meta = {"name": name, "namespace": NS, "ownerReferences": [reference] if owner else []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class Stage:
    """A writer whose requests meet `faults`, and what it reported."""

    def __init__(self, *faults: Rule, deadline: float = math.inf, max_in_flight: int = 64) -> None:
        clock = Clock(0.0)
        self.cluster = SimCluster(clock, latency=0.01)
        self.faults = Faults(clock, *faults)
        self.deadline = deadline
        self.reported: list[str] = []
        self.writer = Writer(
            self.cluster.client("writer", self.faults),
            deadline=lambda: self.deadline,
            rng=random.Random(1),
            max_in_flight=max_in_flight,
            on_write=self._report,
        )

    def _report(self, verb: str, resource: Resource, outcome: str) -> None:
        self.reported.append(f"{verb} {resource.plural} {outcome}")

    async def create(self, body: Object | None = None) -> Object:
        return await self.writer.create(PODS, NS, body or pod())

    async def delete(self, uid: str = "", **options: Any) -> None:
        await self.writer.delete(PODS, NS, "p", uid=uid, **options)

    @property
    def pods(self) -> list[str]:
        return [f"{one['metadata']['name']}" for one in self.cluster.peek(PODS, NS)]

    def effects(self) -> list[str]:
        return [write.verb for write in self.cluster.writes("writer") if not write.error]

    async def uid(self) -> str:
        return str((await self.cluster.get(PODS, NS, "p"))["metadata"]["uid"])


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene()

    run(main())


def hit(fault: Fault, *verbs: str, times: int = 1, **more: Any) -> Rule:
    return Rule(
        fault=fault,
        verbs=frozenset(verbs or ("create", "delete", "replace", "patch")),
        times=times,
        **more,
    )


# Creating

RECOVERED = {
    "nothing": [],
    "no connection": [hit(Fault.NOT_SENT, times=2)],
    "too many requests": [hit(Fault.REFUSED, status=429, retry_after=2.0)],
    "a lost request": [hit(Fault.LOST_REQUEST)],
    "a lost answer": [hit(Fault.LOST_ANSWER)],
    "an answer that never comes": [hit(Fault.SLOW_ANSWER, seconds=1e6)],
    "a request that hangs": [hit(Fault.DELAY, seconds=1e6)],
    "an internal error": [hit(Fault.REFUSED, status=500)],
    "a lost answer, then no connection for reading": [
        hit(Fault.LOST_ANSWER),
        hit(Fault.NOT_SENT, "get", times=2),
    ],
    "a lost request, then a lost answer": [hit(Fault.LOST_REQUEST), hit(Fault.LOST_ANSWER)],
}


@pytest.mark.parametrize("faults", RECOVERED.values(), ids=RECOVERED)
def test_a_creation_happens_once_in_spite_of(faults: list[Rule]) -> None:
    async def scene() -> None:
        stage = Stage(*faults)
        created = await stage.create()
        assert created["metadata"]["uid"] == await stage.uid()
        assert stage.effects() == ["create"]

    play(scene)


def test_what_was_created_by_us_before_counts_as_created() -> None:
    async def scene() -> None:
        stage = Stage()
        first = await stage.create()
        assert (await stage.create())["metadata"]["uid"] == first["metadata"]["uid"]
        assert stage.reported == ["create pods ok", "create pods AlreadyExists", "get pods ok"]

    play(scene)


@pytest.mark.parametrize("owner", ["job-2", ""])
@pytest.mark.parametrize("faults", [[], [hit(Fault.LOST_REQUEST)]], ids=["refused", "unknown"])
def test_a_name_that_is_taken_by_another_is_said(owner: str, faults: list[Rule]) -> None:
    async def scene() -> None:
        stage = Stage(*faults)
        stage.cluster.apply([pod(owner)])
        with pytest.raises(AlreadyExistsError):
            await stage.create()

    play(scene)


class Ending(Interceptor):
    """An API server on which namespace `default` is being deleted."""

    def __init__(self) -> None:
        self.refused = 0
        self.is_over = False

    async def before(self, request: Request) -> None:
        if request.verb == "create" and request.namespace == NS and not self.is_over:
            self.refused += 1
            words = f"unable to create new content in namespace {NS} {NAMESPACE_ENDS}"
            raise ForbiddenError(403, "Forbidden", words)


def test_of_what_is_to_be_made_in_a_namespace_that_ends_only_the_first_is_sent() -> None:
    """40 refused writes were seen while one namespace was deleted."""

    async def scene() -> None:
        stage = Stage()
        server = Ending()
        stage.writer = Writer(
            stage.cluster.client("writer", server),
            deadline=lambda: math.inf,
            rng=random.Random(1),
        )
        for number in range(40):
            with pytest.raises(ForbiddenError, match="being terminated"):
                await stage.create(pod(name=f"p{number}"))
        assert server.refused == 1
        elsewhere = pod()
        elsewhere["metadata"]["namespace"] = "other"
        await stage.writer.create(PODS, "other", elsewhere)
        server.is_over = True  # a new namespace has the name
        await asyncio.sleep(ENDS_FOR)
        await stage.create()
        assert stage.pods == ["p"]

    play(scene)


def test_an_object_without_controller_is_never_taken_for_ours() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.cluster.apply([pod("")])
        with pytest.raises(AlreadyExistsError):
            await stage.create(pod(""))

    play(scene)


GIVEN_UP: dict[str, tuple[list[Rule], type[KubeError]]] = {
    "no connection": ([hit(Fault.NOT_SENT, times=99)], NotSentError),
    "too many requests": ([hit(Fault.REFUSED, status=429, times=99)], TooManyRequestsError),
    "a server that wants too much patience": (
        [hit(Fault.REFUSED, status=429, retry_after=60.0)],
        TooManyRequestsError,
    ),
    "no permission": ([hit(Fault.REFUSED, status=403)], ForbiddenError),
    "lost requests": ([hit(Fault.LOST_REQUEST, times=99)], UnknownOutcomeError),
}


@pytest.mark.parametrize(("faults", "error"), GIVEN_UP.values(), ids=GIVEN_UP)
def test_a_write_is_given_up_within_bounds_after(
    faults: list[Rule], error: type[KubeError]
) -> None:
    async def scene() -> None:
        stage = Stage(*faults)
        with pytest.raises(error):
            await stage.create()
        assert asyncio.get_running_loop().time() <= 20.0
        assert len([line for line in stage.reported if line.startswith("create")]) <= TRIES
        assert stage.pods == []

    play(scene)


def busy(*verbs: str, seconds: float, times: int = 99) -> Rule:
    return hit(Fault.REFUSED, *verbs, times=times, status=429, retry_after=seconds)


def test_a_server_that_asks_for_a_minute_is_asked_once_a_minute_however_often_callers_try() -> None:
    async def scene() -> None:
        stage = Stage(busy("create", seconds=60.0))
        while asyncio.get_running_loop().time() < 600.0:
            with pytest.raises(TooManyRequestsError) as caught:
                await stage.create()
            assert 0.0 < (caught.value.retry_after or 0.0) <= 60.0 * JITTER
            await asyncio.sleep(2.0)
        assert stage.reported == ["create pods TooManyRequests"] * 10

    play(scene)


def test_fifty_callers_that_wait_for_the_same_short_pause_ask_once_more_each_at_most() -> None:
    async def scene() -> None:
        stage = Stage(busy("create", seconds=4.0, times=1))
        with contextlib.suppress(TooManyRequestsError):
            await stage.create(pod(name="first"))
        await asyncio.gather(*(stage.create(pod(name=f"p{number}")) for number in range(50)))
        assert stage.reported == ["create pods TooManyRequests"] + ["create pods ok"] * 51

    play(scene)


def test_an_answer_that_asks_for_a_pause_holds_for_nobody_else() -> None:
    async def scene() -> None:
        stage = Stage(busy("create", seconds=300.0, times=1))
        with pytest.raises(TooManyRequestsError):
            await stage.create()
        stage.cluster.apply(
            [
                pod(name="there"),
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}},
            ]
        )
        await stage.writer.delete(PODS, NS, "there")
        body = pod()
        body["metadata"]["namespace"] = "other"
        await stage.writer.create(PODS, "other", body)
        assert stage.reported == ["create pods TooManyRequests", "delete pods ok", "create pods ok"]

    play(scene)


def test_a_pause_that_a_server_error_asks_for_is_kept_too() -> None:
    async def scene() -> None:
        stage = Stage(hit(Fault.REFUSED, "patch", status=503, retry_after=60.0, times=99))
        for _ in range(10):
            with pytest.raises(KubeError):
                await stage.writer.patch(PODS, NS, "p", {}, patch_type=PatchType.MERGE)
            await asyncio.sleep(5.0)
        assert stage.reported == ["patch pods UnknownOutcome"]

    play(scene)


def test_who_does_not_lead_is_told_so_whatever_the_server_asked_for() -> None:
    async def scene() -> None:
        stage = Stage(deadline=-math.inf)
        with pytest.raises(NotLeaderError):
            await stage.create()

    play(scene)


# Deleting


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [hit(Fault.LOST_ANSWER)],
        [hit(Fault.LOST_REQUEST)],
        [hit(Fault.NOT_SENT, times=2)],
        [hit(Fault.SLOW_ANSWER, seconds=1e6)],
    ],
)
def test_a_deletion_happens_once_whatever_happens_to_the_request(faults: list[Rule]) -> None:
    async def scene() -> None:
        stage = Stage(*faults)
        stage.cluster.apply([pod()])
        await stage.delete(await stage.uid())
        assert stage.pods == []
        assert stage.effects() == ["delete"]

    play(scene)


def test_what_is_gone_already_or_was_replaced_needs_no_deletion() -> None:
    async def scene() -> None:
        stage = Stage()
        await stage.delete("some-uid")
        stage.cluster.apply([pod()])
        await stage.delete("some-uid")
        assert stage.pods == ["p"]
        assert stage.effects() == []

    play(scene)


def test_a_deletion_of_something_that_has_changed_is_refused() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.cluster.apply([pod()])
        with pytest.raises(ConflictError):
            await stage.delete(await stage.uid(), resource_version="1")
        assert stage.pods == ["p"]

    play(scene)


def test_a_deletion_that_stays_unknown_is_said() -> None:
    async def scene() -> None:
        stage = Stage(hit(Fault.LOST_REQUEST, times=99))
        stage.cluster.apply([pod()])
        with pytest.raises(UnknownOutcomeError):
            await stage.delete(await stage.uid())

    play(scene)


# Changing


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LOST_ANSWER])
def test_a_change_whose_outcome_is_unknown_is_left_to_the_caller(fault: Fault) -> None:
    async def scene() -> None:
        stage = Stage(hit(fault))
        stage.cluster.apply([pod()])
        patch = {"metadata": {"labels": {"a": "b"}}}
        with pytest.raises(UnknownOutcomeError):
            await stage.writer.patch(PODS, NS, "p", patch, patch_type=PatchType.MERGE)
        changed = await stage.writer.patch(PODS, NS, "p", patch, patch_type=PatchType.MERGE)
        assert changed["metadata"]["labels"] == {"a": "b"}

    play(scene)


def test_a_patch_of_an_outdated_object_is_refused() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.cluster.apply([pod()])
        seen = (await stage.cluster.get(PODS, NS, "p"))["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": seen, "labels": {"a": "b"}}}
        await stage.writer.patch(PODS, NS, "p", patch, patch_type=PatchType.MERGE)
        with pytest.raises(ConflictError):
            await stage.writer.patch(PODS, NS, "p", patch, patch_type=PatchType.MERGE)
        with pytest.raises(NotFoundError):
            await stage.writer.patch(PODS, NS, "q", patch, patch_type=PatchType.MERGE)

    play(scene)


# Leadership


def test_nothing_is_sent_after_the_deadline() -> None:
    async def scene() -> None:
        stage = Stage(deadline=1.0)
        await asyncio.sleep(1.0)
        for call in (stage.create(), stage.delete("u")):
            with pytest.raises(NotLeaderError):
                await call
        assert stage.cluster.writes("writer") == []
        assert stage.reported == ["create pods NotLeader", "delete pods NotLeader"]

    play(scene)


def test_no_try_and_no_answer_is_awaited_beyond_the_deadline() -> None:
    async def scene() -> None:
        for fault in (
            hit(Fault.NOT_SENT, times=99),
            hit(Fault.SLOW_ANSWER, seconds=1e6),
            hit(Fault.DELAY, seconds=1e6),
        ):
            now = asyncio.get_running_loop().time()
            stage = Stage(fault, deadline=now + 0.5)
            with pytest.raises((NotLeaderError, NotSentError)):
                await stage.create()
            assert asyncio.get_running_loop().time() <= now + 0.5

    play(scene)


def test_a_request_that_waits_for_its_turn_until_the_deadline_is_never_sent() -> None:
    async def scene() -> None:
        stage = Stage(hit(Fault.SLOW_ANSWER, times=99, seconds=3.0), deadline=4.0, max_in_flight=1)
        bodies = [pod(name=f"p{i}") for i in range(4)]
        results = await asyncio.gather(
            *(stage.create(body) for body in bodies), return_exceptions=True
        )
        assert [type(result).__name__ for result in results] == [
            "dict",
            "NotLeaderError",
            "NotLeaderError",
            "NotLeaderError",
        ]
        assert stage.pods == ["p0", "p1"]

    play(scene)


def test_no_more_than_so_many_are_in_flight() -> None:
    async def scene() -> None:
        stage = Stage(max_in_flight=8)
        await asyncio.gather(*(stage.create(pod(name=f"p{i:02}")) for i in range(64)))
        assert len(stage.pods) == 64
        assert asyncio.get_running_loop().time() == pytest.approx(0.01 * 64 / 8)

    play(scene)
