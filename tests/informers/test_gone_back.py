"""Watches that stand and tell nothing, clusters that went back in time, and kinds that come
late."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from structlog.testing import capture_logs

from scaler.clock import Clock
from scaler.informers.informer import Informer
from scaler.informers.reflector import OUTAGE, RESTORED_AFTER, SILENCE, History
from scaler.informers.store import Store
from scaler.kube.api import CUSTOM_RESOURCE_DEFINITIONS, POD_GROUPS, Page
from scaler.kube.errors import ForbiddenError, KubeError, UnknownOutcomeError, status_error
from scaler.sim.apiserver.client import Interceptor, Request
from scaler.sim.cluster import SimCluster
from scaler.sim.loop import run
from scaler.workloads.leaderworkerset import LEADER_WORKER_SETS
from tests.informers.records import Record, Thing, record, thing
from tests.informers.test_watch import (
    END,
    EXPIRED,
    HANG,
    Played,
    Scripted,
    ScriptedApi,
    bookmark,
    event,
    page,
    play,
)

BROKEN = UnknownOutcomeError("reset")


def test_a_watch_that_is_open_and_says_nothing_is_followed_by_a_list() -> None:
    played, api = play([page(10), page(30, thing("a", 20))], [[HANG], [HANG]], seconds=SILENCE + 5)
    assert api.verbs() == ["list", "watch 10", "list", "watch 30"]
    assert played.names == ["a@20"]


def test_a_quiet_watch_is_no_warning_unless_it_kept_changes_back() -> None:
    def said(*later: Page[Thing]) -> list[str]:
        with capture_logs() as logs:
            play([page(10, thing("a", 1)), *later], [[HANG]] * 3, seconds=2 * SILENCE + 5)
        return [line["event"] for line in logs]

    assert said(page(20, thing("a", 1)), page(30, thing("a", 1))) == []
    assert said(page(20, thing("a", 15)), page(30, thing("a", 15))) == [
        "a watch said nothing of changes"
    ]


def test_bookmarks_are_signs_of_life() -> None:
    watches: list[list[Scripted]] = [[25.0, bookmark(11 + at), END] for at in range(9)]
    _, api = play([page(10)], watches, seconds=180.0)
    assert api.verbs()[:3] == ["list", "watch 10", "watch 11"]
    assert api.verbs().count("list") == 1


@pytest.mark.parametrize("lasted", [END, 20.0])
def test_the_end_of_a_watch_at_its_time_is_a_sign_of_life_and_an_early_one_is_not(
    lasted: Scripted,
) -> None:
    played, api = play([page(10)], [[lasted], [HANG]], seconds=44.0)
    assert api.verbs() == ["list", "watch 10", "watch 10"]
    assert played.informer.heard == (api.times()[-1] if lasted == END else 0.0)


def test_watches_that_end_in_time_and_never_bring_anything_are_followed_by_a_list() -> None:
    """A proxy keeps back what a watch says, and lets its end through."""
    _, api = play([page(10), page(30, thing("a", 20))], [[END], [END], [HANG]], seconds=80.0)
    assert api.verbs() == ["list", "watch 10", "watch 10", "list", "watch 30"]


def test_what_was_not_heard_of_for_long_is_listed_however_its_watches_end() -> None:
    down: list[list[Scripted]] = [[BROKEN]] * 100
    _, api = play([page(10), page(20)], down, seconds=SILENCE + 40)
    assert [verb for verb in api.verbs() if verb == "list"] == ["list", "list"]


def gone_back(*, seconds: float) -> tuple[Played, ScriptedApi]:
    """A watch breaks, and the cluster has become what it was at version 5."""
    lists = [page(10, thing("a", 9), thing("b", 8)), *[page(5, thing("a", 4))] * 9]
    return play(lists, [[BROKEN], [event("ADDED", "c", 6), HANG]], seconds=seconds, version=5)


def test_a_cluster_that_was_restored_from_a_backup_is_believed_after_a_while() -> None:
    played, api = gone_back(seconds=60.0)
    assert played.names == ["a@4", "c@6"]
    assert api.verbs()[-2:] == ["list", "watch 5"]
    assert RESTORED_AFTER <= api.times()[-1] - api.checks[0] <= 3 * RESTORED_AFTER
    assert played.store.version == 6
    assert played.informer.problem == ""


def caught_up(down: float) -> Played:
    """A watch breaks, nothing answers for so many seconds, and the cluster was restored and has
    come further since."""
    lists = [page(10, thing("a", 9)), *[page(12, thing("a", 4))] * 9]
    played, _ = play(lists, [[BROKEN], [HANG], [HANG]], seconds=40.0, version=12, down=down)
    return played


def test_a_restore_within_an_outage_is_noticed_though_versions_have_caught_up() -> None:
    assert caught_up(2 * OUTAGE).names == ["a@4"]


def test_an_outage_too_short_for_a_restore_is_followed_by_a_watch_and_no_list() -> None:
    assert caught_up(OUTAGE / 2).names == ["a@9"]


def test_until_then_nothing_is_taken_from_it() -> None:
    played, _ = gone_back(seconds=RESTORED_AFTER)
    assert played.names == ["a@9", "b@8"]
    assert "older" in played.informer.problem


def test_nothing_that_is_known_is_forgotten_between_the_pages_of_such_a_list() -> None:
    lists_until_believed = gone_back(seconds=60.0)[1].verbs().count("list") - 1
    first_pages = [page(5, thing("a", 4), more="more")] * lists_until_believed
    lists = [page(10, thing("a", 9), thing("b", 8)), *first_pages, HANG]
    played, _ = play(lists, [[BROKEN]], seconds=60.0, version=5)
    assert played.names == ["a@4", "b@8"]


def test_a_server_that_is_behind_for_a_moment_is_not_believed() -> None:
    older = page(5, thing("a", 4))
    played, api = play(
        [page(10, thing("a", 9)), older, older, page(12, thing("a", 9))], [[EXPIRED], [HANG]]
    )
    assert played.names == ["a@9"]
    assert api.verbs() == ["list", "watch 10", "list", "list", "list", "watch 12"]


class Counted(Interceptor):
    """Counts requests; optionally none may look at definitions."""

    def __init__(self, *, forbidden: bool = False) -> None:
        self.requests: Counter[str] = Counter()
        self._forbidden = forbidden

    async def before(self, request: Request) -> None:
        self.requests[request.resource.plural] += 1
        if self._forbidden and request.resource == CUSTOM_RESOURCE_DEFINITIONS:
            raise ForbiddenError(403, "Forbidden", "no right")


@pytest.mark.parametrize(("forbidden", "most", "noticed_in"), [(False, 60, 5.0), (True, 260, 45.0)])
def test_a_kind_that_is_not_installed_is_waited_for_and_noticed(
    forbidden: bool, most: int, noticed_in: float
) -> None:
    async def story() -> None:
        cluster = SimCluster(Clock(1e9))
        counted = Counted(forbidden=forbidden)
        name = f"{POD_GROUPS.plural}.{POD_GROUPS.group}"
        definition = await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, None, name)
        await cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, None, name)
        store: Store[Record] = Store(lambda _old, _new: None)
        informer = Informer(
            cluster.client("scaler", counted),
            POD_GROUPS,
            store,
            record=record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
        )
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(1)
        found = [(informer.absent, informer.synced_or_absent.is_set(), informer.synced.is_set())]
        await asyncio.sleep(3600)
        assert sum(counted.requests.values()) <= most
        fresh = {key: definition[key] for key in ("apiVersion", "kind", "spec")} | {
            "metadata": {"name": name}
        }
        await cluster.create(CUSTOM_RESOURCE_DEFINITIONS, None, fresh)
        await asyncio.sleep(noticed_in)
        found.append(
            (informer.absent, informer.synced_or_absent.is_set(), informer.synced.is_set())
        )
        assert found == [(True, True, False), (False, True, True)]
        task.cancel()
        await asyncio.wait({task})

    run(story())


def test_what_was_known_and_cannot_be_found_any_more_is_not_absent() -> None:
    gone = status_error(404, "NotFound", "404 page not found")
    played, _ = play([page(10, thing("a", 9)), *[gone] * 50], [[gone]], seconds=60.0)
    assert not played.informer.absent
    assert played.names == ["a@9"]


def test_what_nobody_needs_is_gone_with_its_definition_also_when_no_watch_told_so() -> None:
    gone = status_error(404, "NotFound", "404 page not found")

    async def main() -> tuple[bool, int]:
        store: Store[Record] = Store(lambda _old, _new: None)
        informer = Informer(
            ScriptedApi([page(10, thing("a", 9)), *[gone] * 50], [[gone]]),  # type: ignore[arg-type]
            LEADER_WORKER_SETS,
            store,
            record=record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
            may_be_forbidden=True,
        )
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(60)
        task.cancel()
        await asyncio.wait({task})
        return informer.absent, len(store)

    assert run(main()) == (True, 0)


def test_what_may_not_be_read_is_missing_unless_nobody_needs_it() -> None:
    forbidden = ForbiddenError(403, "Forbidden", "rbac")
    played, api = play([forbidden] * 50, [], seconds=60.0)
    assert not played.informer.synced_or_absent.is_set()
    assert api.definitions == []

    async def main() -> bool:
        store: Store[Record] = Store(lambda _old, _new: None)
        informer = Informer(
            ScriptedApi([forbidden] * 50, []),  # type: ignore[arg-type]
            LEADER_WORKER_SETS,
            store,
            record=record,
            decode=Thing,
            namespaces=("a", "b"),
            rng=random.Random(1),
            may_be_forbidden=True,
        )
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(10)
        task.cancel()
        await asyncio.wait({task})
        return informer.absent and informer.synced_or_absent.is_set()

    assert run(main())


def test_what_caught_up_unseen_is_listed_when_another_kind_tells_of_the_restore() -> None:
    async def main() -> tuple[Played, ScriptedApi]:
        history = History()
        hears = [event("ADDED", "b", 12), HANG]
        behind = ScriptedApi([page(90), *[page(20)] * 9], [[BROKEN]])
        behind.version = 20
        caught_up = ScriptedApi(
            [page(10, thing("a", 9)), page(14, thing("a", 8))], [[BROKEN], hears, [HANG]]
        )
        caught_up.version = 11
        both = [Played(api, None, history) for api in (behind, caught_up)]
        tasks = [asyncio.create_task(played.informer.run()) for played in both]
        await asyncio.sleep(60.0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return both[1], caught_up

    played, api = run(main())
    assert api.verbs() == ["list", "watch 10", "watch 10", "list", "watch 14"]
    assert played.names == ["a@8"]


def test_a_list_after_a_refused_one_is_right_and_tells_that_the_cluster_went_back() -> None:
    lists = [page(10, thing("a", 9)), page(8, thing("a", 5)), *[page(11, thing("a", 6))] * 2]
    with capture_logs() as logs:
        played, api = play(lists, [[EXPIRED], [HANG]])
    assert api.verbs() == ["list", "watch 10", "list", "list", "list", "watch 11"]
    assert played.names == ["a@6"]
    assert "the cluster was restored" in [line["event"] for line in logs]


def test_an_answer_to_a_write_that_is_newer_than_a_list_under_way_is_no_sign_of_a_restore() -> None:
    async def main() -> tuple[Played, ScriptedApi]:
        lists = [page(10, thing("a", 9)), page(20, more="more"), page(20, thing("a", 9))]
        api = ScriptedApi(lists, [[EXPIRED], [HANG]])
        played = Played(api, None)
        task = asyncio.create_task(played.informer.run())
        while "list more" not in api.verbs():
            await asyncio.sleep(0)
            # version 20 is what is listed, and an object was written at 21
            if api.verbs().count("list") == 2:
                played.store.apply(Record("ns", "a", "uid-a", "21"))
        await asyncio.sleep(30.0)
        task.cancel()
        await asyncio.wait({task})
        return played, api

    with capture_logs() as logs:
        played, api = run(main())
    assert played.names == ["a@21"]
    assert api.verbs() == ["list", "watch 10", "list", "list more", "watch 20"]
    assert "the cluster was restored" not in [line["event"] for line in logs]


def test_a_kind_that_is_defined_and_not_served_for_a_moment_is_waited_for() -> None:
    async def story() -> bool:
        missing = status_error(404, "NotFound", "404 page not found")
        api = SimCluster(Clock(1e9)).client("scaler", Unserved(missing))
        store: Store[Record] = Store(lambda _old, _new: None)
        informer = Informer(
            api,
            POD_GROUPS,
            store,
            record=record,
            decode=Thing,
            namespaces=None,
            rng=random.Random(1),
        )
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(300)
        task.cancel()
        await asyncio.wait({task})
        return informer.synced_or_absent.is_set()

    assert not run(story())


class Unserved(Interceptor):
    """PodGroups are not found."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

    async def before(self, request: Request) -> None:
        if request.resource == POD_GROUPS:
            raise self._error
