from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.clock import loop_time
from scaler.informers.informer import Informer
from scaler.informers.reflector import JITTER, History
from scaler.informers.refusals import MOST, Refusals
from scaler.informers.store import Store
from scaler.kube.api import PODS, EventType, Page, Refused, WatchEvent
from scaler.kube.errors import KubeError, NotSentError, UnknownOutcomeError, status_error
from scaler.names import RULE_LABEL
from scaler.report.metrics import Metrics
from scaler.sim.loop import run
from tests.informers.records import Record, Thing, record, thing

HANG = "hang"
END = "end"
"""The watch ends when its lifetime is over."""
Scripted = Any
Times = list[float]
"""In a list: a Page or an error. In a watch: events, errors, seconds to wait, HANG; its end is a
clean end."""

EXPIRED = status_error(410, "Expired", "too old resource version")


class ScriptedApi:
    """Answers lists and watches from two scripts, then hangs. `calls`: loop time, verb, version or
    token, namespace.

    `checks` are the times at which only the version was asked for, which is `version`;
    `definitions` those at which the definition of the kind was."""

    def __init__(
        self,
        lists: list[Scripted],
        watches: list[list[Scripted]],
        *,
        version: int = 10**9,
        down: float = 0.0,
    ) -> None:
        self.lists = lists
        self.watches = watches
        self.calls: list[tuple[float, str, str, str | None]] = []
        self.open_watches = 0
        self.version = version
        self.down = down
        """Until then no check is answered."""
        self.checks: Times = []
        self.definitions: Times = []

    def _note(self, verb: str, detail: str, namespace: str | None) -> None:
        self.calls.append((asyncio.get_running_loop().time(), verb, detail, namespace))

    async def list(
        self, resource: Any, namespace: str | None = None, **options: Any
    ) -> Page[Thing]:
        if options.get("field_selector"):
            self.definitions.append(asyncio.get_running_loop().time())
            return Page([], "1")
        if options["limit"] == 1:  # whether the cluster has gone back
            self.checks.append(asyncio.get_running_loop().time())
            if asyncio.get_running_loop().time() < self.down:
                raise UnknownOutcomeError("nobody answers")
            return Page([], str(self.version))
        self._note("list", options["continue_token"], namespace)
        assert options["limit"] == 500
        assert not options.get("resource_version")
        answer: Page[Thing] | KubeError | str = self.lists.pop(0) if self.lists else HANG
        if isinstance(answer, KubeError):
            raise answer
        if isinstance(answer, str):
            await asyncio.Event().wait()
        assert isinstance(answer, Page)
        return answer

    async def watch(
        self, resource: Any, namespace: str | None = None, **options: Any
    ) -> AsyncIterator[Any]:
        self._note("watch", options["resource_version"], namespace)
        assert 29 <= options["timeout_seconds"] <= 38
        self.open_watches += 1
        opened = loop_time()
        try:
            for step in self.watches.pop(0) if self.watches else [HANG]:
                if step == HANG:
                    await asyncio.Event().wait()
                elif step == END:
                    await asyncio.sleep(opened + options["timeout_seconds"] - loop_time())
                elif isinstance(step, int | float):
                    await asyncio.sleep(step)
                elif isinstance(step, KubeError):
                    raise step
                else:
                    yield step
        finally:
            self.open_watches -= 1

    def verbs(self) -> Sequence[str]:
        return [f"{verb} {detail}".rstrip() for _, verb, detail, _ in self.calls]

    def times(self) -> Sequence[float]:
        return [when for when, *_ in self.calls]


def page(version: int, *things: Thing, more: str = "") -> Page[Thing]:
    return Page(list(things), str(version), more)


def event(kind: str, name: str, version: int, **fields: Any) -> WatchEvent[Thing]:
    return WatchEvent(EventType(kind), thing(name, version, **fields), str(version))


def bookmark(version: int) -> WatchEvent[Thing]:
    return WatchEvent(EventType.BOOKMARK, None, str(version))


