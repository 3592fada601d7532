"""How long it takes until a service that lost an instance serves again: the numbers of README's
second paragraph.

Time counts from when the node is not Ready. The stand-ins delete a lost pod after 5 s, stop an
evicted one within 3 s and start one within 12 s; what is left of each duration is the scaler's."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.sim.stories.scenario import Scenario
from tests.simulation.worlds import EXAMPLE, ROOT, played, scenario

DELETED = 5.0
STOPPED = 3.0
STARTED = 12.0
BOUND = 2.0
"""The most that the stand-ins take, in seconds; the last is a scheduler session and what comes
before it."""
TRADE_AFTER = 90.0
MINDIE_PATIENCE = 60.0

SERVICE = [
    EXAMPLE / name
    for name in ("00-rule.yaml", "20-prefill-p0.yaml", "21-prefill-p1.yaml", "30-decode-d0.yaml")
]
WITH_MINDIE = [EXAMPLE]
OTHERS = ROOT / "tests" / "scenarios" / "manifests"


def lost(job: str) -> list[dict[str, object]]:
    return [
        {"at": "3m", "name": "fault", "node": {"of_job": f"mindie/{job}", "becomes": "not-ready"}}
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("manifests", "nodes", "most"),
    [
        (SERVICE, 4, DELETED + BOUND + STARTED),
        (SERVICE, 3, DELETED + TRADE_AFTER + STOPPED + BOUND + STARTED),
        (WITH_MINDIE, 3, DELETED + MINDIE_PATIENCE + DELETED + BOUND + STARTED),
    ],
    ids=["a spare node", "own surplus goes", "MindIE Controller releases a prefill"],
)
def test_a_service_that_lost_its_only_decode_serves_again_in_so_many_seconds(
    manifests: list[Path], nodes: int, most: float, seed: int
) -> None:
    expect = [
        {"at": "2m30s", "running": {"group0": 2, "group1": 1}},
        {"never_for": most, "after": "fault", "running": {"group1": 0}},
        {"running_at_least": {"group0": 1, "group1": 1}},
    ]
    played(
        scenario(nodes, manifests, events=lost("mindie-server-d0"), expect=expect, until="8m"),
        seed=seed,
    )


def test_a_service_that_has_its_minimum_without_the_lost_instance_never_stops_serving() -> None:
    expect = [
        {"never_for": 0, "after": "fault", "running": {"group0": 0}},
        {"never_for": 0, "after": "fault", "running": {"group1": 0}},
        {"running": {"group0": 1, "group1": 1}},
    ]
    played(scenario(3, SERVICE, events=lost("mindie-server-p0"), expect=expect, until="8m"))


def test_a_minimum_of_a_higher_priority_gets_its_room_without_waiting() -> None:
    """The second service comes when nothing is free; it serves when the victim has stopped and its
    own pods run."""
    files = [str(OTHERS / name) for name in ("rule.yaml", "p0.yaml", "p1.yaml", "d0.yaml")]
    gold = {"priorityClass: standard": "priorityClass: gold"}
    serves = {"service": "second/rule/chat", "running": {"group0": 1, "group1": 1}}
    what = {
        "nodes": [{"name": "a-{}", "count": 4, "labels": {"pool": "a"}}],
        "manifests": [OTHERS / "classes.yaml"],
        "copies": [
            {"namespace": "first", "manifests": files},
            {"namespace": "second", "at": "3m", "manifests": files, "replace": gold},
        ],
        "events": [{"at": "3m", "name": "second", "mark": "the second service comes"}],
        "expect": [
            {"service": "first/rule/chat", "at": "2m59s", "running": {"group0": 2, "group1": 1}},
            {**serves, "within": STOPPED + BOUND + STARTED, "after": "second"},
        ],
        "until": "6m",
    }
    played(Scenario.model_validate(what))
