"""A shadow beside whoever makes and schedules the pods: it notes what it would do, and writes
nothing but its notes."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from scaler import app, settings
from scaler.app import App
from scaler.clock import Clock
from scaler.controller import Observer
from scaler.kube.api import CONFIG_MAPS, KubeApi
from scaler.sim import loop
from scaler.sim.cluster import SimCluster
from scaler.sim.stories.play import START, silence_logs
from scaler.sim.stories.scenario import Scenario
from scaler.sim.stories.scenario_run import ScenarioRun
from scaler.sim.stories.timeline import Timeline
from scaler.tools.shadow.command import report_of
from scaler.tools.shadow.record import NAME, Record, decode
from tests.simulation.worlds import A2, EXAMPLE, ROOT
from tests.test_manifests import environment
from tests.test_rights import GuardedApi, Rbac

HOME = "mind-cluster-scaler-shadow"
SERVICE = [
    EXAMPLE / name
    for name in ("00-rule.yaml", "20-prefill-p0.yaml", "21-prefill-p1.yaml", "30-decode-d0.yaml")
]
PLAIN = ROOT / "tests" / "scenarios" / "manifests"


class Beside:
    """A story with a shadow in it that has the rights of manifests/shadow."""

    def __init__(self, scenario: Scenario, **variables: str) -> None:
        self.rbac = Rbac("shadow")
        self.timeline = Timeline(None)
        self._scenario = scenario
        given = argparse.Namespace(http_port="0", identity="replica")
        self._settings = settings.load(given, {**environment("shadow"), **variables})
        self.written: set[tuple[str, str]] = set()
        """Namespaces and resources."""
        self.report: dict[str, Any] = {}
        silence_logs()
        loop.run(self._play())

    async def _play(self) -> None:
        clock = Clock(START)
        cluster = self._cluster = SimCluster(clock)
        await ScenarioRun(
            cluster, clock, self._scenario, controller=self._shadow, timeline=self.timeline, seed=0
        ).play()
        self.written = {
            (one.namespace, one.resource.plural)
            for one in cluster.writes("shadow")
            if not one.error
        }
        kept = next(
            found for found in cluster.peek(CONFIG_MAPS, HOME) if found["metadata"]["name"] == NAME
        )
        self.report = report_of(decode(kept), clock.now())

    async def _shadow(self, _api: KubeApi, clock: Clock, observe: Observer) -> None:
        api = GuardedApi(self._cluster.client("shadow"), self.rbac)
        await App(api, self._settings, clock, observer=observe, seed=0, notes=Record()).run()

    def service(self, namespace: str) -> dict[str, Any]:
        found: dict[str, Any]
        found = next(
            found
            for found in self.report["services"]
            if found["service"].startswith(f"{namespace}/")
        )
        return found


def story(nodes: int, services: int, until: float = 300.0, **more: Any) -> Scenario:
    """Services of two prefills and a decode, one node each."""
    copies = [{"namespace": "chat-{}", "count": services or 1, "manifests": SERVICE}]
    npus = [{"name": "npu-{}", "count": nodes, "labels": {**A2, "pool": "a"}}]
    values: dict[str, Any] = {
        "nodes": npus,
        "copies": copies,
        "until": until,
        "ascend_operator": True,
        **more,
    }
    return Scenario.model_validate(values)


def test_where_the_operator_starts_too_much_the_shadow_says_who_was_held_up_by_what() -> None:
    """Four services that could all serve on eight nodes: the operator runs two of them whole, and
    two not at all."""
    copies = [{"namespace": "chat-{}", "count": 4, "manifests": SERVICE, "at": "1m"}]
    beside = Beside(story(nodes=8, services=0, copies=copies))
    served = [found["serving"] for found in beside.report["services"]]
    assert sum(seconds > 200 for seconds in served) < 4
    kept_out = [found for found in beside.report["services"] if not found["serving"]]
    assert kept_out
    assert all(found["held_up"] > 200 for found in kept_out)
    started = [
        one
        for found in beside.report["services"]
        for one in found["examples"]
        if one["what"] == "started"
    ]
    assert {one["instance"] for one in started} == {"mindie-server-p1"}
    assert all(one["why"] == "it is beyond the 1 of group0 that were wanted" for one in started)
    assert all(not one["until"] and one["seconds"] > 200 for one in started)


def test_a_shadow_writes_nothing_but_its_lease_and_its_notes_and_is_refused_nothing() -> None:
    beside = Beside(story(nodes=8, services=4))
    assert beside.written == {(HOME, "leases"), (HOME, "configmaps")}
    assert beside.rbac.refused == set()
    assert beside.timeline.passes > 10


def test_without_its_guard_and_with_every_right_the_controller_itself_still_begins_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app, "confined", lambda api, _home: api)
    monkeypatch.setattr(Rbac, "check", lambda *_: None)
    beside = Beside(story(nodes=3, services=1, ascend_operator=False))
    assert beside.written == {(HOME, "leases"), (HOME, "configmaps")}
    assert beside.report["totals"]["differences"]["start"]["count"] == 2


def test_where_the_operator_does_the_same_nothing_differs_for_long() -> None:
    beside = Beside(story(nodes=3, services=1, until=900.0))
    (found,) = beside.report["services"]
    assert found["serving"] > 800
    assert found["as_decided"] > 0.97 * found["watched"]
    assert (found["held_up"], found["differences"]["evict"]["count"]) == (0.0, 0)


def test_what_nobody_starts_is_one_difference_that_lasts_however_long_it_does() -> None:
    """Nobody makes any pod: no attempt of the decision passes, and no backoff begins."""
    beside = Beside(story(nodes=3, services=1, until=1800.0, ascend_operator=False))
    (found,) = beside.report["services"]
    assert found["differences"]["start"]["count"] == 2
    assert {one["instance"] for one in found["examples"]} == {
        "mindie-server-p0",
        "mindie-server-d0",
    }
    assert min(one["seconds"] for one in found["examples"]) > 1700
    assert found["could_serve"] > 1700
    assert found["serving"] == found["as_decided"] == 0.0


def test_where_each_service_decides_alone_nobody_says_that_there_was_room_for_it() -> None:
    beside = Beside(
        story(nodes=1, services=1, until=1800.0, ascend_operator=False), SCALER_ARBITRATION="false"
    )
    (found,) = beside.report["services"]
    assert found["differences"]["start"]["count"] == 2
    assert {one["why"].split(", and ")[1] for one in found["examples"]} == {
        "whether there is room is not known"
    }
    assert found["could_serve"] == 0.0


def test_what_was_noted_outlives_a_restart_and_the_time_between_is_not_counted() -> None:
    events = [{"at": "10m", "controller": "stop"}, {"at": "20m", "controller": "start"}]
    beside = Beside(story(nodes=3, services=1, until=1800.0, ascend_operator=False, events=events))
    (found,) = beside.report["services"]
    assert 1080 < found["watched"] < 1200
    assert found["differences"]["start"]["count"] == 2


def test_a_service_that_is_gone_keeps_what_was_noted_of_it() -> None:
    copies = [{"namespace": "chat", "manifests": SERVICE, "lasting": 300.0}]
    beside = Beside(story(nodes=3, services=1, until=600.0, ascend_operator=False, copies=copies))
    (found,) = beside.report["services"]
    assert found["gone"]
    assert 280 < found["watched"] < 310
    assert all(one["until"] for one in found["examples"])


def test_what_the_decision_would_evict_stays_one_difference_while_its_room_is_reserved() -> None:
    """A minimum of a higher priority comes when two prefills of a lower service have its room. It
    waits for that room for `due_back` at most (3b.5a)."""
    service = [PLAIN / name for name in ("rule.yaml", "p0.yaml", "p1.yaml", "d0.yaml")]
    gold = {"priorityClass: standard": "priorityClass: gold"}
    copies = [
        {"namespace": "first", "manifests": service},
        {"namespace": "second", "at": "3m", "manifests": service, "replace": gold},
    ]
    manifests = [PLAIN / "classes.yaml"]
    beside = Beside(story(4, 0, until=470.0, copies=copies, manifests=manifests))
    evict = beside.service("first")["differences"]["evict"]
    assert evict["count"] == 1
    assert evict["seconds"] > 270
    assert beside.service("second")["held_up"] > 270