class Played:
    """A informer that ran against a script for a while."""

    def __init__(
        self, api: Any, namespaces: tuple[str, ...] | None, history: History | None = None
    ) -> None:
        self.changes: list[tuple[str, str]] = []
        self.store: Store[Record] = Store(self._on_change)
        self.informer = Informer(
            api,
            PODS,
            self.store,
            record=record,
            decode=Thing,
            namespaces=namespaces,
            rng=random.Random(1),
            history=history or History(),
        )

    def _on_change(self, old: Record | None, new: Record | None) -> None:
        one = new or old
        assert one is not None
        self.changes.append(("gone" if new is None else new.resource_version, one.name))

    @property
    def names(self) -> list[str]:
        return sorted(f"{one.name}@{one.resource_version}" for one in self.store.values())


def play(
    lists: list[Scripted],
    watches: list[list[Scripted]],
    *,
    seconds: float = 40.0,
    namespaces: tuple[str, ...] | None = None,
    **cluster: Any,
) -> tuple[Played, ScriptedApi]:
    """`cluster`: `version`, what it says it is at to who asks for nothing else, and `down`, not in
    the first seconds."""
    api = ScriptedApi(lists, watches, **cluster)

    async def main() -> Played:
        played = Played(api, namespaces)
        task = asyncio.create_task(played.informer.run())
        await asyncio.sleep(seconds)
        assert not task.done(), task
        task.cancel()
        await asyncio.wait({task})
        assert api.open_watches == 0
        return played

    return run(main()), api


def test_a_list_in_pages_and_then_events_make_the_store_equal_the_cluster() -> None:
    events = [
        event("ADDED", "c", 11),
        event("MODIFIED", "a", 12),
        event("DELETED", "b", 13),
        bookmark(20),
        HANG,
    ]
    played, api = play([page(10, thing("a", 1), more="more"), page(10, thing("b", 2))], [events])
    assert played.names == ["a@12", "c@11"]
    assert played.store.version == 20
    assert played.informer.synced.is_set()
    assert api.verbs() == ["list", "list more", "watch 10"]
    assert played.informer.problem == ""


def test_an_object_that_is_no_longer_wanted_leaves_the_store() -> None:
    events = [
        event("MODIFIED", "a", 11, data="ignored"),
        event("ADDED", "b", 12, data="ignored"),
        HANG,
    ]
    played, _ = play([page(10, thing("a", 1), thing("c", 2, data="ignored"))], [events])
    assert played.names == []
    assert played.changes == [("1", "a"), ("gone", "a")]


def test_a_watch_that_ended_in_time_is_followed_at_once_from_the_last_version() -> None:
    played, api = play([page(10)], [[20.0, bookmark(40), END], [HANG]], seconds=50.0)
    assert api.verbs() == ["list", "watch 10", "watch 40"]
    assert api.times()[:2] == [0.0, 0.0]
    assert 29.0 <= api.times()[2] <= 38.0
    assert float(api.times()[2]).is_integer()
    assert played.informer.counts["watches"] == 2


def test_watches_that_end_at_once_are_opened_ever_more_slowly() -> None:
    _, api = play([page(10)], [[]] * 1000, seconds=600.0)
    gaps = [b - a for a, b in zip(api.times()[1:], api.times()[2:], strict=False)]
    assert 0.8 <= gaps[0] <= 1.6
    assert gaps[1] > gaps[0]
    assert 20.0 <= gaps[-1] <= 30.0
    assert len(gaps) < 40


def test_a_watch_that_brought_something_brings_the_backoff_back_to_its_start() -> None:
    broken: list[Scripted] = [UnknownOutcomeError("reset")]
    alive = [2.0, bookmark(11), UnknownOutcomeError("reset")]
    _, api = play([page(10)], [broken] * 4 + [alive, [HANG]], seconds=55.0)
    assert 2.8 <= api.times()[-1] - api.times()[-2] <= 3.6


def test_an_expired_version_is_answered_with_a_list_at_once_but_not_twice() -> None:
    lists = [page(10, thing("a", 1)), page(30, thing("a", 1)), page(40, thing("b", 35))]
    played, api = play(lists, [[EXPIRED], [EXPIRED], [HANG]])
    assert api.verbs() == ["list", "watch 10", "list", "watch 30", "list", "watch 40"]
    assert api.times()[2] == 0.0
    assert api.times()[4] >= 0.8
    assert played.names == ["b@35"]
    assert ("gone", "a") in played.changes


def test_expired_in_the_middle_of_a_long_backoff_lists_at_once() -> None:
    down: list[list[Scripted]] = [[NotSentError("refused")]] * 4
    _, api = play([page(10), page(50)], [*down, [EXPIRED], [HANG]], seconds=55.0)
    expired_at = api.times()[-3]
    listed_at = api.times()[-2]
    assert api.verbs()[-2:] == ["list", "watch 50"]
    assert listed_at == expired_at


def test_a_list_from_a_stale_server_is_refused_until_it_has_caught_up() -> None:
    stale = page(8, thing("zombie", 7))
    played, api = play(
        [page(10, thing("a", 9)), stale, stale, page(12, thing("a", 9))], [[EXPIRED], [HANG]]
    )
    assert played.names == ["a@9"]
    assert ("7", "zombie") not in played.changes
    assert api.verbs()[-1] == "watch 12"


def test_events_from_before_the_last_version_do_not_bring_deleted_objects_back() -> None:
    played, _ = play(
        [page(10, thing("a", 1))],
        [[event("DELETED", "a", 12), event("MODIFIED", "a", 11), bookmark(5), HANG]],
    )
    assert played.names == []
    assert played.store.version == 12


def test_a_page_that_expires_starts_the_list_again() -> None:
    lists = [
        page(10, thing("a", 1), more="more"),
        EXPIRED,
        page(20, thing("a", 1), more="more"),
        page(20, thing("b", 2)),
    ]
    played, api = play(lists, [[HANG]])
    assert api.verbs() == ["list", "list more", "list", "list more", "watch 20"]
    assert played.names == ["a@1", "b@2"]


def test_not_synced_says_why_and_a_resource_type_may_be_installed_later() -> None:
    missing = status_error(404, "NotFound", "404 page not found")
    played, _ = play([missing] * 100, [], seconds=60.0)
    assert played.informer.problem == "pods are not installed in the cluster"
    assert not played.informer.synced.is_set()
    played, api = play([missing, missing, page(3, thing("a", 1))], [[HANG]], seconds=60.0)
    assert played.names == ["a@1"]
    assert 0.8 <= api.times()[1] <= 1.6


def test_that_a_resource_type_is_not_installed_is_logged_once() -> None:
    missing = status_error(404, "NotFound", "404 page not found")
    with capture_logs() as logs:
        _, api = play([missing] * 100, [], seconds=60.0)
    assert len(api.times()) > 4
    assert [(line["event"], line["resource"], line["log_level"]) for line in logs] == [
        ("not installed", "pods", "info")
    ]


def test_retry_after_is_honoured() -> None:
    busy = status_error(429, "TooManyRequests", "slow down", retry_after=17.0)
    _, api = play([busy, page(3)], [[HANG]])
    assert 17.0 <= api.times()[1] <= 17.0 * JITTER


def test_a_watch_that_is_answered_with_a_pause_of_a_minute_is_asked_for_once_a_minute() -> None:
    busy = status_error(429, "TooManyRequests", "slow down", retry_after=60.0)
    _, api = play([page(3), *[busy] * 20], [[busy]] * 20, seconds=600.0)
    assert api.verbs() == ["list", "watch 3", *["list"] * 9]
    assert min(b - a for a, b in itertools.pairwise(api.times()[1:])) >= 60.0


TROUBLE = [
    status_error(401, "Unauthorized", "token"),
    status_error(403, "Forbidden", "rbac"),
    status_error(429, "TooManyRequests", "busy"),
    status_error(500, "InternalError", "oops"),
    UnknownOutcomeError("HTML"),
    NotSentError("refused"),
]


@pytest.mark.parametrize(
    "error", TROUBLE, ids=lambda e: type(e).__name__ + str(getattr(e, "status", ""))
)
def test_no_error_of_the_cluster_ends_it_and_afterwards_all_is_well(error: KubeError) -> None:
    lists = [error, page(10, thing("a", 1))]
    watches: list[list[Scripted]] = [
        [error],
        [event("ADDED", "b", 11), error],
        [event("MODIFIED", "b", 12), HANG],
    ]
    played, api = play(lists, watches)
    assert played.names == ["a@1", "b@12"]
    assert api.verbs().count("list") == 2
    assert played.informer.problem == ""


def test_every_namespace_is_watched_on_its_own_and_synced_means_all_of_them() -> None:
    played, api = play([page(10, thing("a", 1, namespace="x"))], [[HANG]], namespaces=("x", "y"))
    assert {namespace for *_, namespace in api.calls} == {"x", "y"}
    assert not played.informer.synced.is_set()
    assert played.store.version == 0
    both = [page(10, thing("a", 1, namespace="x")), page(12, thing("b", 1, namespace="y"))]
    played, _ = play(both, [[HANG], [HANG]], namespaces=("x", "y"))
    assert played.informer.synced.is_set()
    assert (played.names, played.store.version) == (["a@1", "b@1"], 10)


def odd_record(thing: Thing) -> Record:
    """As our own code would with a fault in it."""
    return record(thing) if thing.metadata.name != "odd" else 1 / 0  # type: ignore[return-value]


def test_an_object_that_our_own_code_fails_at_is_one_finding_and_all_others_are_kept() -> None:
    published: list[object] = []

    async def main() -> None:
        refusals = Refusals(published.append, lambda: 0.0)
        store: Store[Record] = Store(lambda *_: None)
        api: Any = ScriptedApi(
            [page(3, thing("a", 1), thing("odd", 2), thing("z", 3))],
            [[event("MODIFIED", "a", 4), HANG]],
        )
        informer = Informer(
            api,
            PODS,
            store,
            record=odd_record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
            refusals=refusals,
        )
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await asyncio.sleep(0.5)
        task.cancel()
        assert sorted(record.name for record in store.values()) == ["a", "z"]
        assert (len(refusals), informer.counts) == (
            1,
            {"refused": 1, "lists": 1, "watches": 1, "events": 1},
        )

    run(main())
    assert published == []  # it names no rule


def test_what_an_informer_counts_is_shown_as_metrics() -> None:
    async def main() -> str:
        api: Any = ScriptedApi(
            [page(3, thing("a", 1), thing("odd", 2))], [[event("MODIFIED", "a", 4), HANG]]
        )
        store: Store[Record] = Store(lambda *_: None)
        informer = Informer(
            api,
            PODS,
            store,
            record=odd_record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
        )
        metrics = Metrics()
        metrics.follow_informers({PODS: informer})
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await asyncio.sleep(0.5)
        task.cancel()
        return metrics.render().decode()

    shown = run(main())
    for name in ("lists", "watches", "watch_events", "objects_refused"):
        assert f'scaler_{name}_total{{resource="pods"}} 1.0' in shown


def test_one_namespace_cannot_use_up_what_is_remembered_of_others() -> None:
    refusals = Refusals(lambda _: None, lambda: 0.0)
    for number in range(3 * MOST):
        refusals.note(PODS, Refused("odd", "theirs", f"p{number}", labels={RULE_LABEL: "rule"}))
    refusals.note(PODS, Refused("odd", "ours", "p", labels={RULE_LABEL: "rule"}))
    assert len(refusals.of_rule("theirs", "rule")) == MOST
    assert refusals.of_rule("ours", "rule") == ("Pod p cannot be read: odd",)
    refusals.note(PODS, Refused("odder", "ours", "p", labels={RULE_LABEL: "other"}))
    assert (refusals.of_rule("ours", "rule"), len(refusals.of_rule("ours", "other"))) == ((), 1)
    refusals.retain(PODS, None, set())
    assert len(refusals) == 0


def test_an_object_that_cannot_be_read_any_more_stays_as_it_was_until_it_is_gone() -> None:
    async def main() -> None:
        refusals = Refusals(lambda _: None, lambda: 0.0)
        store: Store[Record] = Store(lambda *_: None)
        odd: Any = WatchEvent(
            EventType.MODIFIED, None, "2", Refused("odd", "ns", "a", "uid-a", "2")
        )
        gone: Any = WatchEvent(
            EventType.DELETED, None, "3", Refused("odd", "ns", "a", "uid-a", "3")
        )
        api: Any = ScriptedApi([page(1, thing("a", 1))], [[odd, 30, gone, HANG]])
        informer = Informer(
            api,
            PODS,
            store,
            record=record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
            refusals=refusals,
        )
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await asyncio.sleep(0.5)
        assert [record.resource_version for record in store.values()] == ["1"]
        assert len(refusals) == 1
        await asyncio.sleep(60)
        task.cancel()
        assert (len(store), len(refusals)) == (0, 0)

    run(main())
